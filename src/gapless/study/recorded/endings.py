"""Calls that may end steps, and which of several things does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.model.recording import Marks
from gapless.model.trace import Int64
from gapless.study.recorded.stretches import Stretches

ENOUGH: Final = 5  # calls from which an optimizer may end steps
_FAR: Final = 200  # calls of a later kind after the last, and what was called more seldom ends none
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Endings:
    """Calls that may end steps, by end: kept marks, and stretches in which some were summed."""

    subject: Int64
    thread: Int64
    end: Int64
    count: Int64
    spent: Int64  # in it
    stretch: Int64  # −1: it was kept

    def take(self, rows: Bool) -> "Endings":
        """Select calls."""
        return Endings(**{name: column[rows] for name, column in vars(self).items()})


def endings(marks: Marks, found: Stretches, kind: int) -> Endings:
    """Give the calls of a kind that may end steps."""
    no_end = wire.RAISED | wire.EXHAUSTED
    rows = np.flatnonzero((marks.kind == kind) & ((marks.flags & no_end) == 0))
    summed = found.calls.of(kind).without(no_end)
    end = np.concatenate((marks.end[rows], found.end[summed.stretch]))
    order = np.argsort(end, kind="stable")
    ones = np.ones(len(rows), np.int64)
    columns = (
        (marks.subject[rows], summed.subject),
        (marks.thread[rows], summed.thread),
        (ones, summed.count),
        (marks.end[rows] - marks.start[rows], summed.total),
        (-ones, summed.stretch),
    )
    subject, thread, count, spent, stretch = (np.concatenate(both)[order] for both in columns)
    return Endings(subject, thread, end[order], count, spent, stretch)


def stopped(calls: Endings, later: Sequence[Endings]) -> bool:
    """Tell whether so few calls stopped while those of a later kind went on."""
    if counted_up(calls.subject, calls.count)[2].max() >= ENOUGH:
        return False
    return any(int(one.count[one.end > calls.end[-1]].sum()) >= _FAR for one in later)


def phases(calls: Endings, choose: Callable[[Endings], int]) -> Endings:
    """Select the calls that end steps: of one thing, and of what had its place before or after.

    Optimizers that step one after the other (a layer each, a head first) are phases of one
    training; those that alternate are not.
    """
    chosen = choose(calls)
    taken = calls.subject == chosen
    ends = calls.end[taken]
    for aside in (calls.end < ends.min(), calls.end > ends.max()):
        others = calls.take(aside & np.isin(calls.subject, _mostly(calls, aside)))
        if len(others.end):
            held = phases(others, choose)
            taken |= aside & np.isin(calls.end, held.end) & np.isin(calls.subject, held.subject)
    return calls.take(taken)


def _mostly(calls: Endings, aside: Bool) -> Int64:
    """Give the subjects that were called often enough aside, at least half of all times."""
    subjects, _, whole = counted_up(calls.subject, calls.count)
    there = np.array([calls.count[aside & (calls.subject == one)].sum() for one in subjects])
    return subjects[(there >= ENOUGH) & (2 * there >= whole)]


def fewest(calls: Endings) -> int:
    """Give the optimizer with the fewest calls in the steady part; the first seen of equals.

    The steady part is the later half of the time in which anything stepped. An optimizer must have
    been called five times in it; where none was: five times at all, and else once.
    """
    half = calls.end[0] + (calls.end[-1] - calls.end[0]) // 2
    late = calls.take(calls.end > half)
    seldom = (_seldom(some, least) for some, least in ((late, ENOUGH), (calls, ENOUGH)))
    found = next((one for one in seldom if one is not None), None)
    return _seldom(calls, 1) or 0 if found is None else found


def _seldom(calls: Endings, least: int) -> int | None:
    """Give the subject of the fewest calls, but of so many at least; the first seen of equals."""
    subjects, first, counts = counted_up(calls.subject, calls.count)
    able = np.flatnonzero(counts >= least)
    if not len(able):
        return None
    return int(subjects[able[np.lexsort((first[able], counts[able]))[0]]])


def busiest(calls: Endings) -> int:
    """Give the subject with most calls."""
    return most(calls.subject, calls.count)


def longest(calls: Endings) -> int:
    """Give the subject whose calls took most of the time."""
    return most(calls.subject, calls.spent)


def most(values: Int64, counts: Int64) -> int:
    """Give the value that occurs most often, the first seen of equals."""
    distinct, first, sums = counted_up(values, counts)
    return int(distinct[np.lexsort((first, -sums))[0]])


def counted_up(values: Int64, counts: Int64) -> tuple[Int64, Int64, Int64]:
    """Give the distinct values, where each was seen first, and how often they occur."""
    distinct, first, at = np.unique(values, return_index=True, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, at, counts)
    return distinct, first, sums
