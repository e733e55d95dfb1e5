"""Calls of each way timed in turns: in each round all ways and batch sizes, in an order of its own.

A call is timed from outside, until the device has done it. On a device some more calls are made
one after the other without waiting, which is how many rows it can do.
"""

from __future__ import annotations

import math
import random
import sys
import time
from typing import Any, Callable, NamedTuple

_MIN_ROUNDS, _MAX_ROUNDS = 3, 24
_WARM_CALLS = 3
_MAX_CALLS = 200  # of one cell in one round
BURST = "burst"


class Cell(NamedTuple):
    """One way at one batch size; ``call()`` runs it."""

    batch: str
    way: str
    call: Callable[[], Any]


def warm_up(cell: Cell) -> float:
    """Call it as often as makes it steady; return how long the shortest takes, in seconds."""
    took_s = math.inf
    for _ in range(_WARM_CALLS):
        start = time.perf_counter()
        cell.call()
        _synchronize()
        took_s = min(took_s, time.perf_counter() - start)
    return took_s


def time_rounds(cells: dict[Cell, float], seconds: float, add: Any, say: Any) -> int:
    """Time all cells (each with what a call takes) until the time is over; return the rounds.

    ``add(figures)`` gets, after each cell, {(batch, way): ns of each call}; what a cell raises is
    raised.
    """
    order, generator = list(cells), random.Random(0)  # noqa: S311 - an order
    share_s = seconds / _MAX_ROUNDS / max(1, len(cells))
    has_device = _has_device()
    until = time.monotonic() + seconds
    for number in range(_MAX_ROUNDS):
        if number >= _MIN_ROUNDS and time.monotonic() > until:
            return number
        say(f"measuring: round {number + 1}")
        generator.shuffle(order)
        for cell in order:
            count = max(1, min(_MAX_CALLS, int(share_s / max(cells[cell], 1e-7))))
            add({(cell.batch, cell.way): _time_calls(cell, count)})
            if has_device:
                add({(f"{cell.batch} {BURST}", cell.way): [_time_burst(cell, count)]})
    return _MAX_ROUNDS


def _time_calls(cell: Cell, count: int) -> list[int]:
    cell.call()  # the caches are those of this way again
    _synchronize()
    times: list[int] = []
    for _ in range(count):
        start = time.perf_counter_ns()
        cell.call()
        _synchronize()
        times.append(time.perf_counter_ns() - start)
    return times


def _time_burst(cell: Cell, count: int) -> float:
    """Return how long a call takes when nobody waits for each, in ns."""
    start = time.perf_counter_ns()
    for _ in range(count):
        cell.call()
    _synchronize()
    return (time.perf_counter_ns() - start) / count


def _has_device() -> bool:
    return bool(sys.modules["torch"].cuda.is_initialized())


def _synchronize() -> None:
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
