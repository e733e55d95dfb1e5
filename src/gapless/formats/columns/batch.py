"""A batch: what one chunk of a file holds, as columns, ready to cross a pipe.

Ids in a batch (names, tracks, shapes …) count what its maker has met so far; a batch brings along
what its maker had not met before, in the order met; ``assemble`` maps them onto the file's.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

EVENTS: Final = {
    "start": np.int64,
    "end": np.int64,
    "name": np.int32,
    "category": np.uint8,
    "track": np.int32,
    "correlation": np.int64,
    "detail": np.int32,  # −1, a row of GPU, or a shape
}
GPU: Final = {
    "device": np.int32,
    "stream": np.int64,
    "graph_node": np.int64,
    "bytes": np.int64,
    "geometry": np.int32,
    "collective": np.int32,
    "wait_event": np.int64,
    "wait_stream": np.int64,
}
MEMORY: Final = {
    "time": np.int64,
    "bytes": np.int64,
    "allocated": np.int64,
    "reserved": np.int64,
    "device_type": np.int32,
    "device": np.int32,
}
SPANS: Final = {  # begins and ends, in the order of the file
    "time": np.int64,
    "begins": np.uint8,
    "name": np.int32,
    "category": np.uint8,
    "track": np.int32,
}
Group = dict[str, bytes]
TrackLabel = tuple[int | str, int | str, str, str]  # pid, tid, what is named, the name


class FreshEntries(Struct):
    """What the maker of a batch had not met before."""

    names: list[str]
    tracks: list[tuple[int | str, int | str]]
    shapes: list[bytes]
    geometries: list[bytes]
    collectives: list[bytes]


class Batch(Struct):
    """One chunk's events."""

    events: Group
    gpu: Group
    memory: Group
    spans: Group
    fresh: FreshEntries
    labels: list[TrackLabel] = field(default_factory=list[TrackLabel])
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    repaired: dict[str, int] = field(default_factory=dict[str, int])
    # text at the start that is no whole event: the end of the chunk before?
    head: bytes | None = None
    tail: bytes | None = None  # likewise at the end
    footer: bytes | None = None  # what follows the array of events, if it ends in this chunk


def pack(columns: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type]) -> Group:
    """Return the bytes of each column."""
    return {
        key: np.ascontiguousarray(columns[key], dtype=kind).tobytes() for key, kind in kinds.items()
    }


def unpack(group: Group, kinds: Mapping[str, type]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of such bytes; read-only."""
    return {key: np.frombuffer(group[key], dtype=kind) for key, kind in kinds.items()}
