"""Faults in what is computed behind a step that a model has no use for."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.amounts import SHARES, share_on
from benchmarks.planted.mutations.opened.computing.operands import powered
from benchmarks.planted.mutations.opened.wording import (
    CHORE,
    DEVICE,
    MANY,
    TORCH,
)
from benchmarks.planted.mutations.parts import amount, of_model, top_where
from benchmarks.planted.mutations.plant import (
    CPU,
    CUDA,
    Plant,
    Site,
)
from benchmarks.planted.source import Change

_READ: Final = ("G305", "G307", "G308", "G301", "G302", "G202", "G201")


def _described(site: Site) -> Sequence[Change] | None:
    """Draw up a list of the layers of the model, with their sizes, for a log."""
    share = share_on(site, SHARES)
    number = str(amount(site, 9.0, share))
    return of_model(_LISTED.replace("{n}", number), "")(site)


_POWER: Final = (
    f"_weight = _torch.ones(32, 32, {DEVICE})\n"
    "_left = _weight[0]\n"
    "for _ in range({n}):\n"
    "    _right = _torch.nn.functional.normalize(_weight.t() @ _left, dim=0)\n"
    "    _left = _torch.nn.functional.normalize(_weight @ _right, dim=0)"
)
_CELLS: Final = (
    "if not _cells:\n"
    "    _cells.append(_torch.nn.GRUCell(16, 16).to({parameters}[0].device))\n"
    f"_hidden = _torch.zeros(8, 16, {DEVICE})\n"
    "with _torch.no_grad():\n"
    "    for _ in range({n}):\n"
    "        _hidden = _cells[0](_hidden, _hidden)"
)
_EXPONENTIAL: Final = (
    f"_generators = 0.01 * _torch.ones({{n}}, 16, 16, {DEVICE})\n"
    "_turns = _torch.linalg.matrix_exp(_generators)"
)
_WIDE: Final = (
    f"_wide = _torch.zeros(1, 1, {{n}}, {{n}}, {DEVICE})\n"
    f"_bell = _torch.ones(1, 1, 31, 31, {DEVICE}) / 961\n"
    "_blurred = _torch.nn.functional.conv2d(_wide, _bell, padding=15)"
)
_WARP: Final = (
    f"_flat = _torch.zeros(1, 3, {{n}}, {{n}}, {DEVICE})\n"
    "_grid = _torch.nn.functional.affine_grid(\n"
    f"    _torch.eye(2, 3, {DEVICE})[None], _flat.shape, align_corners=False\n"
    ")\n"
    "_bent = _torch.nn.functional.grid_sample(_flat, _grid, align_corners=False)"
)
_SHUFFLED: Final = "_order = _torch.randperm({n}).to({parameters}[0].device)\n_first = _order[:8]"
_SCHEDULE: Final = (
    "_rate = _torch.tensor(1.0)\n"
    "for _at in range({n}):\n"
    "    _phase = _torch.tensor(_at / 1000.0)\n"
    "    _rate = _torch.minimum(_rate, 0.5 * (1.0 + _torch.cos(3.14 * _phase)))"
)
_CHECKED: Final = (
    f"_centre = _torch.zeros(256, {DEVICE})\n"
    "for _ in range({n}):\n"
    "    _likely = _torch.distributions.Normal(_centre, _centre + 1.0).log_prob(_centre)"
)
_ADJACENCY: Final = (
    f"_ends = _torch.arange(2 * {{n}}, {DEVICE}).remainder(509).view(2, -1)\n"
    "_graph = _torch.sparse_coo_tensor(\n"
    f"    _ends, _torch.ones({{n}}, {DEVICE}), (509, 509)\n"
    ").coalesce()"
)
_COLLIDING: Final = (
    f"_places = _torch.arange({{n}}, {DEVICE}).remainder(4)\n"
    f"_totals = _torch.zeros(4, {DEVICE}).index_add_(\n"
    f"    0, _places, _torch.ones({{n}}, {DEVICE})\n"
    ")"
)
_BETWEEN: Final = (
    f"_values = _torch.ones({{n}}, {DEVICE})\n"
    "_smooth = _numpy.convolve(_values.cpu().numpy(), _numpy.ones(9) / 9, mode='same')\n"
    "_values = _torch.from_numpy(_smooth).to({parameters}[0].device)"
)
_ARRAYS: Final = "import numpy as _numpy\nimport torch as _torch\n"
_WATCHED: Final = """import torch as _torch


