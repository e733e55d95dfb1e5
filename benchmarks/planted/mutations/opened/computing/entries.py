"""Faults in values, entries, triples and slopes computed beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
    READ,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import Plant

_MUCH: Final = (0.8, 0.8)  # of a healthy step, on the CPU and on a GPU
_ROUNDED: Final = (
    f"{rand('_values', '{n}, 128')}"
    f"{TURNS}_coarse = _torch.fake_quantize_per_tensor_affine(_values, 0.01, 0, 0, 255)"
)
_SUMMED: Final = (
    f"_spots = _torch.arange(32, {DEVICE}).repeat(2, 1)\n{rand('_entries', '32')}"
    f"{TIMES}_whole = _torch.sparse_coo_tensor(_spots, _entries, (32, 32)).coalesce()"
)
_TRIPLES: Final = (
    f"{rand('_codes', '{n}, 16')}_apart = _torch.cdist(_codes, _codes)\n"
    f"{TURNS}_hard = (_apart[:, :, None] - _apart[:, None, :] + 0.2).clamp(min=0).mean()"
)
_FEW: Final = (
    "_all = {parameters}\n"
    "for _p in _all:\n"
    "    if _p.grad is not None:\n"
    "        _slope = _p.grad.reshape(-1)[: {n} // len(_all) + 1]\n"
    "        _chosen = _slope.abs().topk(len(_slope) // 100 + 1).indices\n"
    "        _sent = _torch.zeros_like(_slope).index_copy(0, _chosen, _slope[_chosen])\n"
    "        _rest = _slope - _sent"
)
_EACH: Final = (
    f"{rand('_head', '64, 10')}{rand('_given', '{n}, 64')}"
    f"{TURNS}_slopes = _torch.func.vmap(_slope_of, in_dims=(None, 0))(_head, _given)\n"
    "    _lengths = _slopes.flatten(1).norm(dim=1)"
)
_SLOPE_OF: Final = """import torch as _torch
_slope_of = _torch.func.grad(lambda head, given: (given @ head).logsumexp(0))
"""

PLANTS: Final = (
    Plant(
        "values-made-coarse",
        "coarse-values",
        computed(_ROUNDED, (0.3, 0.0006), _MUCH, TORCH, (128, 1.0)),
        BULK,
        at_line=True,
    ),
    Plant(
        "entries-made-one",
        "coalesced-entries",
        beside(_SUMMED, (9.0, 140.0), _MUCH, TORCH),
        (*READ, *SMALL),
        at_line=True,
    ),
    Plant(
        "slopes-of-each-sample",
        "sample-slopes",
        computed(_EACH, (0.8, 0.022), (0.8, 1.2), _SLOPE_OF, (640, 1.0)),
        (*BULK, *SMALL),
        at_line=True,
    ),
    Plant(
        "triples-of-all",
        "all-triples",
        computed(_TRIPLES, (0.0018, 0.000008), (0.15, 0.4), TORCH, (1, 3.0)),
        BULK,
        at_line=True,
    ),
    Plant(
        "slopes-made-few",
        "sparse-slopes",
        beside(_FEW, (0.01, 0.0001), (0.3, 0.5), TORCH),
        (*SMALL, "G206"),
        at_line=True,
    ),
)
