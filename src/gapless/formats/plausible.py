"""Times that cannot be: clipped or dropped, each counted. Overlaps are legitimate and stay."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gapless.model import category as c
from gapless.model.trace import Int64

Columns = dict[str, npt.NDArray[Any]]
Tallied = Counter[str]
_SECOND: Final = 1_000_000_000
_HOUR: Final = 3600 * _SECOND
_FAR: Final = 60 * _SECOND  # past the last start, and at least _TIMES the span of all starts
_TIMES: Final = 10
_SWALLOWS: Final = (
    _SECOND // 2
)  # of its stream: programmatic dependent launch overlaps by microseconds
CLIPPED_END: Final = "duration far past the end of the capture: clipped to it"
CLIPPED_STREAM: Final = "kernel of seconds over its successors on a stream: clipped at the next one"
CLAMPED_START: Final = "start at 0, as writers clamp what lies before their time base"


@dataclass(frozen=True)
class Mended:
    """Columns, and which rows of the given ones they are (``None``: all)."""

    columns: Columns
    kept: npt.NDArray[np.intp] | None


def mend(events: Columns, gpu: Columns, dropped: Tallied, repaired: Tallied) -> Mended:
    """Drop events whose start is unknown and clip durations that cannot be."""
    kept = _known_start(events["start"])
    if kept is not None:
        dropped[CLAMPED_START] += len(events["start"]) - len(kept)
        events = {key: column[kept] for key, column in events.items()}
    start, end = events["start"], events["end"]
    end, far = _clip_far(start, end)
    repaired[CLIPPED_END] += far
    end, swallowing = _clip_streams(events | {"end": end}, gpu)
    repaired[CLIPPED_STREAM] += swallowing
    return Mended(events | {"end": end}, kept)


def _known_start(start: Int64) -> npt.NDArray[np.intp] | None:
    """Give the rows that do not start at 0, if the others start hours later (else ``None``)."""
    if len(start) == 0 or start.min() != 0:
        return None
    others = start[start != 0]
    if len(others) == 0 or others.min() < _HOUR:
        return None
    return np.flatnonzero(start)


def _clip_far(start: Int64, end: Int64) -> tuple[Int64, int]:
    if len(start) == 0:
        return end, 0
    last = int(start.max())
    limit = last + max(_FAR, _TIMES * (last - int(start.min())))
    far = end > limit
    if not far.any():
        return end, 0
    capture_end = max(last, int(end[~far].max(initial=last)))
    return np.where(far, capture_end, end), int(np.count_nonzero(far))


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
    same = (stream[1:] == stream[:-1]) & (device[1:] == device[:-1]) & (stream[1:] >= 0)
    follows = start[rows[1:]]
    here = rows[:-1]
    bad = same & (end[here] - start[here] >= _SECOND) & (end[here] - follows >= _SWALLOWS)
    bad &= follows > start[here]
    clipped = end.copy()
    clipped[here[bad]] = follows[bad]
    return clipped, int(np.count_nonzero(bad))
