"""How far another way's pixels are off the present ones, in steps of 1/255."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import decoders

if TYPE_CHECKING:
    from .observation import Shrink

_MAX_PICTURES = 16
_LEVELS = 256


def compare_decoders(
    alternatives: list[decoders.Decoder],
    encoded: list[bytes],
    shrinks: list[Shrink],
) -> list[dict[str, Any]]:
    """Return the largest and the mean difference of each decoder from the present one.

    Smaller pictures are compared at the size to which the data set shrinks them, where Pillow's.
    """
    present, *more_alternatives = alternatives
    return [
        {"stage": "decode", "variant": other.name, **difference}
        for other in more_alternatives
        if (difference := _compare_all(present, other, encoded[:_MAX_PICTURES], shrinks))
    ]


def _compare_all(
    present: decoders.Decoder, other: decoders.Decoder, encoded: list[bytes], shrinks: Any
) -> dict[str, Any]:
    largest, total, count = 0, 0.0, 0
    for data in encoded:
        before, after = present.decode(data), other.decode(data)
        if other.scale > 1:
            if not shrinks or not hasattr(before, "getbands"):
                return {}
            before, after = (decoders.shrink(image, shrinks[0]) for image in (before, after))
        one, two = decoders.to_pixels(before), decoders.to_pixels(after)
        if one.shape != two.shape:
            return {}
        difference = (one.int() - two.int()).abs()
        largest = max(largest, int(difference.max()))
        total, count = total + float(difference.float().mean()), count + 1
    return {"max": largest, "mean": total / count} if count else {}


def to_bytes(tensor: Any) -> tuple[Any, dict[str, Any]]:
    """Return a float tensor as bytes, and how far they are off it; channels are the second axis.

    Where a channel has no more than 256 values, as a picture that was converted and normalised, a
    table brings them back exactly.
    """
    torch = sys.modules["torch"]
    channels = tensor.transpose(0, 1).reshape(tensor.shape[1], -1).float()
    low, high = channels.amin(1), channels.amax(1)
    span = (high - low).clamp(min=1e-12)
    shape = [1, -1, *([1] * (tensor.dim() - 2))]
    scaled = (tensor.float() - low.view(shape)) / span.view(shape) * (_LEVELS - 1)
    bytes_ = scaled.round().clamp(0, _LEVELS - 1).to(torch.uint8)
    if all(len(torch.unique(channel)) <= _LEVELS for channel in channels):
        return bytes_, {"max": 0, "mean": 0.0}
    difference = (scaled - scaled.round()).abs()
    return bytes_, {"max": float(difference.max()), "mean": float(difference.mean())}


def holds_pictures(leaf: Any) -> bool:
    """Return whether a part of a batch is a batch of pictures in float."""
    torch = sys.modules["torch"]
    return isinstance(leaf, torch.Tensor) and leaf.dim() >= 4 and leaf.is_floating_point()  # noqa: PLR2004
