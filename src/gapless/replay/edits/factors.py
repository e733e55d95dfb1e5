"""The factors of changes that are not known exactly."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from gapless.model.change import Bucket, Change, HostChange, Merge, Scale
from gapless.model.estimate import Estimate

_NAMES: Final[Mapping[type, tuple[str, ...]]] = {
    Scale: ("factor",),
    HostChange: ("factor",),
    Merge: ("device",),
    Bucket: ("latency", "slowdown"),
}
FactorKey = tuple[int, str]  # a change by position, and a field of it


def fix_factor(changes: Sequence[Change], key: FactorKey, end: int) -> tuple[Change, ...]:
    """Return changes with one interval at its low (−1), mid (0) or high (1) end."""
    position, name = key
    return tuple(
        _fix_change(change, name, end) if number == position else change
        for number, change in enumerate(changes)
    )


def open_factors(changes: Sequence[Change]) -> tuple[FactorKey, ...]:
    """Return the places of the factors that are not known exactly."""
    return tuple(
        (number, name)
        for number, change in enumerate(changes)
        for name in _NAMES.get(type(change), ())
        if _factor_of(change, name).low < _factor_of(change, name).high
    )


def _factor_of(change: Change, name: str) -> Estimate:
    factor: Estimate = getattr(change, name)
    return factor


def _fix_change(change: Change, name: str, end: int) -> Change:
    factor = _factor_of(change, name)
    point = (factor.mid, factor.high, factor.low)[end]
    return replace(change, **{name: Estimate(point, point, point)})
