"""Whole numbers as people write them: 0, 3–7."""

from collections.abc import Iterable
from typing import Final

_MAX_RANGES: Final = 6  # ranges that are written out


def format_ranges(numbers: Iterable[int]) -> str:
    """Return numbers in their order, neighbours as a range; of very many ranges the first."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    visible = ranges[:_MAX_RANGES]
    text = ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in visible)
    hidden = sum(high - low + 1 for low, high in ranges[_MAX_RANGES:])
    return f"{text} and {hidden} more" if hidden else text
