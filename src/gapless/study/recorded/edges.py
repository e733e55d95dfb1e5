"""Where the steps of a training process end: the anchor rule, and which steps were profiled."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, empty, overlap, union
from gapless.model.recording import Fact, Marks, Process
from gapless.model.trace import Int64
from gapless.study.recorded.stretches import Stretches, stretches

_ENOUGH: Final = 5  # calls from which an optimizer may be the anchor
_FAR: Final = 200  # batches after its last step, and what stepped more seldom is no anchor
_BLOCK: Final = 10  # steps of a block of the bootstrap, at least
_STEADY: Final = 50  # steps below which no noise is given
_ROUNDS: Final = 400  # of the bootstrap
_RECENT: Final = 20_000  # steps that the bootstrap looks at, at most
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Edges:
    """The ends of a process's steps, the thread that steps, and the rule that found them.

    Between two ends lies one step, or more where calls were summed in between.
    """

    ends: Int64
    thread: int | None
    rule: str  # "optimizer" | "loader" | "none"
    anchor: str  # "SGD.step, train.py:41"
    many: Int64  # steps that lie between each end and the next
    count: int  # steps that ended
    summed: Lane  # stretches in which some ended that were not kept one by one
    first: int | None  # when the first one ended, if it was kept

    @property
    def noted(self) -> Bool:
        """Tell which stretches between two ends are one step each."""
        return self.many == 1


def fact_of(process: Process, noun: str, number: int) -> Fact | None:
    """Give the fact of a thing by its number, ``None`` if none was written."""
    return next((one for one in process.facts if one.noun == noun and one.id == number), None)


def kind_of(process: Process, loader: int) -> Hashable:
    """Give what loaders of a process have in common that one line made with the same settings."""
    fact = fact_of(process, "loader", loader)
    if fact is None or fact.file is None:
        return loader
    return fact.file, fact.line, fact.function, repr(sorted(fact.values.items()))


def place_of(file: str | None, line: int | None) -> str:
    """Name a place in the source in short: the file's name and the line."""
    if file is None:
        return ""
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def edges(process: Process) -> Edges:
    """Find the steps of a process: by its anchor optimizer, else by its busiest loader.

    An optimizer that stepped less than five times and then, as far as one can see, no more (its
    steps are part of a CUDA graph) anchors nothing if batches went on to come.
    """
    found = stretches(process)
    for kind, rule, choose in (
        (wire.STEP, "optimizer", _anchor),
        (wire.NEXT, "loader", _busiest),
    ):
        calls = _calls(process.marks, found, kind)
        if rule == "loader":
            calls = replace(calls, subject=_first_alike(process, calls.subject))
        if len(calls.end) and not (rule == "optimizer" and _stopped(process.marks, found, calls)):
            return _edges(process, found, calls.take(calls.subject == choose(calls)), rule)
    return Edges(empty(), _only_thread(process.marks), "none", "", empty(), 0, NO_LANE, None)


@dataclass(frozen=True)
class _Calls:
    """Calls that may end steps, by end: kept marks, and stretches in which some were summed."""

    subject: Int64
    thread: Int64
    end: Int64
    count: Int64
    stretch: Int64  # −1: it was kept

    def take(self, rows: Bool) -> "_Calls":
        """Select calls."""
        return _Calls(**{name: column[rows] for name, column in vars(self).items()})


def _calls(marks: Marks, found: Stretches, kind: int) -> _Calls:
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
        (-ones, summed.stretch),
    )
    subject, thread, count, stretch = (np.concatenate(both)[order] for both in columns)
    return _Calls(subject, thread, end[order], count, stretch)


def _stopped(marks: Marks, found: Stretches, steps: _Calls) -> bool:
    if _counted(steps.subject, steps.count)[2].max() >= _ENOUGH:
        return False
    batches = _calls(marks, found, wire.NEXT)
    return int(batches.count[batches.end > steps.end[-1]].sum()) >= _FAR


def _first_alike(process: Process, loaders: Int64) -> Int64:
    """Give for each loader the first that is like it: those of other epochs are the same."""
    distinct, at = np.unique(loaders, return_inverse=True)
    seen: dict[Hashable, int] = {}
    first = [seen.setdefault(kind_of(process, one), one) for one in distinct.tolist()]
    return np.array(first, np.int64)[at]


def _edges(process: Process, found: Stretches, calls: _Calls, rule: str) -> Edges:
    subject, thread = int(calls.subject[0]), _most(calls.thread, calls.count)
    mine = calls.take(calls.thread == thread)
    summed = mine.take(mine.stretch >= 0)
    ends = np.unique(mine.end[mine.stretch < 0])
    name = _anchor_name(process, rule, subject)
    if not len(summed.end):
        many = np.ones(max(0, len(ends) - 1), np.int64)
        return Edges(ends, thread, rule, name, many, len(ends), NO_LANE, int(ends[0]))
    begun = int(ends[0]) if len(ends) and ends[0] < summed.end[0] else None
    # Where none was kept at a side of a stretch, the stretch's own bounds are ends.
    count = len(ends) + int(summed.count.sum())
    last = summed.end[-1:] if not len(ends) or summed.end[-1] > ends[-1] else empty()
    first = empty() if len(ends) else found.start[summed.stretch[:1]]
    many = np.ones(max(0, len(first) + len(ends) + len(last) - 1), np.int64)
    many[len(many) - len(last) :] = 0
    ends = np.concatenate((first, ends, last))
    place = np.searchsorted(ends, summed.end) - 1
    np.add.at(many, place[place >= 0], summed.count[place >= 0])
    held = np.unique(summed.stretch)
    lane = Lane(found.start[held], found.end[held], held)
    return Edges(ends, thread, rule, name, many, count, lane, begun)


