"""Steps of a trace that no profiler and no optimizer marks: by what recurs on the training thread.

Each function returns boundaries and the name of what it found them by, or ``None``.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.accounting.host.nesting import find_parents
from gapless.accounting.host.tags import NOT_A_FRAME
from gapless.accounting.host.threads import Threads
from gapless.model import category
from gapless.model.trace import Int64

_LOADER: Final = re.compile(r"^enumerate\(DataLoader\)")
_MODULE: Final = re.compile(r"^nn\.Module: ")
_NUMBER: Final = re.compile(r"\d+")
_MIN_ROUNDS: Final = 4  # of a period, at least
_MIN_PERIOD: Final = 8  # operators of a period: fewer may be a layer, or a loop within a step
_MIN_SAMENESS: Final = 0.95  # of the operators are the same one period later
_SAMENESS_SLACK: Final = 0.01  # by so much less a shorter period may be, and is taken
_MAX_NAMES: Final = 50  # names that are tried
Recurrence = tuple[Int64, str] | None
Bool = npt.NDArray[np.bool_]


def find_user_range(threads: Threads) -> Recurrence:
    """Take the outermost range of the user's that recurs and covers most of the time.

    Of ranges as frequent as that one the first begins the steps. Where no name recurs, numbers in
    names are passed over: "iteration 17".
    """
    events = threads.trace.events
    ranges = (events.category == category.USER_ANNOTATION) & (threads.tags.order == NOT_A_FRAME)
    main_ranges = _main_events(threads, ranges)
    names = _event_names(threads, main_ranges)
    return _find_outermost(threads, main_ranges, names) or _find_outermost(
        threads, main_ranges, [_NUMBER.sub("#", name) for name in names]
    )


def find_hand_overs(threads: Threads) -> Recurrence:
    """Take the beginnings of the hand-overs of the loader that hands over most."""
    events = threads.trace.events
    hand_overs = _match_main_events(threads, category.USER_ANNOTATION, _LOADER)
    if not len(hand_overs):
        return None
    distinct, counts = np.unique(events.name[hand_overs], return_counts=True)
    starts = events.start[hand_overs[events.name[hand_overs] == distinct[counts.argmax()]]]
    return (starts, "batches of a DataLoader") if len(starts) > 2 else None  # noqa: PLR2004


def find_module_calls(threads: Threads) -> Recurrence:
    """Take the calls of the outermost module that recurs and covers most of the time."""
    calls = _match_main_events(threads, category.PYTHON_FUNCTION, _MODULE)
    return _find_outermost(threads, calls, _event_names(threads, calls))


def find_period(threads: Threads) -> Recurrence:
    """Take the period after which the outermost operators of the thread are the same again.

    A step begins where, over all rounds, the thread paused longest before an operator.
    """
    events = threads.trace.events
    operators = _main_events(threads, events.category == category.CPU_OP)
    operators = operators[find_parents(events.start[operators], events.end[operators]) < 0]
    kinds = events.name[operators].astype(np.int64)
    period = _period_length(kinds)
    if period is None:
        return None
    pause = np.zeros(len(operators), np.int64)
    pause[1:] = np.maximum(0, events.start[operators[1:]] - events.end[operators[:-1]])
    position = np.arange(len(operators)) % period
    sums = np.bincount(position[1:], weights=pause[1:], minlength=period)
    phase = int(sums.argmax())
    step_heads = operators[phase::period]
    if len(step_heads) <= 2:  # noqa: PLR2004 - two edges bound one step
        return None
    ends = events.end[operators[np.maximum(np.arange(phase, len(operators), period) - 1, 0)]]
    boundaries = np.where(
        np.arange(phase, len(operators), period) > 0, ends, events.start[step_heads]
    )
    return boundaries, f"a period of {period} operators"


def outermost_ranges(threads: Threads, ranges: Int64) -> Int64:
    """Return of some ranges those of the most frequent kind that lie in no other of them.

    Numbers in names are passed over. Where only one kind is, all of its outermost.
    """
    events = threads.trace.events
    if not len(ranges):
        return ranges
    outer = ranges[find_parents(events.start[ranges], events.end[ranges]) < 0]
    kinds = [_NUMBER.sub("#", label) for label in _event_names(threads, outer)]
    frequent = Counter(kinds).most_common(1)[0][0]
    return outer[[kind == frequent for kind in kinds]]


def _find_outermost(threads: Threads, candidates: Int64, names: Sequence[str]) -> Recurrence:
    """Return the starts of the outermost ranges of a name that recurs, and the end of the last."""
    events = threads.trace.events
    frequency = Counter(names)
    rows = [index for index, name in enumerate(names) if frequency[name] > 1]
    recurring = candidates[rows]
    outer = np.flatnonzero(find_parents(events.start[recurring], events.end[recurring]) < 0)
    labels = [names[rows[row]] for row in outer.tolist()]
    frequency = Counter(labels)
    covered_ns = Counter[str]()
    for position, name in zip(outer.tolist(), labels, strict=True):
        if frequency[name] > 1:
            covered_ns[name] += int(
                events.end[recurring[position]] - events.start[recurring[position]]
            )
    if not covered_ns:
        return None
    top_name = covered_ns.most_common(1)[0][0]
    name = next(label for label in labels if frequency[label] == frequency[top_name])
    steps = recurring[outer[[label == name for label in labels]]]
    return np.append(events.start[steps], events.end[steps[-1]]), name


def _period_length(kinds: Int64) -> int | None:
    """Return the number of operators after which they are the same; ``None``: there is none.

    What is called least, at even distances, tells the longest period; a part of it is taken if the
    operators are as much the same after that.
    """
    distinct, counts = np.unique(kinds, return_counts=True)
    rare = distinct[np.argsort(counts, kind="stable")]
    count_by_kind = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    kinds_by_rarity: list[int] = rare.tolist()
    for kind in [kind for kind in kinds_by_rarity if count_by_kind[kind] >= _MIN_ROUNDS][
        :_MAX_NAMES
    ]:
        positions = np.flatnonzero(kinds == kind)
        period = int(np.median(np.diff(positions)))
        if len(kinds) < _MIN_ROUNDS * period or period < _MIN_PERIOD:
            continue
        sameness = _sameness(kinds, period)
        if sameness >= _MIN_SAMENESS:
            return _shortest_period(kinds, period, sameness)
    return None


def _shortest_period(kinds: Int64, period: int, sameness: float) -> int:
    candidates = (
        period // divisor
        for divisor in range(period // _MIN_PERIOD, 1, -1)
        if period % divisor == 0
    )
    return next(
        (
            candidate
            for candidate in candidates
            if _sameness(kinds, candidate) >= sameness - _SAMENESS_SLACK
        ),
        period,
    )


def _sameness(kinds: Int64, period: int) -> float:
    return float((kinds[period:] == kinds[:-period]).mean())


def _main_events(threads: Threads, rows: Bool) -> Int64:
    """Return events of the training thread, by start; points are left out."""
    events = threads.trace.events
    main_rows = np.flatnonzero(rows & (events.track == threads.main) & (events.end > events.start))
    return main_rows[np.argsort(events.start[main_rows], kind="stable")]


def _match_main_events(threads: Threads, kind: int, pattern: re.Pattern[str]) -> Int64:
    names = np.array([pattern.search(name) is not None for name in threads.trace.names], bool)
    events = threads.trace.events
    return _main_events(threads, (events.category == kind) & names[events.name])


def _event_names(threads: Threads, rows: Int64) -> list[str]:
    numbers: list[int] = threads.trace.events.name[rows].tolist()
    return [threads.trace.names[number] for number in numbers]
