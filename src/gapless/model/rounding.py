"""Whole numbers that still sum: the largest-remainder method (Hamilton's)."""

from collections.abc import Sequence


def apportion(parts: Sequence[int], total: int) -> tuple[int, ...]:
    """Scale non-negative integers to integers in the same proportion that sum to ``total`` exactly.

    Each differs from its exact share by less than one. What rounding down leaves over goes to the
    largest remainders, the earlier first. All zero parts stay zero.
    """
    whole = sum(parts)
    if whole == 0:
        return tuple(0 for _ in parts)
    floors = [part * total // whole for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda at: -(parts[at] * total % whole))
    for at in by_remainder[: total - sum(floors)]:
        floors[at] += 1
    return tuple(floors)
