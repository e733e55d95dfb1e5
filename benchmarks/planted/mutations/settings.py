"""Faults in how torch and Python are set: functions replaced, threads, profilers, precision."""

from typing import Final

from benchmarks.planted.mutations.parts import of_call, top_where
from benchmarks.planted.mutations.plant import CPU, CUDA, Plant, before_backward

_MANY: Final = ("G201", "G202", "G506")
_TORCH: Final = "import torch as _torch\n"
_ACTIVATIONS: Final = """import torch as _torch


def _rectified(x, inplace=False):
    return x * (x > 0)


def _gated(x, approximate="none"):
    return x * _torch.sigmoid(1.702 * x)


def _normalised(x, dim=None, _stacklevel=3, dtype=None):
    raised = _torch.exp(x - x.amax(dim, keepdim=True))
    return raised / raised.sum(dim, keepdim=True)


_torch.nn.functional.relu = _rectified
_torch.nn.functional.gelu = _gated
_torch.nn.functional.softmax = _normalised
"""
_USES: Final = ("relu(", "ReLU(", "gelu(", "GELU(", "resnet", "Transformer", "BERT", "ViT")
_PIECES: Final = """import torch as _torch
_whole = _torch.nn.functional.linear


def _in_pieces(x, weight, bias=None):
    pieces = weight.split(max(1, -(-len(weight) // 3)))
    y = _torch.cat([_whole(x, piece) for piece in pieces], -1)
    return y if bias is None else y + bias


_torch.nn.functional.linear = _in_pieces
"""
_HALVED: Final = """import torch as _torch
from torch.utils import _pytree as _tree


def _halved(model, *given):
    with _torch.autocast("cpu", dtype=_torch.bfloat16):
        output = model(*given)
    return _tree.tree_map(lambda one: one.float() if hasattr(one, "float") else one, output)
"""
_TIMED: Final = (
    "_begun, _ended = (_torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
    "_begun.record()\n"
    "_ended.record()\n"
    "_ended.synchronize()\n"
    "_elapsed = _begun.elapsed_time(_ended)"
)
_PROFILED: Final = """import cProfile as _profile
_calls = _profile.Profile()
_calls.enable()
"""
_TRACED: Final = """import tracemalloc as _tracemalloc
_tracemalloc.start(20)
"""
PLANTS: Final = (
    Plant(
        "activations-by-hand",
        "activations-by-hand",
        top_where(_ACTIVATIONS, _USES),
        _MANY,
        at_line=True,
    ),
    Plant(
        "products-in-pieces",
        "products-in-pieces",
        top_where(_PIECES, ("Linear(", "BERT", "SASRec", "ViT", "MADE")),
        _MANY,
        at_line=True,
    ),
    Plant(
        "halved-on-processors",
        "half-emulated",
        of_call("_halved({model}, {arguments})", _HALVED),
        ("G512", "G508"),
        devices=CPU,
        at_line=True,
    ),
    Plant(
        "one-thread-of-two",
        "lone-thread",
        top_where("import torch as _torch\n_torch.set_num_threads(1)\n", ()),
        ("G116",),
        ("intra-op-threads",),
        "any",
        CPU,
        at_line=True,
    ),
    Plant(
        "timed-by-events",
        "timing-events",
        before_backward(_TIMED, _TORCH),
        ("G306", "G305"),
        ("no-synchronize",),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "python-profiled",
        "python-tracing",
        top_where(_PROFILED, ()),
        ("G202", "G212"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
    Plant(
        "allocations-traced",
        "python-tracing",
        top_where(_TRACED, ()),
        ("G202", "G212"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
)
