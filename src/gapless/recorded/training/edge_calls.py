"""Calls that may end steps, and which of several subjects does."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from gapless import wire
from gapless.model.recording import Marks, Window
from gapless.model.trace import Int64
from gapless.recorded.training.stretches import Stretches

# calls of a later kind after the last: then what was called less often ends none
_MIN_LATER_CALLS: Final = 200
Bool = npt.NDArray[np.bool_]


class Endings(Struct, frozen=True):
    """Calls that may end steps, by end: kept marks, and stretches in which some were summed."""

    subject: Int64
    thread: Int64
    end: Int64
    count: Int64
    spent_ns: Int64  # in it
    stretch: Int64  # −1: kept

    def take(self, rows: Bool) -> "Endings":
        """Select calls."""
        return Endings(**{name: column[rows] for name, column in asdict(self).items()})


def find_endings(marks: Marks, stretches: Stretches, kind: int) -> Endings:
    """Return the calls of a kind that may end steps."""
    no_step_flags = wire.RAISED | wire.EXHAUSTED
    rows = np.flatnonzero((marks.kind == kind) & ((marks.flags & no_step_flags) == 0))
    summed_calls = stretches.calls.select(kind).without(no_step_flags)
    end = np.concatenate((marks.end[rows], stretches.end[summed_calls.stretch]))
    order = np.argsort(end, kind="stable")
    single = np.ones(len(rows), np.int64)
    columns = (
        (marks.subject[rows], summed_calls.subject),
        (marks.thread[rows], summed_calls.thread),
        (single, summed_calls.count),
        (marks.end[rows] - marks.start[rows], summed_calls.total),
        (-single, summed_calls.stretch),
    )
    subject, thread, count, spent_ns, stretch = (np.concatenate(pair)[order] for pair in columns)
    return Endings(subject, thread, end[order], count, spent_ns, stretch)


def has_stopped(calls: Endings, later_kinds: Sequence[Endings]) -> bool:
    """Return whether so few calls stopped while those of a later kind went on."""
    if count_values(calls.subject, calls.count)[2].max() >= wire.MIN_ENDING_CALLS:
        return False
    return any(
        int(later_calls.count[later_calls.end > calls.end[-1]].sum()) >= _MIN_LATER_CALLS
        for later_calls in later_kinds
    )


def select_phases(calls: Endings, choose: Callable[[Endings], int]) -> Endings:
    """Select the calls that end steps: of one subject, and of those in its place before or after.

    Optimizers that step one after the other (a layer each, a head first) are phases of one
    training; those that alternate are not.
    """
    anchor = choose(calls)
    is_ending = calls.subject == anchor
    ends = calls.end[is_ending]
    for is_outside in (calls.end < ends.min(), calls.end > ends.max()):
        outside_calls = calls.take(
            is_outside & np.isin(calls.subject, _frequent_subjects(calls, is_outside))
        )
        if len(outside_calls.end):
            outside_endings = select_phases(outside_calls, choose)
            is_ending |= (
                is_outside
                & np.isin(calls.end, outside_endings.end)
                & np.isin(calls.subject, outside_endings.subject)
            )
    return calls.take(is_ending)


def _frequent_subjects(calls: Endings, is_outside: Bool) -> Int64:
    """Return the subjects called often enough besides one, at least half as often as it."""
    subjects, _, totals = count_values(calls.subject, calls.count)
    outside_counts = np.array(
        [calls.count[is_outside & (calls.subject == subject)].sum() for subject in subjects]
    )
    return subjects[(outside_counts >= wire.MIN_ENDING_CALLS) & (2 * outside_counts >= totals)]


def long_step_passes(steps: Endings, passes: Endings) -> Endings | None:
    """Select the backward passes that long steps of one optimizer consist of; ``None``: none do.

    Behind an optimizer's first steps passes are recorded in this case alone, or where hundreds
    make a step; of so few steps the time decides. Of several lines the first that makes enough is
    taken.
    """
    n_first, n_steps = 0, int(steps.count.sum())
    if n_steps > wire.MIN_ENDING_CALLS:
        n_first = int(np.searchsorted(np.cumsum(steps.count), wire.MIN_ENDING_CALLS)) + 1
        n_steps -= int(steps.count[:n_first].sum())
        passes_after = passes.take(passes.end > steps.end[n_first - 1])
    else:
        passes_after = passes
    if not len(passes_after.end) or not n_steps:
        return None
    span_ns = int(passes_after.end[-1] - passes_after.end[0])
    if span_ns < n_steps * wire.LONG_STEP_NS // (2 if n_first else 1):
        return None
    sites, first_seen, counts = count_values(passes_after.subject, passes_after.count)
    rows = np.flatnonzero(counts >= wire.MIN_PASSES * n_steps)
    if not len(rows):
        return None
    return passes.take(passes.subject == sites[rows[np.argmin(first_seen[rows])]])


def count_passes(steps: Endings, passes: Endings) -> int:
    """Return how many backward passes make a step of an optimizer, on average."""
    n_passes = int(passes.count[passes.end <= steps.end[-1]].sum())
    return max(1, round(n_passes / int(steps.count.sum())))


def rarest_subject(calls: Endings) -> int:
    """Return the optimizer with the fewest calls in the steady part; the first seen of equals.

    The steady part is the later half of the time in which anything stepped. An optimizer must have
    been called five times in it; if none was, five times at all, or else once.
    """
    half = calls.end[0] + (calls.end[-1] - calls.end[0]) // 2
    late = calls.take(calls.end > half)
    rarest = (
        _rarest_subject(candidates, min_calls)
        for candidates, min_calls in ((late, wire.MIN_ENDING_CALLS), (calls, wire.MIN_ENDING_CALLS))
    )
    rarest_steady = next((subject for subject in rarest if subject is not None), None)
    return _rarest_subject(calls, 1) or 0 if rarest_steady is None else rarest_steady


def _rarest_subject(calls: Endings, min_calls: int) -> int | None:
    """Return the subject with the fewest calls above a minimum; the first seen of equals."""
    subjects, first_seen, counts = count_values(calls.subject, calls.count)
    eligible = np.flatnonzero(counts >= min_calls)
    if not len(eligible):
        return None
    return int(subjects[eligible[np.lexsort((first_seen[eligible], counts[eligible]))[0]]])


def shown_steps(calls: Endings, anchor: int, windows: Sequence[Window]) -> Endings | None:
    """Return the calls of another optimizer than the anchor that are the steps of all windows.

    Where the anchor steps once in many steps, windows may be over before that is known: what they
    show is then explained by the steps that they hold, and by no others. These begin once all that
    goes on stepping has stepped: the first call makes things ready. ``None``: there is no such, or
    it steps no more by then: it was a phase of its own, such as that of a head.
    """
    subjects, first_seen, counts = count_values(calls.subject, calls.count)
    frequent = np.flatnonzero(counts >= wire.MIN_ENDING_CALLS)
    shown = [
        subject for subject in subjects[frequent].tolist() if _counts_steps(calls, subject, windows)
    ]
    if anchor in shown or len(shown) != 1:
        return None
    ready_ns = calls.end[first_seen[frequent]].max()
    steps = calls.take((calls.subject == shown[0]) & (calls.end >= ready_ns))
    return steps if steps.count.sum() >= wire.MIN_ENDING_CALLS else None


def _counts_steps(calls: Endings, subject: int, windows: Sequence[Window]) -> bool:
    """Return whether there are windows, and each holds as many steps as it has such calls."""
    ends = calls.end[(calls.subject == subject) & (calls.stretch < 0)]
    n_calls = [
        int(np.searchsorted(ends, window.end, "right") - np.searchsorted(ends, window.start))
        for window in windows
    ]
    return bool(windows) and n_calls == [
        window.last_step - window.first_step + 1 for window in windows
    ]


def busiest_subject(calls: Endings) -> int:
    """Return the subject with most calls."""
    return most_frequent(calls.subject, calls.count)


def slowest_subject(calls: Endings) -> int:
    """Return the subject whose calls took most of the time."""
    return most_frequent(calls.subject, calls.spent_ns)


def most_frequent(values: Int64, counts: Int64) -> int:
    """Return the value that occurs most often, the first seen of equals."""
    distinct, first_seen, sums = count_values(values, counts)
    return int(distinct[np.lexsort((first_seen, -sums))[0]])


def count_values(values: Int64, counts: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the distinct values, where each was seen first, and how often they occur."""
    distinct, first_seen, inverse = np.unique(values, return_index=True, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, inverse, counts)
    return distinct, first_seen, sums
