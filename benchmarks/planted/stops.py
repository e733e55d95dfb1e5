"""Find the turns in which the machine stood still, on the side whose turn it was.

A machine may stop, or hardly work, for some steps' time. The rule knows no side, and what a
training does itself it does again: in other turns, or at the same steps of another start.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_MIN_LONG: Final = 1.5  # times the median of its side: a step is long
_MAX_BESIDE: Final = 0.5  # of its excess, that the same step has on the other side
_STOP_RATIO: Final = 3.0  # times the slower side's median: the longest step of a stop …
_STOP_SHARE: Final = 0.05  # … which takes so much of a usual turn of that side
_ECHO_SHARE: Final = 0.25  # of a stop: where another turn has as much, it comes again
_MAX_STOPPED_SHARE: Final = 0.25  # of the turns


@dataclass(frozen=True)
class Turn:
    """What each step of a turn took, in seconds: both sides did the same ones, from the first."""

    start: int
    first_step: int  # its number in the training
    sides: tuple[Sequence[float], Sequence[float]]

    def holds(self, step: int) -> bool:
        """Return whether a step of this number was done in it."""
        return self.first_step <= step < self.first_step + len(self.sides[0])


@dataclass(frozen=True)
class _Lone:
    """The steps of one side of a turn that were long there, and not on the other side."""

    steps: tuple[int, ...]
    excess_s: float  # beyond the median, of all of them
    share: float  # of a usual turn of the slower side, that excess
    ratio: float  # of the longest, had it come upon a usual step of the slower side


def stopped_turns(turns: Sequence[Turn]) -> set[int]:
    """Return which turns hold a stop of the machine: one in four at most, the longest stops first.

    On one side steps took too long, one of them by more than twice the slower side's median, and
    together by 5 % of a usual turn of that side or more: so many seconds are a stop on either side.
    The same steps of the other side took at most half as much too long. Another start did these
    steps, too, and no other turn, of any start, has a quarter as much of that on its side: else the
    training itself may stop there. So nothing is found where there is one start.
    """
    shares: dict[int, float] = {}
    medians_s = {start: _medians_s(turns, start) for start in {turn.start for turn in turns}}
    for side in (0, 1) if len(medians_s) > 1 else ():
        rows = [_find_lone(turn, side, medians_s[turn.start]) for turn in turns]
        for index, lone in enumerate(rows):
            others = [row for place, row in enumerate(rows) if place != index]
            comes_again = any(row.excess_s >= _ECHO_SHARE * lone.excess_s for row in others)
            is_stop = lone.ratio > _STOP_RATIO and lone.share >= _STOP_SHARE
            if is_stop and not comes_again and _are_done_again(lone.steps, turns[index], turns):
                shares[index] = max(lone.share, shares.get(index, 0.0))
    order = sorted(shares, key=lambda index: -shares[index])
    return set(order[: int(_MAX_STOPPED_SHARE * len(turns))])


def _are_done_again(steps: Iterable[int], turn: Turn, turns: Sequence[Turn]) -> bool:
    others = [other for other in turns if other.start != turn.start]
    return all(any(other.holds(step) for other in others) for step in steps)


def _medians_s(turns: Sequence[Turn], start: int) -> tuple[float, float]:
    """Return what a step took on either side: the medians of a start."""
    of_start = [turn.sides for turn in turns if turn.start == start]
    healthy_s, planted_s = (
        statistics.median(seconds for sides in of_start for seconds in sides[side])
        for side in (0, 1)
    )
    return healthy_s, planted_s


def _find_lone(turn: Turn, side: int, medians_s: tuple[float, float]) -> _Lone:
    """Find what is long on one side alone: an evaluation is on both.

    It may take as many seconds on both, or as many steps of its side.
    """
    median_s, median_beside_s = medians_s[side], medians_s[1 - side]
    if min(medians_s) <= 0:
        return _Lone((), 0.0, 0.0, 0.0)
    rows: list[tuple[int, float]] = []
    seconds = zip(turn.sides[side], turn.sides[1 - side], strict=True)
    for step, (step_s, beside_s) in enumerate(seconds, turn.first_step):
        excess_s, excess_beside_s = step_s - median_s, beside_s - median_beside_s
        most_beside_s = excess_beside_s * max(1.0, median_s / median_beside_s)
        if step_s > _MIN_LONG * median_s and most_beside_s <= _MAX_BESIDE * excess_s:
            rows.append((step, excess_s))
    total_s = sum(excess_s for _, excess_s in rows)
    unit_s = max(medians_s)  # the same seconds on either side
    return _Lone(
        tuple(step for step, _ in rows),
        total_s,
        total_s / (unit_s * len(turn.sides[side])),
        1 + max((excess_s for _, excess_s in rows), default=0.0) / unit_s,
    )
