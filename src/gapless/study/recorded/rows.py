"""Run rows: the life of a training process, and its steps, charged by its light marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES, Marks, RunRow, run_row
from gapless.model.recording import Marks as Recorded
from gapless.model.trace import Int64
from gapless.study.recorded.stretches import Calls, laid_out, shared
from gapless.study.recorded.training import Training, regular
from gapless.study.recorded.waits import Waits

_SIMPLE: Final = {  # kinds of marks that are charged as they are
    wire.OBSERVER: "observer",
    wire.COLLECTOR: "collector",
    wire.CHECKPOINT: "checkpoint",
    wire.LOGGING: "logging",
    wire.PROFILING: "profiling",
    wire.ITER: "epoch-turn",
    wire.CLOSE: "epoch-turn",
}
_FEW: Final = 4  # batches, and steps: fewer are no pass over data, and no training
_ONCE: Final = 1.2  # backward passes a step
_HIDEABLE: Final = ("collector", "logging", "profiling", "epoch-turn")  # beside waits for data


def light(training: Training, waits: Sequence[Waits], backlog: int = 0) -> Marks:
    """Give the marks of a process as run leaves.

    With a ``backlog`` the first so many ns of each wait and interruption are left out: the device
    still had that much to do.
    """
    parts = [*_simple(training, backlog), *(_data(one, backlog) for one in waits)]
    kept = _together([*parts, _exhausted(training)])
    rest = [_evaluations(training), passes_without_steps(training), _lost(training)]
    if len(training.sums):
        taken = union(kept.start, kept.end)
        amounts = _summed(training, waits, backlog)
        rest.append(Marks(*laid_out(training.sums, amounts, taken)))
    return _together([kept, *rest])


def _together(parts: Sequence[Marks]) -> Marks:
    return Marks(
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.leaf for part in parts]),
    )


@dataclass(frozen=True)
class Charged:
    """A training process with its waits and its run row."""

    training: Training
    waits: tuple[Waits, ...]
    row: RunRow

    @cached_property
    def stepping(self) -> dict[str, int]:
        """Give the time of the counted steps by run leaf, nothing without two steps."""
        if len(self.training.edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
            return {}
        return _within(self.training, self.row)


def charged(training: Training, waits: tuple[Waits, ...]) -> Charged:
    """Charge the whole life of a process."""
    row = run_row((training.start, training.end), training.span, light(training, waits))
    return Charged(training, waits, row)


def exposed(one: Charged, backlog: int) -> dict[str, int]:
    """Give the time of the counted steps by run leaf, without what a backlog hides."""
    return one.stepping if not backlog else _within(one.training, exposed_row(one, backlog))


def exposed_row(one: Charged, backlog: int) -> RunRow:
    """Charge the steps of a process, two of which ended, likewise."""
    ends = one.training.edges.ends
    span = int(ends[0]), int(ends[-1])
    return run_row(span, span, light(one.training, one.waits, backlog))


def _within(training: Training, row: RunRow) -> dict[str, int]:
    """Sum what lies in counted steps (stretches between ends)."""
    length = overlap(regular(training), row.start, row.end)
    return RunRow(row.start, row.start + length, row.leaf, row.culprit).parts()


def added(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add sums by leaf up, in the order of the leaves."""
    return {
        leaf: total for leaf in RUN_LEAVES if (total := sum(row.get(leaf, 0) for row in rows)) > 0
    }


def _simple(training: Training, backlog: int) -> list[Marks]:
    marks = training.process.marks
    own = marks.thread == training.edges.thread
    found: list[Marks] = []
    for kind, leaf in _SIMPLE.items():
        rows = np.flatnonzero((marks.kind == kind) & (own | (kind == wire.COLLECTOR)))
        held = backlog if leaf in _HIDEABLE else 0
        found.append(_marks(marks.start[rows] + held, marks.end[rows], leaf))
    return found


def _summed(training: Training, waits: Sequence[Waits], backlog: int) -> Int64:
    """Give the time of the marks that were summed, [stretch, leaf]."""
    calls, thread = training.sums.calls, training.edges.thread
    amounts = np.zeros((len(training.sums), len(RUN_LEAVES)), np.int64)
    for kind, leaf in _SIMPLE.items():
        mine = calls.of(kind, thread=None if kind == wire.COLLECTOR else thread)
        held = backlog if leaf in _HIDEABLE else 0
        left = _exposed(training.process.marks, kind, mine, held)
        np.add.at(amounts[:, RUN_LEAF[leaf]], mine.stretch, left)
    over = calls.of(wire.NEXT, thread=thread)
    over = over.take((over.flags & wire.EXHAUSTED) != 0)
    np.add.at(amounts[:, RUN_LEAF["epoch-turn"]], over.stretch, over.total)
    for one in waits:
        np.add.at(amounts, one.summed.stretch, one.shares(backlog))
    return amounts


def _exposed(marks: Recorded, kind: int, calls: Calls, held: int) -> Int64:
    """Give what is left of summed calls without the first so many ns of each: as of kept ones."""
    length = (marks.end - marks.start)[marks.kind == kind]
    whole = int(length.sum())
    if not held:
        return calls.total
    if not whole:
        return np.maximum(calls.total - calls.count * held, 0)
    return shared(calls.total, np.maximum(length - held, 0).sum(keepdims=True), whole)[:, 0]


