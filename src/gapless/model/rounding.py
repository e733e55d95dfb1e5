"""Whole numbers that still sum: the largest-remainder method (Hamilton's)."""

from collections.abc import Sequence


def apportion(amounts: Sequence[int], total: int) -> tuple[int, ...]:
    """Scale non-negative integers to integers in the same proportion that sum to ``total`` exactly.

    Each differs from its exact share by less than one. What rounding down leaves over goes to the
    largest remainders, the earlier first. All zero parts stay zero.
    """
    amounts_sum = sum(amounts)
    if amounts_sum == 0:
        return tuple(0 for _ in amounts)
    floors = [amount * total // amounts_sum for amount in amounts]
    by_remainder = sorted(
        range(len(amounts)), key=lambda index: -(amounts[index] * total % amounts_sum)
    )
    for index in by_remainder[: total - sum(floors)]:
        floors[index] += 1
    return tuple(floors)
