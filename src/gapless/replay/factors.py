"""The factors of changes that are not known exactly."""

from collections.abc import Sequence

from gapless.model.change import Change, Hosted, Merge, Scale
from gapless.model.interval import Interval


def settled(changes: Sequence[Change], which: int, end: int) -> tuple[Change, ...]:
    """Give changes with one interval (by position) at its low (−1), middle (0) or high (1) end."""
    return tuple(_at(one, end) if number == which else one for number, one in enumerate(changes))


def open_intervals(changes: Sequence[Change]) -> tuple[int, ...]:
    """Give the changes (positions) whose factor is not known exactly."""
    return tuple(
        number
        for number, one in enumerate(changes)
        if (found := _interval(one)) is not None and found.low < found.high
    )


def _interval(change: Change) -> Interval | None:
    match change:
        case Scale() | Hosted():
            return change.factor
        case Merge():
            return change.device
        case _:
            return None


def _at(change: Change, end: int) -> Change:
    found = _interval(change)
    if found is None:
        return change
    value = (found.mid, found.high, found.low)[end]
    fixed = Interval(value, value, value)
    match change:
        case Scale():
            return Scale(fixed, change.leaves, change.names)
        case Hosted():
            return Hosted(change.leaves, fixed)
        case Merge():
            return Merge(change.names, change.launches, fixed)
        case _:
            return change