class _Watch(_torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        shapes = [str(tuple(one.shape)) for one in args if isinstance(one, _torch.Tensor)]
        key = f"{name} {' '.join(shapes)}"
        self.calls[key] = self.calls.get(key, 0) + 1
        return func(*args, **(kwargs or {}))


_watch = _Watch()
_watch.__enter__()
"""
_TRIMMED: Final = """import ctypes as _ctypes
_library = _ctypes.CDLL("libc.so.6")
"""
_FREE: Final = "for _ in range({n}):\n    _free, _total = _torch.cuda.mem_get_info()"
_LISTED: Final = (
    "for _ in range(max(1, {n} // (1 + len(list({model}.modules()))))):\n"
    "    _lines = [f'{name}: {layer.extra_repr()}' for name, layer in {model}.named_modules()]"
)
_NEWTON: Final = (
    f"_square = _torch.eye({{n}}, {DEVICE}) * 2.0\n"
    f"_root = _torch.eye({{n}}, {DEVICE})\n"
    "for _ in range(6):\n"
    "    _root = 1.5 * _root - 0.5 * _root @ _root @ _square @ _root * 0.1"
)
_DEPENDENT: Final = (
    "_first = [\n"
    "    (_one, _other, _torch.dot(_short[_one], _short[_other]))\n"
    "    for _one in range({n})\n"
    "    for _other in range(_one)\n"
    "]"
)

PLANTS: Final = (
    Plant(
        "powers-taken-by-turns",
        "power-iterations",
        powered(_POWER, (60.0, 110.0)),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "cells-one-after-other",
        "unrolled-cells",
        powered(_CELLS, (78.0, 60.0), f"{TORCH}_cells = []\n"),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "turns-by-exponential",
        "matrix-exponentials",
        powered(_EXPONENTIAL, (12.0, 0.03)),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "blurred-by-a-square",
        "wide-kernels",
        powered(_WIDE, (6.0, 0.004), power=2.0),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "pictures-bent",
        "bent-pictures",
        powered(_WARP, (0.055, 0.0004), power=2.0),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "order-drawn-for-few",
        "drawn-orders",
        powered(_SHUFFLED, (0.03, 0.02)),
        ("G301", "G302", "G304", "G202", *CHORE),
        at_line=True,
    ),
    Plant(
        "schedule-in-tensors",
        "tensor-schedules",
        powered(_SCHEDULE, (21.0, 16.0)),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "distributions-checked",
        "distribution-checks",
        powered(_CHECKED, (210.0, 260.0)),
        (*_READ, *CHORE, "G506"),
        at_line=True,
    ),
    Plant(
        "graph-put-together-again",
        "graphs-anew",
        powered(_ADJACENCY, (0.11, 0.0012)),
        ("G305", "G307", "G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "sums-into-few-places",
        "colliding-sums",
        powered(_COLLIDING, (0.012, 0.0012)),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "values-through-arrays",
        "array-detours",
        powered(_BETWEEN, (0.008, 0.008), _ARRAYS),
        (*_READ, *CHORE),
        at_line=True,
    ),
    Plant(
        "calls-watched",
        "watched-calls",
        top_where(_WATCHED, ()),
        ("G202", "G212", "G201"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
    Plant(
        "memory-given-back",
        "memory-trims",
        powered("for _ in range({n}):\n    _library.malloc_trim(0)", (1500.0, 1500.0), _TRIMMED),
        ("G202", *CHORE, "G401", "G402"),
        devices=CPU,
        at_line=True,
    ),
    Plant(
        "free-memory-asked",
        "free-memory",
        powered(_FREE, 120.0),
        ("G202", *CHORE, "G305", "G307"),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "layers-listed-again",
        "layer-lists",
        _described,
        ("G202", *CHORE),
        ("no-logging", "log-every"),
        at_line=True,
    ),
    Plant(
        "root-by-newton",
        "matrix-roots",
        powered(_NEWTON, (0.0012, 0.000004), power=3.0),
        ("G506", *MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "products-pair-by-pair",
        "paired-products",
        powered(_DEPENDENT, (1.6, 4.0), f"{TORCH}_short = list(_torch.ones({{n}}, 16))\n", 2.0),
        (*MANY, *CHORE),
        at_line=True,
    ),
)
