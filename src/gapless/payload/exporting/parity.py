"""How far the outputs of an exported model are off those of the model itself.

The tolerance is a share of the largest value of the same output: what formats of that many digits
lose when sums are taken in another order.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from . import trees

_TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 4e-2,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
_SHORT_FLOAT32 = 5e-3  # TF32, or autocast: float32 outputs of shorter products
_OTHER_FLOATS = 0.1  # formats of 8 bits


def compare_outputs(original: Any, copy: Any, *, is_short: bool = False) -> dict[str, Any]:
    """Return the worst of all outputs: its name, how far it is off, whether that is tolerated.

    ``other`` may be a flat list. ``is_short``: products in the model have fewer digits.
    """
    names, originals = trees.name_outputs(original), trees.tensors_of(original)
    copies = trees.tensors_of(copy)
    if len(originals) != len(copies):
        why = f"{len(copies)} outputs in place of {len(originals)}"
        return {"within": False, "output": None, "why": why}
    worst: dict[str, Any] = {"within": True, "output": None, "why": "it has no tensor as output"}
    for name, tensor, result in zip(names, originals, copies):
        difference = {"output": name, **compare_tensors(tensor, result, is_short=is_short)}
        if worst["output"] is None or badness(difference) > badness(worst):
            worst = difference
    return worst


def compare_tensors(original: Any, copy: Any, *, is_short: bool = False) -> dict[str, Any]:
    """Return how far a tensor is off another, where it is farthest, and whether that is tolerated.

    ``share``: of the largest value; where shapes or missing values differ, there is none.
    """
    torch = sys.modules["torch"]
    if tuple(original.shape) != tuple(copy.shape):
        why = f"its shape is {list(copy.shape)} in place of {list(original.shape)}"
        return {"within": False, "why": why}
    dtype = str(original.dtype).replace("torch.", "")
    original, copy = original.detach().cpu(), copy.detach().cpu()
    if not original.numel():
        return {"within": True, "dtype": dtype, "share": 0.0, "tolerance": 0.0}
    if not (original.is_floating_point() or original.is_complex()):
        return _compare_whole_numbers(original, copy, dtype)
    wide = torch.complex128 if original.is_complex() else torch.float64
    original, copy = original.to(wide), copy.to(wide)
    is_finite = torch.isfinite(original)
    if not bool((is_finite == torch.isfinite(copy)).all()):
        return {"within": False, "dtype": dtype, "why": "values are not finite in other places"}
    zero = torch.zeros((), dtype=wide)
    differences = torch.where(is_finite, original - copy, zero).abs()
    largest = float(torch.where(is_finite, original, zero).abs().max())
    index = int(differences.argmax())
    most = float(differences.flatten()[index])
    tolerance = _SHORT_FLOAT32 if is_short and dtype == "float32" else _tolerance(dtype)
    share = most / largest if largest else (0.0 if not most else math.inf)
    return {
        "within": share <= tolerance,
        "dtype": dtype,
        "share": share if math.isfinite(share) else None,
        "tolerance": tolerance,
        "difference": most,
        "largest": largest,
        "at": _position(index, tuple(original.shape)),
        "own": float(original.flatten()[index].real),
        "other": float(copy.flatten()[index].real),
    }


def _compare_whole_numbers(original: Any, copy: Any, dtype: str) -> dict[str, Any]:
    """Compare numbers that must be the same: the share of those that are not."""
    is_off = (original != copy).flatten()
    index = int(is_off.int().argmax())
    share = float(is_off.double().mean())
    return {
        "within": share == 0.0,
        "dtype": dtype,
        "share": share,
        "tolerance": 0.0,
        "at": _position(index, tuple(original.shape)),
        "own": float(original.flatten()[index]),
        "other": float(copy.flatten()[index]),
    }


def _tolerance(dtype: str) -> float:
    return _TOLERANCES.get(dtype, _OTHER_FLOATS)


def badness(difference: dict[str, Any]) -> float:
    """Return how many times the tolerance a difference is; infinite where shapes differ."""
    share, tolerance = difference.get("share"), difference.get("tolerance")
    if share is None:
        return math.inf
    return share / tolerance if tolerance else (math.inf if share else 0.0)


def _position(index: int, shape: tuple[int, ...]) -> list[int]:
    """Return the indices of an element of a tensor from its number."""
    position: list[int] = []
    for size in reversed(shape):
        index, digit = divmod(index, size)
        position.insert(0, digit)
    return position
