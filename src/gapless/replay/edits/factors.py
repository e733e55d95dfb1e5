"""The factors of changes that are not known exactly."""

from collections.abc import Sequence

from gapless.model.change import Change, HostChange, Merge, Scale
from gapless.model.estimate import Estimate


def fix_factor(changes: Sequence[Change], position: int, end: int) -> tuple[Change, ...]:
    """Return changes with one interval (by position) at its low (−1), mid (0) or high (1) end."""
    return tuple(
        _fix_change(change, end) if number == position else change
        for number, change in enumerate(changes)
    )


def open_factors(changes: Sequence[Change]) -> tuple[int, ...]:
    """Return the changes (positions) whose factor is not known exactly."""
    return tuple(
        number
        for number, change in enumerate(changes)
        if (factor := _factor_of(change)) is not None and factor.low < factor.high
    )


def _factor_of(change: Change) -> Estimate | None:
    match change:
        case Scale() | HostChange():
            return change.factor
        case Merge():
            return change.device
        case _:
            return None


def _fix_change(change: Change, end: int) -> Change:
    factor = _factor_of(change)
    if factor is None:
        return change
    point = (factor.mid, factor.high, factor.low)[end]
    exact = Estimate(point, point, point)
    match change:
        case Scale():
            return Scale(exact, change.leaves, change.names)
        case HostChange():
            return HostChange(change.leaves, exact)
        case Merge():
            return Merge(change.names, change.launches, exact)
        case _:
            return change
