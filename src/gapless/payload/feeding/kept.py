"""What is given from memory in the place of being made: samples, and pixels of pictures."""

from __future__ import annotations

import io
import sys
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from ..overlay import iterations

if TYPE_CHECKING:
    from .source import SampleSource

SAMPLES, PICTURES = "samples kept", "pictures kept"
_MAX_BYTES = 64 << 20  # of all samples that are kept
_MAX_PICTURES = 32  # of a group


class KeptSamples:
    """Samples as ``sample-cache`` keeps them, as far as that can be."""

    def __init__(self, source: SampleSource) -> None:
        self.why: str | None = None  # no more are kept
        self._source = source
        self._caching = iterations.import_part("caches.sample_cache")
        self._store = self._caching.MemoryStore(len(source.units), 1, _MAX_BYTES)
        self._before: Any = None

    def begin(self) -> None:
        """Look at the random generators, before samples are made."""
        self._before = self._caching.random_state()

    def keep(self, units: list[Any], samples: list[Any]) -> list[Any]:
        """Keep samples just made; return those of which that must and can be done."""
        if not self._caching.are_equal(self._before, self._caching.random_state()):
            self.why = "making samples draws random numbers: each is another every time"
        kept: list[Any] = []
        for unit, sample in zip(units, samples) if self.why is None else ():
            data = self._caching.encode_sample(sample)
            if data is None:
                self.why = "samples hold objects of a kind that cannot be kept"
                return []
            if not self._store.put(_key(unit), data):
                break
            kept.append(unit)
        return kept

    def time(self, units: list[Any]) -> float:
        """Return the ns that a sample takes from memory, as many at a time as are given.

        All are held, as those of a batch are: memory that is let go of at once is there again. Each
        process finds the pages for itself, and makes some of the samples all the same.
        """
        self._store.unmap()
        start = monotonic_ns()
        samples = [self._caching.decode(bytearray(self._store.get(_key(unit)))) for unit in units]
        kept_ns = (monotonic_ns() - start) / len(units)
        del samples
        start = monotonic_ns()
        self._caching.encode_sample(self._source.fetch(units[:1])[0])
        made_ns = monotonic_ns() - start
        return kept_ns + made_ns * self._caching.find_check_share(self._source.process_samples)


def _key(unit: Any) -> bytes:
    return repr(unit).encode()


def time_pictures(encoded: list[bytes]) -> float:
    """Return the ns that a picture of Pillow's takes from memory, decoded before."""
    Image = sys.modules["PIL.Image"]  # noqa: N806 - Pillow's name
    pixels: list[Any] = []
    for data in encoded[:_MAX_PICTURES]:
        with Image.open(io.BytesIO(data)) as picture:
            pixels.append((picture.mode, picture.size, picture.tobytes()))
    start = monotonic_ns()
    pictures = [
        Image.frombytes(mode, size, bytes(memoryview(data))).convert("RGB")
        for mode, size, data in pixels
    ]
    return (monotonic_ns() - start) / len(pictures)
