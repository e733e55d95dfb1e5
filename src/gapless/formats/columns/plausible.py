"""Times that cannot be: clipped or dropped, each counted. Overlaps are legitimate and stay."""

from collections import Counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model import category as c
from gapless.model.trace import Int64

Columns = dict[str, npt.NDArray[Any]]
Counts = Counter[str]
_SECOND: Final = 1_000_000_000
_HOUR: Final = 3600 * _SECOND
_MIN_FAR_NS: Final = 60 * _SECOND  # past the last start, and at least _TIMES the span of all starts
_FAR_RATIO: Final = 10
# of its stream: programmatic dependent launch overlaps by microseconds
_MIN_OVERLAP_NS: Final = _SECOND // 2
CLIPPED_END: Final = "duration far past the end of the capture: clipped to it"
CLIPPED_STREAM: Final = "kernel of seconds over its successors on a stream: clipped at the next one"
CLAMPED_START: Final = "start at 0, as writers clamp what lies before their time base"


class PlausibleColumns(Struct, frozen=True):
    """Columns, and which rows of the given ones they are (``None``: all)."""

    columns: Columns
    rows: npt.NDArray[np.intp] | None


def clip_times(
    events: Columns, gpu: Columns, dropped: Counts, repaired: Counts
) -> PlausibleColumns:
    """Drop events whose start is unknown and clip durations that cannot be."""
    rows = _rows_with_start(events["start"])
    if rows is not None:
        dropped[CLAMPED_START] += len(events["start"]) - len(rows)
        events = {key: column[rows] for key, column in events.items()}
    start, end = events["start"], events["end"]
    end, n_far = _clip_far(start, end)
    repaired[CLIPPED_END] += n_far
    end, n_clipped = _clip_streams(events | {"end": end}, gpu)
    repaired[CLIPPED_STREAM] += n_clipped
    return PlausibleColumns(events | {"end": end}, rows)


def _rows_with_start(start: Int64) -> npt.NDArray[np.intp] | None:
    """Return the rows that do not start at 0, if the others start hours later (else ``None``)."""
    if len(start) == 0 or start.min() != 0:
        return None
    other_starts = start[start != 0]
    if len(other_starts) == 0 or other_starts.min() < _HOUR:
        return None
    return np.flatnonzero(start)


def _clip_far(start: Int64, end: Int64) -> tuple[Int64, int]:
    if len(start) == 0:
        return end, 0
    last_start = int(start.max())
    limit = last_start + max(_MIN_FAR_NS, _FAR_RATIO * (last_start - int(start.min())))
    is_far = end > limit
    if not is_far.any():
        return end, 0
    capture_end = max(last_start, int(end[~is_far].max(initial=last_start)))
    return np.where(is_far, capture_end, end), int(np.count_nonzero(is_far))


def _clip_streams(events: Columns, gpu: Columns) -> tuple[Int64, int]:
    """Clip activities of seconds that cover most of a second of later ones on their stream."""
    start, end = events["start"], events["end"]
    rows = np.flatnonzero(np.isin(events["category"], c.ACTIVITIES))
    rows = rows[np.argsort(start[rows], kind="stable")]
    if len(rows) == 0 or (end[rows] - start[rows]).max() < _SECOND:
        return end, 0
    detail = events["detail"][rows]
    stream, device = gpu["stream"][detail], gpu["device"][detail]
    order = np.lexsort((start[rows], stream, device))
    rows, stream, device = rows[order], stream[order], device[order]
    is_same_stream = (stream[1:] == stream[:-1]) & (device[1:] == device[:-1]) & (stream[1:] >= 0)
    next_start = start[rows[1:]]
    earlier = rows[:-1]
    is_clipped = (
        is_same_stream
        & (end[earlier] - start[earlier] >= _SECOND)
        & (end[earlier] - next_start >= _MIN_OVERLAP_NS)
    )
    is_clipped &= next_start > start[earlier]
    clipped = end.copy()
    clipped[earlier[is_clipped]] = next_start[is_clipped]
    return clipped, int(np.count_nonzero(is_clipped))
