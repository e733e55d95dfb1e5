"""Note how many elements a training gives its models in a few steps: whether batches grew."""

from .notes import note

_STEPS = 4  # that are counted, behind the first one


class _Growth:
    def __init__(self):
        self.module = self.call = None
        self.depth = self.elements = self.steps = 0

    def watch_modules(self, module):
        self.module, self.call = module.Module, module.Module.__call__
        call = self.call

        def counted(model, *arguments, **options):
            if not self.depth and self.steps:
                self.elements += _count((arguments, options))
            self.depth += 1
            try:
                return call(model, *arguments, **options)
            finally:
                self.depth -= 1

        self.module.__call__ = counted

    def watch_steps(self, module):
        module.register_optimizer_step_post_hook(self.step)

    def step(self, *_):
        """Count a step; after the last one nothing is watched any more."""
        self.steps += 1
        if self.steps == 1 + _STEPS:
            note("elements", str(self.elements))
            self.module.__call__ = self.call


def _count(given):
    if isinstance(given, dict):
        return sum(map(_count, given.values()))
    if isinstance(given, (tuple, list)):
        return sum(map(_count, given))
    is_tensor = hasattr(given, "numel") and hasattr(given, "dtype")
    is_weight = is_tensor and given.is_leaf and given.requires_grad  # as large as ever
    return given.numel() if is_tensor and not is_weight else 0


_GROWTH = _Growth()
ACTS = {
    "torch.nn.modules.module": _GROWTH.watch_modules,
    "torch.optim.optimizer": _GROWTH.watch_steps,
}
