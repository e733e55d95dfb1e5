"""Leave out what a cause is about, where only rewriting would: in the training's process.

By the slug of the cause: what is done to which module once it is imported. ``PLANTED_REMOVED`` is a
file that is made when something was left out.
"""

import os
import sys

_LEARNING = 6  # times that a backward pass is seen before it is cut


class _Passes:
    """Which optimizers step with the gradients of which backward pass, by its line."""

    def __init__(self):
        self.pending = {}  # optimizer → the passes since it was cleared last
        self.used = {}  # pass → the optimizers that stepped with it
        self.counts = {}

    def begin(self, place):
        """Note a pass; return the parameters whose gradients are used, once that is known."""
        self.counts[place] = self.counts.get(place, 0) + 1
        for places in self.pending.values():
            places.add(place)
        optimizers = self.used.get(place)
        if (
            self.counts[place] <= _LEARNING
            or not optimizers
            or len(optimizers) == len(self.pending)
        ):
            return None
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        return [tensor for group in groups for tensor in group["params"] if tensor.requires_grad]

    def step(self, optimizer, *_):
        for place in self.pending.setdefault(optimizer, set()):
            self.used.setdefault(place, set()).add(optimizer)

    def clear(self, parameters):
        """Forget the passes of optimizers all of whose parameters are cleared."""
        cleared = {id(parameter) for parameter in parameters}
        for optimizer, places in self.pending.items():
            groups = optimizer.param_groups
            if all(id(tensor) in cleared for group in groups for tensor in group["params"]):
                places.clear()


_PASSES = _Passes()


def _tell():
    """Tell that something was left out."""
    with open(os.environ["PLANTED_REMOVED"], "a"):
        pass


def _is_between(file):
    return "/torch/" in file or os.path.dirname(file) == os.path.dirname(__file__)


def _cut_passes(module):
    backward = module.backward

    def cut(tensors, *arguments, **options):
        frame = sys._getframe(1)  # noqa: SLF001 - of the caller
        while frame.f_back is not None and _is_between(frame.f_code.co_filename):
            frame = frame.f_back
        parameters = _PASSES.begin((frame.f_code, frame.f_lineno))
        if parameters and options.get("inputs") is None and len(arguments) <= 3:
            options["inputs"] = parameters
            _tell()
        return backward(tensors, *arguments, **options)

    module.backward = cut


def _watch_steps(module):
    module.register_optimizer_step_pre_hook(_PASSES.step)
    _watch_clearing(
        module.Optimizer,
        lambda optimizer: [
            tensor for group in optimizer.param_groups for tensor in group["params"]
        ],
    )


def _watch_modules(module):
    _watch_clearing(module.Module, lambda model: model.parameters())


def _watch_clearing(kind, parameters_of):
    zero_grad = kind.zero_grad

    def watched(self, *arguments, **options):
        zero_grad(self, *arguments, **options)
        _PASSES.clear(parameters_of(self))

    kind.zero_grad = watched


REMOVALS = {
    "needless-gradients": {
        "torch.autograd": _cut_passes,
        "torch.optim.optimizer": _watch_steps,
        "torch.nn.modules.module": _watch_modules,
    }
}
