"""Batches pinned and copied to the device, and pictures decoded on it, where there is CUDA."""

from __future__ import annotations

import importlib
import sys
from time import monotonic_ns
from typing import Any, Callable

from . import batches, collating, decoders

PIN, COPY = "pin", "copy"
PINNED, PAGEABLE = "pinned", "pageable"
NVJPEG = "nvJPEG on the GPU"
FLOATS, ON_HOST, ON_DEVICE = "floats", "made on the host", "made on the device"
_PICTURES_DIMENSIONS = 4  # of a batch
_MAX_COMPARED = 16  # pictures


def explain_lack() -> str | None:
    """Return why there is no device to copy to; ``None``: there is one."""
    torch = sys.modules["torch"]
    try:
        return None if torch.cuda.is_available() else "no CUDA device is there"
    except Exception as error:
        return f"no CUDA device can be used: {error}"[:200]


def time_copies(
    batch: Any, samples: int, *, is_pinned: bool, variant: str
) -> dict[tuple[str, str], float]:
    """Time pinning a batch, and copying it pinned and as it is; ``variant``: which batch it is.

    ``is_pinned``: the loader pins, which makes that the present way.
    """
    torch = sys.modules["torch"]
    pin_memory = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory
    start = monotonic_ns()
    pinned = pin_memory(batch)
    pin_ns = monotonic_ns() - start
    pinned_ns, pageable_ns = _time_copy(torch, pinned), _time_copy(torch, batch)
    if variant != batches.NOW:
        return {
            (PIN, variant): pin_ns / samples,
            (COPY, variant): (pinned_ns if is_pinned else pageable_ns) / samples,
        }
    now, other_ns = (pinned_ns, pageable_ns) if is_pinned else (pageable_ns, pinned_ns)
    return {
        (PIN, batches.NOW if is_pinned else PINNED): pin_ns / samples,
        (COPY, batches.NOW): now / samples,
        (COPY, PAGEABLE if is_pinned else PINNED): other_ns / samples,
    }


def time_floats(batch: Any, samples: int) -> dict[tuple[str, str], float]:
    """Time pictures of bytes made floats on the host and copied, and copied and made floats there.

    Either may be what the loop does with them; nothing, where a batch holds none.
    """
    torch = sys.modules["torch"]
    pictures = [
        leaf
        for leaf in collating.leaves(batch)
        if getattr(leaf, "dtype", None) is torch.uint8 and leaf.dim() == _PICTURES_DIMENSIONS
    ]
    if not pictures:
        return {}
    copy_ns = _time_copy(torch, pictures, lambda leaf: (leaf.float() / 255).cuda())
    bytes_ns = _time_copy(torch, pictures, lambda leaf: leaf.cuda().float() / 255)
    return {(FLOATS, ON_HOST): copy_ns / samples, (FLOATS, ON_DEVICE): bytes_ns / samples}


def _time_copy(torch: Any, batch: Any, to_device: Callable[[Any], Any] | None = None) -> int:
    def copy(leaf: Any) -> Any:
        return leaf.cuda(non_blocking=True) if isinstance(leaf, torch.Tensor) else leaf

    torch.cuda.synchronize()
    start = monotonic_ns()
    copied = collating.map_leaves(batch, to_device or copy)
    torch.cuda.synchronize()
    took = monotonic_ns() - start
    del copied
    return took


class GpuDecoder:
    """torchvision's nvJPEG, for a group of pictures at a time."""

    def __init__(self) -> None:
        self._io = importlib.import_module("torchvision.io")

    def decode(self, encoded: list[bytes]) -> list[Any]:
        """Return the pictures, on the device."""
        torch = sys.modules["torch"]
        raw = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in encoded]
        return self._io.decode_jpeg(raw, mode=self._io.ImageReadMode.RGB, device="cuda")

    def time(self, encoded: list[bytes], samples: int) -> dict[tuple[str, str], float]:
        """Time decoding, until the device has done it."""
        torch = sys.modules["torch"]
        torch.cuda.synchronize()
        start = monotonic_ns()
        pictures = self.decode(encoded)
        torch.cuda.synchronize()
        took = monotonic_ns() - start
        del pictures
        return {("decode", NVJPEG): took / samples}

    def difference(self, encoded: list[bytes]) -> dict[str, Any]:
        """Return how far its pixels are off Pillow's."""
        encoded = encoded[:_MAX_COMPARED]
        present = decoders.pillow_decoder()
        largest, total = 0, 0.0
        for data, picture in zip(encoded, self.decode(encoded)):
            before = decoders.to_pixels(present(data)).int()
            difference = (before - decoders.to_pixels(picture).int()).abs()
            largest = max(largest, int(difference.max()))
            total += float(difference.float().mean())
        return {
            "stage": "decode",
            "variant": NVJPEG,
            "max": largest,
            "mean": total / max(1, len(encoded)),
        }
