"""Readings of our clock around empty ranges: from them Kineto's clock is found in the file.

The trace itself shows when each range began and ended on Kineto's clock; both lie between our two
readings. What follows of it is computed where the file is read.
"""

from __future__ import annotations

from typing import Any, Callable

RANGE = "gapless:clock"
COUNT = 20


def bracket(make: Callable[[str], Any], now: Callable[[], int]) -> list[tuple[int, int]]:
    """Emit empty ranges; return for each our clock's readings before and after it, in ns."""
    readings: list[tuple[int, int]] = []
    for _ in range(COUNT):
        before = now()
        with make(RANGE):
            pass
        readings.append((before, now()))
    return readings
