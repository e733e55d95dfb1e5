"""The samples of one batch, kept: put together as the loader does, and in other ways."""

from __future__ import annotations

import sys
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Callable

from ..overlay import iterations
from . import collating, pixels
from .result import describe_error

if TYPE_CHECKING:
    from .source import SampleSource

NOW = "now"
RECYCLED, BYTES, TENSORS = "recycled buffer", "uint8 batch", "tensors, not numpy"
COLLATE, HAND_OVER, TOUCH = "collate", "hand-over", "touch"
_MAX_HELD_BYTES = 256 << 20
_PICTURE_DIMENSIONS = 3  # of one sample
_MAX_TYPES = 8  # that are named


class HeldBatch:
    """Samples of a batch, and the batches that can be made of them."""

    def __init__(self, source: SampleSource, *, is_worker: bool) -> None:
        self._source = source
        self._samples: list[Any] = []
        self._as_bytes: list[Any] = []
        self._is_worker, self._recycling = is_worker, None
        if is_worker and source.makes_batches:
            part = iterations.import_part("recycled_collate")
            self._recycling: Any = part.RecycledCollate(source.collate_fn)

    def hold(self, samples: list[Any]) -> None:
        """Keep samples, as many as a batch has, and no more than there is room for."""
        size = sum(map(_size_of, collating.leaves(samples[:1])))
        room = max(1, _MAX_HELD_BYTES // max(1, size))
        count = min(self._source.batch_units, room) - len(self._samples)
        self._samples += samples[: max(0, count)]

    def count(self) -> int:
        """Return how many samples a batch has."""
        return len(self._samples) * self._source.unit_samples()

    def cells(self) -> dict[str, Callable[[], dict[tuple[str, str], float]]]:
        """Return what can be timed of collating, by name."""
        if not self._samples:
            return {}
        cells: dict[str, Any] = {"collate": self._time_now}
        if not self._source.makes_batches:
            return cells
        if self._recycling is not None:
            cells["collate, recycled"] = self._time_recycled
        if self._samples_as_bytes():
            cells["collate, bytes"] = self._time_bytes
        return cells

    def _time_now(self) -> dict[tuple[str, str], float]:
        return {(COLLATE, NOW): self._time(self._source.collate, self._samples)}

    def _time_recycled(self) -> dict[tuple[str, str], float]:
        took = 0
        for _ in range(2):  # the first one has to make the memory
            start = monotonic_ns()
            sent = self._recycling.send(self._samples)
            took = monotonic_ns() - start
            give_back = getattr(sent, "give_back", None)
            if give_back is None:
                return {}  # it is sent as ever
            give_back()
        return {(COLLATE, RECYCLED): took / self.count()}

    def _time_bytes(self) -> dict[tuple[str, str], float]:
        return {(COLLATE, BYTES): self._time(self._source.collate, self._samples_as_bytes())}

    def _time(self, collate: Callable[[Any], Any], samples: list[Any]) -> float:
        start = monotonic_ns()
        batch = collate(samples)
        took = monotonic_ns() - start
        del batch
        return took / self.count()

    def _samples_as_bytes(self) -> list[Any]:
        """Return the samples with their pictures as bytes; none, where they have none."""
        torch = sys.modules["torch"]
        if not self._as_bytes and any(map(_is_picture, collating.leaves(self._samples[:1]))):
            self._as_bytes = collating.map_leaves(
                self._samples,
                lambda leaf: (leaf * 255).to(torch.uint8) if _is_picture(leaf) else leaf,
            )
        return self._as_bytes

    def make(self, way: str) -> Any:
        """Return a batch as it is now, or another way."""
        if way == RECYCLED:
            return self._recycling.send(self._samples)
        batch = self._source.collate(self._samples)
        torch = sys.modules["torch"]
        if way == BYTES:
            return collating.map_leaves(batch, _to_bytes_alike)
        if way == TENSORS:
            return collating.map_leaves(
                batch, lambda leaf: torch.as_tensor(leaf) if _is_numpy(leaf) else leaf
            )
        return batch

    def describe(self) -> dict[str, Any]:
        """Return what a batch is like, and the ways to hand it over; or why there is none."""
        try:
            batch = self._source.collate(self._samples)
        except Exception as error:
            return {"why": f"collating raised {describe_error(error)}"}
        parts = collating.leaves(batch)
        ways = [NOW]
        if any(map(pixels.holds_pictures, parts)):
            ways.append(BYTES)
        if any(map(_is_numpy, parts)):
            ways.append(TENSORS)
        if self._recycling is not None:
            ways.append(RECYCLED)
        return {
            "samples": self.count(),
            "bytes": sum(map(_size_of, parts)),
            "types": list(dict.fromkeys(map(_describe_part, parts)))[:_MAX_TYPES],
            "ways": ways,
            "on_device": any(getattr(part, "is_cuda", False) for part in parts),
        }

    def differences(self) -> list[dict[str, Any]]:
        """Return how far a batch of bytes is off the present one, at its first stage."""
        if not self._samples:
            return []
        is_collated = self._source.makes_batches and bool(self._samples_as_bytes())
        stage = COLLATE if is_collated else HAND_OVER
        parts = collating.leaves(self._source.collate(self._samples))
        return [
            {"stage": stage, "variant": BYTES, **pixels.to_bytes(part)[1]}
            for part in [part for part in parts if pixels.holds_pictures(part)][:1]
        ]


def _to_bytes_alike(part: Any) -> Any:
    """Return pictures as bytes, in shared memory if they were: a worker's collate makes it so."""
    if not pixels.holds_pictures(part):
        return part
    as_bytes = pixels.to_bytes(part)[0]
    return as_bytes.share_memory_() if part.is_shared() else as_bytes


def _is_picture(leaf: Any) -> bool:
    torch = sys.modules["torch"]
    is_tensor = isinstance(leaf, torch.Tensor)
    return is_tensor and leaf.dim() >= _PICTURE_DIMENSIONS and leaf.is_floating_point()


def _is_numpy(part: Any) -> bool:
    return type(part).__module__ == "numpy" and bool(getattr(part, "shape", None))


def _is_array(part: Any) -> bool:
    return _is_numpy(part) or isinstance(part, sys.modules["torch"].Tensor)


def _size_of(part: Any) -> int:
    if isinstance(part, sys.modules["torch"].Tensor):
        return int(part.numel() * part.element_size())
    return int(part.nbytes) if _is_numpy(part) else 0


def _describe_part(part: Any) -> str:
    if _is_array(part):
        return f"{str(part.dtype).replace('torch.', '')} {'×'.join(map(str, part.shape))}".strip()
    return type(part).__name__
