"""One axis for marks and windows: how far Kineto's clock is from ours, and whether both agree."""

from collections.abc import Sequence

import numpy as np

from gapless.accounting.clock import ClockRanges, match_clocks
from gapless.model.recording import Sums, Window
from gapless.model.trace import Int64
from gapless.recorded.training.processes import Training


def clock_error_ns(window: Window, ranges: ClockRanges | None) -> int | None:
    """Return how well the window's clock is known, in ns; ``None`` if it is not."""
    clock_match = match_clocks(ranges, window.readings) if ranges is not None else None
    return None if clock_match is None else clock_match[1]


def clock_disagreement(
    training: Training, window: Window, ranges: ClockRanges | None
) -> str | None:
    """Describe what is odd about the axis of a window; ``None`` if marks and window agree."""
    clock_match = match_clocks(ranges, window.readings) if ranges is not None else None
    if clock_match is None or ranges is None:
        return "its clock is not known: the file lacks the ranges that show it"
    offset_ns, error_ns = clock_match
    if _has_summed_marks(training.process.mark_sums, window):
        return None
    outside_ns = _max_outside_ns(training.edges.ends, np.array(ranges.steps, np.int64) - offset_ns)
    if outside_ns is None:
        return "its steps are not those of the marks"
    if outside_ns > error_ns:
        return (
            f"its steps lie {outside_ns / 1e6:.3g} ms off the marks, with a clock error of "
            f"{error_ns / 1e6:.3g} ms"
        )
    return None


def _has_summed_marks(sums: Sums | None, window: Window) -> bool:
    """Return whether marks of a window's time were summed up, its steps among them."""
    if sums is None:
        return False
    columns = sums.columns
    return bool(((columns["start"] < window.end) & (columns["end"] > window.start)).any())


def _max_outside_ns(ends: Int64, range_starts: Int64) -> int | None:
    """Return how far ranges after the ends of steps reach outside the following steps, at most.

    ``None`` where there are not as many steps.
    """
    if not len(range_starts):
        return None
    # The step that ended nearest before the middle range, and the others one by one from it.
    middle = len(range_starts) // 2
    candidates = [
        _outside_ns(ends, range_starts, step - middle)
        for step in _nearest_ends(ends, int(range_starts[middle]))
    ]
    distances = [distance for distance in candidates if distance is not None]
    return min(distances, default=None)


def _nearest_ends(ends: Int64, time_ns: int) -> Sequence[int]:
    after = int(np.searchsorted(ends, time_ns, side="right"))
    return (after - 1, after)


def _outside_ns(ends: Int64, range_starts: Int64, first_end: int) -> int | None:
    """Return how far the ranges reach outside, if the first of them follows a given end."""
    if first_end < 0 or first_end + len(range_starts) > len(ends):
        return None
    early_ns = ends[first_end : first_end + len(range_starts)] - range_starts
    following = np.append(ends, np.iinfo(np.int64).max)[
        first_end + 1 : first_end + 1 + len(range_starts)
    ]
    return max(0, int(early_ns.max()), int((range_starts - following).max()))