def _data(waits: Waits, backlog: int) -> Marks:
    pieces = waits.pieces
    start = np.maximum(pieces.start, waits.start[pieces.wait] + backlog)
    return Marks(start, pieces.end, pieces.leaf)


def _exhausted(training: Training) -> Marks:
    """Give the calls of next() that handed over nothing: the end of an iteration."""
    marks = training.process.marks
    rows = np.flatnonzero(
        (marks.kind == wire.NEXT)
        & ((marks.flags & wire.EXHAUSTED) != 0)
        & (marks.thread == training.edges.thread)
    )
    return _marks(marks.start[rows], marks.end[rows], "epoch-turn")


def _evaluations(training: Training) -> Marks:
    """Give the spans from a model's eval() to its next train() in which nothing stepped."""
    marks, ends = training.process.marks, training.edges.ends
    rows = np.flatnonzero((marks.kind == wire.MODE) & (marks.thread == training.edges.thread))
    rows = rows[np.lexsort((marks.start[rows], marks.subject[rows]))]
    if not len(rows) or training.edges.rule not in {"optimizer", "backward"}:
        return _marks(rows[:0], rows[:0], "evaluation")
    subject, value, start = marks.subject[rows], marks.value[rows], marks.start[rows]
    change = np.concatenate(([True], (subject[1:] != subject[:-1]) | (value[1:] != value[:-1])))
    subject, value, start = subject[change], value[change], start[change]
    same = np.append(subject[1:] == subject[:-1], [False])
    over = training.end if training.process.end is None else training.process.end
    end = np.where(same, np.append(start[1:], 0), over)
    idle = np.searchsorted(ends, start, side="right") == np.searchsorted(ends, end)
    # A kept mark of a mode ends a stretch: the steps of one that ends later come after it.
    over_by = training.edges.summed.end
    idle &= np.searchsorted(over_by, start, side="right") == np.searchsorted(over_by, end)
    # A model that never trained (a teacher) evaluates nothing by being told so before training.
    begun = start > (ends[0] if len(ends) else training.end)
    spans = (value == 0) & idle & begun
    return _marks(start[spans], end[spans], "evaluation")


def passes_without_steps(training: Training) -> Marks:
    """Give the spans in which a whole iteration of a loader lies between two steps.

    Such a pass over data trains nothing, though no model was told to evaluate: but where steps are
    made of several backward passes, or of a whole pass each, it may be one step's; and where there
    are several optimizers, another one's.
    """
    marks, ends = training.process.marks, training.edges.ends
    none = _marks(np.empty(0, np.int64), np.empty(0, np.int64), "evaluation")
    if training.edges.rule != "optimizer" or len(ends) < _FEW or not _passes_once(training):
        return none
    own = marks.thread == training.edges.thread
    spans: list[tuple[int, int]] = []
    for loader in set(marks.subject[(marks.kind == wire.ITER) & own].tolist()):
        mine = own & (marks.subject == loader)
        begins = np.sort(marks.start[mine & (marks.kind == wire.ITER)])
        asked = mine & (marks.kind == wire.NEXT)
        over = np.sort(marks.end[asked & ((marks.flags & wire.EXHAUSTED) != 0)])
        at = np.searchsorted(begins, over, side="right") - 1
        handed = np.sort(marks.start[asked])
        for place, end in zip(at.tolist(), over.tolist(), strict=True):
            begin = int(begins[place]) if place >= 0 else end
            many = int(((handed >= begin) & (handed < end)).sum()) - 1
            between = _edges_within(training, begin, end) == 0
            if many >= _FEW and between and ends[0] < begin and end < ends[-1]:
                spans.append((begin, end))
    if not spans or len(spans) * 2 > len(ends):  # in most steps: it is what a step is made of
        return none
    starts = np.array([begin for begin, _ in spans], np.int64)
    return _marks(starts, np.array([end for _, end in spans], np.int64), "evaluation")


def _edges_within(training: Training, begin: int, end: int) -> int:
    """Count the steps that end in a span; those of a stretch that was summed with its end."""
    found = 0
    for ends in (training.edges.ends, training.edges.summed.end):
        found += int(np.searchsorted(ends, end) - np.searchsorted(ends, begin, side="right"))
    return found


def _passes_once(training: Training) -> bool:
    """Tell whether there is one optimizer, and one backward pass a step; no, if it is not known."""
    facts = training.process.facts
    if sum(fact.noun == "optimizer" for fact in facts) != 1:
        return False
    for fact in facts:
        steps, passes = fact.values.get("steps"), fact.values.get("passes")
        if fact.noun == "calls" and isinstance(steps, int) and isinstance(passes, int):
            return steps <= _ONCE * passes and passes <= _ONCE * steps
    return False


def _lost(training: Training) -> Marks:
    """Give the time from the last record of a process that was killed to its end."""
    at = [training.last] if training.killed else []
    return _marks(np.array(at, np.int64), np.array([training.end] * len(at), np.int64), "unknown")


def _marks(start: Int64, end: Int64, leaf: str) -> Marks:
    return Marks(start, end, np.full(len(start), RUN_LEAF[leaf]))