def _anchor(calls: _Calls) -> int:
    """Give the optimizer with the fewest calls in the steady part; the first seen of equals.

    The steady part is the later half of the time in which anything stepped. An optimizer must have
    been called five times in it; where none was: five times at all, and else once.
    """
    half = calls.end[0] + (calls.end[-1] - calls.end[0]) // 2
    late = calls.take(calls.end > half)
    seldom = (_seldom(some, least) for some, least in ((late, _ENOUGH), (calls, _ENOUGH)))
    found = next((one for one in seldom if one is not None), None)
    return _seldom(calls, 1) or 0 if found is None else found


def _seldom(calls: _Calls, least: int) -> int | None:
    """Give the subject of the fewest calls, but of so many at least; the first seen of equals."""
    subjects, first, counts = _counted(calls.subject, calls.count)
    able = np.flatnonzero(counts >= least)
    if not len(able):
        return None
    return int(subjects[able[np.lexsort((first[able], counts[able]))[0]]])


def _busiest(calls: _Calls) -> int:
    return _most(calls.subject, calls.count)


def _most(values: Int64, counts: Int64) -> int:
    """Give the value that occurs most often, the first seen of equals."""
    distinct, first, sums = _counted(values, counts)
    return int(distinct[np.lexsort((first, -sums))[0]])


def _counted(values: Int64, counts: Int64) -> tuple[Int64, Int64, Int64]:
    """Give the distinct values, where each was seen first, and how often they occur."""
    distinct, first, at = np.unique(values, return_index=True, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, at, counts)
    return distinct, first, sums


def _only_thread(marks: Marks) -> int | None:
    """Give the thread that most marks are of, where nothing stepped."""
    own = (marks.flags & wire.NOT_MAIN) == 0
    return _most(marks.thread[own], np.ones(int(own.sum()), np.int64)) if own.any() else None


def _anchor_name(process: Process, rule: str, subject: int) -> str:
    fact = fact_of(process, rule, subject)
    if fact is None:
        return "an optimizer" if rule == "optimizer" else "a loader"
    kind = str(fact.values.get("class") or ("optimizer" if rule == "optimizer" else "DataLoader"))
    kind = kind.rpartition(".")[2]
    what = f"{kind}.step" if rule == "optimizer" else f"hand-overs of {kind}"
    where = place_of(fact.file, fact.line)
    return f"{what}, {where}" if where else what


def unprofiled(process: Process, ends: Int64) -> Bool:
    """Tell which steps (the stretches between ends) no profiler touched, ours or the user's."""
    marks = process.marks
    ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    theirs = marks.kind == wire.USER_PROFILER
    spans = [
        (one.start, one.end + (one.stop_ns or 0) + (one.save_ns or 0)) for one in process.windows
    ]
    held = np.array(spans, np.int64).reshape(-1, 2)
    rows = np.flatnonzero(ours | theirs)
    taken = union(
        np.concatenate((held[:, 0], marks.start[rows])),
        np.concatenate((held[:, 1], marks.end[rows])),
    )
    return overlap(taken, ends[:-1], ends[1:]) == 0


def noise(lengths: Int64, period: int | None) -> float | None:
    """Give the relative half-width of the 90 % interval of the median step, ``None`` below 50.

    A moving-block bootstrap (Künsch 1989) in blocks of ten steps, or of one logging period where
    that is longer: neighbouring steps are alike.
    """
    recent = lengths[-_RECENT:]
    if len(recent) < _STEADY:
        return None
    block = min(max(_BLOCK, period or 0), len(recent) // 2)
    blocks = -(-len(recent) // block)
    heads = np.random.default_rng(0).integers(0, len(recent) - block + 1, (_ROUNDS, blocks))
    offsets = np.arange(block)
    medians = [np.median(recent[(one[:, None] + offsets).ravel()[: len(recent)]]) for one in heads]
    low, high = np.quantile(medians, (0.05, 0.95))
    middle = float(np.median(recent))
    return float(high - low) / 2 / middle if middle else None


def logging_period(process: Process, found: Edges) -> int | None:
    """Give how many steps lie between two calls of a logger; ``None``: it was hardly called."""
    marks = process.marks
    at = np.unique(np.searchsorted(found.ends, marks.start[marks.kind == wire.LOGGING]))
    steps = np.concatenate(([0], np.cumsum(np.append(found.many, 1))))[at]
    between = np.diff(at)[np.diff(at) == np.diff(steps)]  # others may have been summed
    return int(np.median(between)) if len(between) else None
