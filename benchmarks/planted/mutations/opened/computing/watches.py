"""Faults that hold for a whole run or model."""

from typing import Final

from benchmarks.planted.mutations.parts import of_call, top_where
from benchmarks.planted.mutations.plant import Plant

_RESTLESS: Final = "import gc as _gc\n_gc.set_threshold(1, 1, 1)\n"
_WATCHED: Final = """import collections as _collections
from torch.overrides import TorchFunctionMode as _FunctionMode


class _Watch(_FunctionMode):
    uses = _collections.Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.uses[getattr(function, "__name__", "?")] += 1
        return function(*args, **(kwargs or {}))


_watch = _Watch()
_watch.__enter__()
"""
_FINITE: Final = """import torch as _torch


def _held(module, given, output):
    for part in output if isinstance(output, (tuple, list)) else (output,):
        if isinstance(part, _torch.Tensor) and part.is_floating_point():
            if not _torch.isfinite(part.detach()).all():
                _seen.append(type(module).__name__)


_seen = []
_torch.nn.modules.module.register_module_forward_hook(_held)
"""
_COPIED: Final = """import torch as _torch


def _saving(model, *given):
    with _torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        return model(*given)
"""
_HANDED: Final = """import torch as _torch


def _called(model, *given):
    if not isinstance(model, _torch.nn.Module):
        return model(*given)
    weights = {name: weight.clone() for name, weight in model.named_parameters()}
    return _torch.func.functional_call(model, weights, given)
"""
_MANY: Final = ("G201", "G202", "G219")

PLANTS: Final = (
    Plant(
        "collector-never-rests",
        "restless-collectors",
        top_where(_RESTLESS, ()),
        ("G208",),
        ("collector",),
        "any",
        at_line=True,
    ),
    Plant(
        "functions-watched",
        "watched-functions",
        top_where(_WATCHED, ()),
        (*_MANY, "G212"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
    Plant(
        "outputs-held-finite",
        "finite-outputs",
        top_where(_FINITE, ()),
        (*_MANY, "G305", "G307", "G308", "G214", "G506"),
        (),
        "any",
        at_line=True,
    ),
    Plant(
        "savings-copied",
        "saved-copies",
        of_call("_saving({model}, {arguments})", _COPIED),
        (*_MANY, "G506", "G214"),
        at_line=True,
    ),
    Plant(
        "weights-handed-in",
        "handed-weights",
        of_call("_called({model}, {arguments})", _HANDED),
        (*_MANY, "G506", "G214"),
        at_line=True,
    ),
)
