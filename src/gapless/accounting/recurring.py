"""Steps of a trace that no profiler and no optimizer marks: by what recurs on the training thread.

Each function gives boundaries and the name of what it found them by, or ``None``.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.accounting.nesting import parents
from gapless.accounting.tags import NOT_A_FRAME
from gapless.accounting.threads import Threads
from gapless.model import category
from gapless.model.trace import Int64

_LOADER: Final = re.compile(r"^enumerate\(DataLoader\)")
_MODULE: Final = re.compile(r"^nn\.Module: ")
_NUMBER: Final = re.compile(r"\d+")
_ROUNDS: Final = 4  # of a period, at least
_LEAST: Final = 8  # operators of a period: fewer may be a layer, or a loop within a step
_ALIKE: Final = 0.95  # of the operators are the same one period later
_AS_ALIKE: Final = 0.01  # by so much less a shorter period may be, and is taken
_MOST: Final = 50  # names that are tried
Found = tuple[Int64, str] | None
Bool = npt.NDArray[np.bool_]


def by_users_range(threads: Threads) -> Found:
    """Take the outermost range of the user's that recurs and covers most of the time.

    Of ranges as frequent as that one the first begins the steps. Where no name recurs, numbers in
    names are passed over: "iteration 17".
    """
    events = threads.trace.events
    ranges = (events.category == category.USER_ANNOTATION) & (threads.tags.order == NOT_A_FRAME)
    own = _of_main(threads, ranges)
    names = _names(threads, own)
    return _outermost(threads, own, names) or _outermost(
        threads, own, [_NUMBER.sub("#", name) for name in names]
    )


def by_loader(threads: Threads) -> Found:
    """Take the beginnings of the hand-overs of the loader that hands over most."""
    events = threads.trace.events
    handed = _named(threads, category.USER_ANNOTATION, _LOADER)
    if not len(handed):
        return None
    distinct, counts = np.unique(events.name[handed], return_counts=True)
    starts = events.start[handed[events.name[handed] == distinct[counts.argmax()]]]
    return (starts, "batches of a DataLoader") if len(starts) > 2 else None  # noqa: PLR2004


def by_module(threads: Threads) -> Found:
    """Take the calls of the outermost module that recurs and covers most of the time."""
    calls = _named(threads, category.PYTHON_FUNCTION, _MODULE)
    return _outermost(threads, calls, _names(threads, calls))


def by_period(threads: Threads) -> Found:
    """Take the period after which the outermost operators of the thread are the same again.

    A step begins where, over all rounds, the thread paused longest before an operator.
    """
    events = threads.trace.events
    own = _of_main(threads, events.category == category.CPU_OP)
    own = own[parents(events.start[own], events.end[own]) < 0]
    kinds = events.name[own].astype(np.int64)
    period = _period(kinds)
    if period is None:
        return None
    pause = np.zeros(len(own), np.int64)
    pause[1:] = np.maximum(0, events.start[own[1:]] - events.end[own[:-1]])
    place = np.arange(len(own)) % period
    sums = np.bincount(place[1:], weights=pause[1:], minlength=period)
    phase = int(sums.argmax())
    first = own[phase::period]
    if len(first) <= 2:  # noqa: PLR2004 - two edges bound one step
        return None
    ends = events.end[own[np.maximum(np.arange(phase, len(own), period) - 1, 0)]]
    before = np.where(np.arange(phase, len(own), period) > 0, ends, events.start[first])
    return before, f"a period of {period} operators"


def _outermost(threads: Threads, own: Int64, names: Sequence[str]) -> Found:
    """Give the starts of the outermost ranges of a name that recurs, and the end of the last."""
    events = threads.trace.events
    often = Counter(names)
    rows = [at for at, name in enumerate(names) if often[name] > 1]
    recurring = own[rows]
    outer = np.flatnonzero(parents(events.start[recurring], events.end[recurring]) < 0)
    labels = [names[rows[at]] for at in outer.tolist()]
    often = Counter(labels)
    covered = Counter[str]()
    for at, name in zip(outer.tolist(), labels, strict=True):
        if often[name] > 1:
            covered[name] += int(events.end[recurring[at]] - events.start[recurring[at]])
    if not covered:
        return None
    most = covered.most_common(1)[0][0]
    name = next(label for label in labels if often[label] == often[most])
    chosen = recurring[outer[[label == name for label in labels]]]
    return np.append(events.start[chosen], events.end[chosen[-1]]), name


def _period(kinds: Int64) -> int | None:
    """Give the number of operators after which they are the same; ``None``: there is none.

    What is called least, at even distances, tells the longest period; a part of it is taken if the
    operators are as much the same after that.
    """
    distinct, counts = np.unique(kinds, return_counts=True)
    rare = distinct[np.argsort(counts, kind="stable")]
    often = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    kinds_by_rarity: list[int] = rare.tolist()
    for kind in [one for one in kinds_by_rarity if often[one] >= _ROUNDS][:_MOST]:
        at = np.flatnonzero(kinds == kind)
        period = int(np.median(np.diff(at)))
        if len(kinds) < _ROUNDS * period or period < _LEAST:
            continue
        alike = _sameness(kinds, period)
        if alike >= _ALIKE:
            return _shortest(kinds, period, alike)
    return None


def _shortest(kinds: Int64, period: int, alike: float) -> int:
    parts = (period // many for many in range(period // _LEAST, 1, -1) if period % many == 0)
    return next(
        (part for part in parts if _sameness(kinds, part) >= alike - _AS_ALIKE),
        period,
    )


def _sameness(kinds: Int64, period: int) -> float:
    return float((kinds[period:] == kinds[:-period]).mean())


def _of_main(threads: Threads, rows: Bool) -> Int64:
    """Give events of the training thread, by start; points are left out."""
    events = threads.trace.events
    own = np.flatnonzero(rows & (events.track == threads.main) & (events.end > events.start))
    return own[np.argsort(events.start[own], kind="stable")]


def _named(threads: Threads, kind: int, pattern: re.Pattern[str]) -> Int64:
    names = np.array([pattern.search(name) is not None for name in threads.trace.names], bool)
    events = threads.trace.events
    return _of_main(threads, (events.category == kind) & names[events.name])


def _names(threads: Threads, rows: Int64) -> list[str]:
    numbers: list[int] = threads.trace.events.name[rows].tolist()
    return [threads.trace.names[number] for number in numbers]
