"""Settings that a training chose, and that no edit of gapless' changes: as if it had not."""

from .notes import note


def _skip_checks(module):
    begin = module.Distribution.__init__

    def unchecked(self, *shapes, **options):
        begin(self, *shapes[:2], **{**options, "validate_args": False})
        note("removed")

    module.Distribution.set_default_validate_args(False)
    module.Distribution.__init__ = unchecked


def _leave_autocast(module):
    enter = module.autocast.__init__

    def disabled(self, *arguments, **options):
        enter(self, *arguments, **{**options, "enabled": False})
        note("removed")

    module.autocast.__init__ = disabled


def _use_single(module):
    """Give fp32 wherever fp64 is asked for."""
    convert = module.Tensor.to

    def single(self, *_, **__):
        note("removed")
        return self.float()

    def converted(self, *arguments, **options):
        arguments = [module.float32 if item is module.float64 else item for item in arguments]
        if options.get("dtype") is module.float64:
            options["dtype"] = module.float32
        return convert(self, *arguments, **options)

    set_default = module.set_default_dtype
    module.Tensor.double = module.nn.Module.double = single
    module.Tensor.to = converted
    module.set_default_dtype = lambda dtype: (
        note("removed") or set_default(module.float32 if dtype is module.float64 else dtype)
    )


def _leave_profiler(module):
    for name in ("start", "stop", "step"):
        setattr(module.profile, name, lambda *_: note("removed"))


PROFILER_ACTS = {"torch.profiler.profiler": _leave_profiler}
CHECK_ACTS = {"torch.distributions.distribution": _skip_checks}
AUTOCAST_ACTS = {"torch.amp.autocast_mode": _leave_autocast}
DOUBLE_ACTS = {"torch": _use_single}
