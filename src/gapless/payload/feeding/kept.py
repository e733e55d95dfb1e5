"""What is given from memory in the place of being made: samples, and pixels of pictures."""

from __future__ import annotations

import io
import sys
from time import monotonic_ns
from typing import Any

from ..overlay import iterations

SAMPLES, PICTURES = "samples kept", "pictures kept"
_MAX_BYTES = 64 << 20  # of all samples that are kept
_MAX_PICTURES = 32  # of a group


class KeptSamples:
    """Samples as ``sample-cache`` keeps them, as far as that can be."""

    def __init__(self) -> None:
        self.why: str | None = None  # no more are kept
        self._caching = iterations.import_part("caches.sample_cache")
        self._before: Any = None
        self._room = _MAX_BYTES

    def begin(self) -> None:
        """Look at the random generators, before samples are made."""
        self._before = self._caching.random_state()

    def keep(self, samples: list[Any]) -> list[bytes]:
        """Return samples just made as bytes; none, where they must not or cannot be kept."""
        if not self._caching.are_equal(self._before, self._caching.random_state()):
            self.why = "making samples draws random numbers: each is another every time"
        encoded: list[bytes] = []
        for sample in samples if self.why is None else ():
            data = self._caching.encode_sample(sample)
            if data is None:
                self.why = "samples hold objects of a kind that cannot be kept"
                return []
            if len(data) > self._room:
                break
            self._room -= len(data)
            encoded.append(data)
        return encoded


def time_samples(encoded: list[bytes]) -> float:
    """Return the ns that a sample takes from memory."""
    codec = iterations.import_part("sample_codec")
    start = monotonic_ns()
    for data in encoded:
        codec.decode(bytearray(data))
    return (monotonic_ns() - start) / len(encoded)


def time_pictures(encoded: list[bytes]) -> float:
    """Return the ns that a picture of Pillow's takes from memory, decoded before."""
    Image = sys.modules["PIL.Image"]  # noqa: N806 - Pillow's name
    pixels: list[Any] = []
    for data in encoded[:_MAX_PICTURES]:
        with Image.open(io.BytesIO(data)) as picture:
            pixels.append((picture.mode, picture.size, picture.tobytes()))
    start = monotonic_ns()
    for mode, size, data in pixels:
        Image.frombytes(mode, size, bytes(memoryview(data))).convert("RGB")
    return (monotonic_ns() - start) / len(pixels)
