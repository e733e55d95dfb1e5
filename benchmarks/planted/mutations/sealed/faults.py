"""Faults of the unseen half: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed, in_samples
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
    MADE,
    MORE,
    PYTHON,
    READ,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import Plant

_MUCH: Final = (0.8, 0.8)  # of a healthy step, on the CPU and on a GPU
_BESIDE: Final = (0.8, 1.9)  # the same of what a busy GPU leaves to the host
_ROUNDED: Final = (
    f"{rand('_values', '{n}, 128')}"
    f"{TURNS}_coarse = _torch.fake_quantize_per_tensor_affine(_values, 0.01, 0, 0, 255)"
)
_SUMMED: Final = (
    f"_spots = _torch.arange(32, {DEVICE}).repeat(2, 1)\n{rand('_entries', '32')}"
    f"{TIMES}_whole = _torch.sparse_coo_tensor(_spots, _entries, (32, 32)).coalesce()"
)
_WISHES: Final = "_wishes = [[(7 * _a + 3 * _b) % 11 for _b in range(12)] for _a in range(12)]\n"
_MATCHED: Final = f"""{TIMES}_free, _asked, _held = list(range(12)), [0] * 12, {{}}
    while _free:
        _one = _free.pop()
        _other = sorted(range(12), key=_wishes[_one].__getitem__)[_asked[_one]]
        _asked[_one] += 1
        _rival = _held.get(_other, _one)
        if _wishes[_other][_one] <= _wishes[_other][_rival]:
            _held[_other], _one = _one, _rival
        if _held[_other] != _one:
            _free.append(_one)"""
_SCRAMBLED: Final = """for _ in range({n}):
    _state, _bits = 0xACE1, []
    for _ in range(64):
        _bit = (_state ^ _state >> 2 ^ _state >> 3 ^ _state >> 5) & 1
        _state = _state >> 1 | _bit << 15
        _bits.append(_bit)"""

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
        "pairs-matched-stably",
        "stable-matchings",
        beside(_MATCHED, 13.0, _BESIDE, _WISHES),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "bits-scrambled",
        "scrambled-bits",
        in_samples(_SCRAMBLED, 12.0, _BESIDE, ""),
        MADE,
        MORE,
        "loader",
        at_line=True,
    ),
)
