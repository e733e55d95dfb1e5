"""One axis for marks and windows: how far Kineto's clock is from ours, and whether both agree."""

from collections.abc import Sequence

import numpy as np

from gapless.accounting.clock import Seen, match
from gapless.model.recording import Sums, Window
from gapless.model.trace import Int64
from gapless.study.recorded.training import Training


def error_of(window: Window, ranges: Seen | None) -> int | None:
    """Give how well the window's clock is known, in ns; ``None`` if it is not."""
    found = match(ranges, window.readings) if ranges is not None else None
    return None if found is None else found[1]


def disagreement(training: Training, window: Window, ranges: Seen | None) -> str | None:
    """Say what is odd about the axis of a window; ``None`` if marks and window agree."""
    found = match(ranges, window.readings) if ranges is not None else None
    if found is None or ranges is None:
        return "its clock is not known: the file lacks the ranges that show it"
    offset, error = found
    if _summed(training.process.mark_sums, window):
        return None
    beside = _beside(training.edges.ends, np.array(ranges.steps, np.int64) - offset)
    if beside is None:
        return "its steps are not those of the marks"
    if beside > error:
        return (
            f"its steps lie {beside / 1e6:.3g} ms beside the marks, with a clock error of "
            f"{error / 1e6:.3g} ms"
        )
    return None


def _summed(sums: Sums | None, window: Window) -> bool:
    """Tell whether marks of a window's time were summed up, its steps among them."""
    if sums is None:
        return False
    columns = sums.columns
    return bool(((columns["start"] < window.end) & (columns["end"] > window.start)).any())


def _beside(ends: Int64, seen: Int64) -> int | None:
    """Give how far ranges that follow the ends of steps lie outside the steps after them, at most.

    ``None`` where there are not as many steps.
    """
    if not len(seen):
        return None
    # The step that ended nearest before the middle range, and from it the others one by one.
    middle = len(seen) // 2
    found = [_shifted(ends, seen, at - middle) for at in _nearest(ends, int(seen[middle]))]
    known = [one for one in found if one is not None]
    return min(known, default=None)


def _nearest(ends: Int64, time: int) -> Sequence[int]:
    after = int(np.searchsorted(ends, time, side="right"))
    return (after - 1, after)


def _shifted(ends: Int64, seen: Int64, first: int) -> int | None:
    """Give how far the ranges lie outside, if the first of them follows a certain end."""
    if first < 0 or first + len(seen) > len(ends):
        return None
    early = ends[first : first + len(seen)] - seen
    following = np.append(ends, np.iinfo(np.int64).max)[first + 1 : first + 1 + len(seen)]
    return max(0, int(early.max()), int((seen - following).max()))
