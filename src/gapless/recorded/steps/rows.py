"""Run rows: the life of a training process, and its steps, charged by light marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES, RunRow, ThreadMarks, charge_life
from gapless.model.recording import Marks as Recorded
from gapless.model.trace import Int64
from gapless.recorded.loaders.waits import Waits
from gapless.recorded.training.processes import Training, counted_lane
from gapless.recorded.training.stretches import SummedCalls, lay_out, share_out

_PLAIN_LEAVES: Final = {  # kinds of marks that are charged as they are
    wire.OBSERVER: "observer",
    wire.COLLECTOR: "collector",
    wire.CHECKPOINT: "checkpoint",
    wire.LOGGING: "logging",
    wire.PROFILING: "profiling",
    wire.ITER: "epoch-turn",
    wire.CLOSE: "epoch-turn",
}
_MIN_PASS_LENGTH: Final = 4  # batches and steps: fewer are no pass over data, and no training
_MAX_PASS_RATIO: Final = 1.2  # backward passes a step
_HIDEABLE: Final = ("collector", "logging", "profiling", "epoch-turn")  # besides waits for data


def leaf_marks(training: Training, waits: Sequence[Waits], backlog: int = 0) -> ThreadMarks:
    """Return the marks of a process as run leaves.

    With a ``backlog`` so many ns at the start of each wait and interruption are left out: the
    device still had that much to do.
    """
    marks = [
        *_plain_marks(training, backlog),
        *(_wait_marks(loader_waits, backlog) for loader_waits in waits),
    ]
    charged_marks = _concatenate([*marks, _exhausted_marks(training)])
    tables = [_evaluation_marks(training), passes_without_steps(training), _lost_marks(training)]
    if len(training.sums):
        occupied = union(charged_marks.start, charged_marks.end)
        amounts = _summed_amounts(training, waits, backlog)
        tables.append(ThreadMarks(*lay_out(training.sums, amounts, occupied)))
    return _concatenate([charged_marks, *tables])


def _concatenate(tables: Sequence[ThreadMarks]) -> ThreadMarks:
    return ThreadMarks(
        np.concatenate([table.start for table in tables]),
        np.concatenate([table.end for table in tables]),
        np.concatenate([table.leaf for table in tables]),
    )


@dataclass(frozen=True)
class TrainingRow:
    """A training process with its waits and its run row."""

    training: Training
    waits: tuple[Waits, ...]
    row: RunRow

    @cached_property
    def step_leaves(self) -> dict[str, int]:
        """Return the time of the counted steps by run leaf, nothing without two steps."""
        if len(self.training.edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
            return {}
        return _counted_leaves(self.training, self.row)


def charge_training(training: Training, waits: tuple[Waits, ...]) -> TrainingRow:
    """Charge the whole life of a process."""
    row = charge_life((training.start, training.end), training.span, leaf_marks(training, waits))
    return TrainingRow(training, waits, row)


def exposed_leaves(training_row: TrainingRow, backlog: int) -> dict[str, int]:
    """Return the time of the counted steps by run leaf, without what a backlog hides."""
    return (
        training_row.step_leaves
        if not backlog
        else _counted_leaves(training_row.training, exposed_row(training_row, backlog))
    )


def exposed_row(training_row: TrainingRow, backlog: int) -> RunRow:
    """Charge the steps of a process with at least two step ends, in the same way."""
    ends = training_row.training.edges.ends
    span = int(ends[0]), int(ends[-1])
    return charge_life(span, span, leaf_marks(training_row.training, training_row.waits, backlog))


def _counted_leaves(training: Training, row: RunRow) -> dict[str, int]:
    """Sum what lies in counted steps (stretches between ends)."""
    length = overlap(counted_lane(training), row.start, row.end)
    return RunRow(row.start, row.start + length, row.leaf, row.culprit).sum_by_leaf()


def sum_leaves(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add up sums by leaf, in the order of the leaves."""
    return {
        leaf: total for leaf in RUN_LEAVES if (total := sum(row.get(leaf, 0) for row in rows)) > 0
    }


def _plain_marks(training: Training, backlog: int) -> list[ThreadMarks]:
    marks = training.process.marks
    on_thread = marks.thread == training.edges.thread
    tables: list[ThreadMarks] = []
    for kind, leaf in _PLAIN_LEAVES.items():
        rows = np.flatnonzero((marks.kind == kind) & (on_thread | (kind == wire.COLLECTOR)))
        hidden_ns = backlog if leaf in _HIDEABLE else 0
        tables.append(_marks(marks.start[rows] + hidden_ns, marks.end[rows], leaf))
    return tables


def _summed_amounts(training: Training, waits: Sequence[Waits], backlog: int) -> Int64:
    """Return the time of the marks that were summed, [stretch, leaf]."""
    calls, thread = training.sums.calls, training.edges.thread
    amounts = np.zeros((len(training.sums), len(RUN_LEAVES)), np.int64)
    for kind, leaf in _PLAIN_LEAVES.items():
        kind_calls = calls.select(kind, thread=None if kind == wire.COLLECTOR else thread)
        hidden_ns = backlog if leaf in _HIDEABLE else 0
        exposed_ns = _exposed_ns(training.process.marks, kind, kind_calls, hidden_ns)
        np.add.at(amounts[:, RUN_LEAF[leaf]], kind_calls.stretch, exposed_ns)
    exhausted = calls.select(wire.NEXT, thread=thread)
    exhausted = exhausted.take((exhausted.flags & wire.EXHAUSTED) != 0)
    np.add.at(amounts[:, RUN_LEAF["epoch-turn"]], exhausted.stretch, exhausted.total)
    for loader_waits in waits:
        np.add.at(amounts, loader_waits.summed.stretch, loader_waits.shares(backlog))
    return amounts


def _exposed_ns(marks: Recorded, kind: int, calls: SummedCalls, hidden_ns: int) -> Int64:
    """Return what a backlog leaves of summed calls, estimated from the kept ones."""
    lengths_ns = (marks.end - marks.start)[marks.kind == kind]
    total_ns = int(lengths_ns.sum())
    if not hidden_ns:
        return calls.total
    if not total_ns:
        return np.maximum(calls.total - calls.count * hidden_ns, 0)
    return share_out(
        calls.total, np.maximum(lengths_ns - hidden_ns, 0).sum(keepdims=True), total_ns
    )[:, 0]


def _wait_marks(waits: Waits, backlog: int) -> ThreadMarks:
    pieces = waits.pieces
    start = np.maximum(pieces.start, waits.start[pieces.wait] + backlog)
    return ThreadMarks(start, pieces.end, pieces.leaf)


def _exhausted_marks(training: Training) -> ThreadMarks:
    """Return the calls of next() that handed over nothing: the end of an iteration."""
    marks = training.process.marks
    rows = np.flatnonzero(
        (marks.kind == wire.NEXT)
        & ((marks.flags & wire.EXHAUSTED) != 0)
        & (marks.thread == training.edges.thread)
    )
    return _marks(marks.start[rows], marks.end[rows], "epoch-turn")


def _evaluation_marks(training: Training) -> ThreadMarks:
    """Return the spans from a model's eval() to its next train() in which nothing stepped."""
    marks, ends = training.process.marks, training.edges.ends
    rows = np.flatnonzero((marks.kind == wire.MODE) & (marks.thread == training.edges.thread))
    rows = rows[np.lexsort((marks.start[rows], marks.subject[rows]))]
    if not len(rows) or training.edges.rule not in {"optimizer", "backward"}:
        return _marks(rows[:0], rows[:0], "evaluation")
    subject, value, start = marks.subject[rows], marks.value[rows], marks.start[rows]
    is_change = np.concatenate(([True], (subject[1:] != subject[:-1]) | (value[1:] != value[:-1])))
    subject, value, start = subject[is_change], value[is_change], start[is_change]
    is_same = np.append(subject[1:] == subject[:-1], [False])
    end_ns = training.end if training.process.end is None else training.process.end
    end = np.where(is_same, np.append(start[1:], 0), end_ns)
    is_idle = np.searchsorted(ends, start, side="right") == np.searchsorted(ends, end)
    # A kept mark of a mode ends a stretch: the steps of one that ends later come after it.
    summed_ends = training.edges.summed_lane.end
    is_idle &= np.searchsorted(summed_ends, start, side="right") == np.searchsorted(
        summed_ends, end
    )
    # A model that never trained (a teacher) evaluates nothing by eval() before training.
    has_begun = start > (ends[0] if len(ends) else training.end)
    is_evaluation = (value == 0) & is_idle & has_begun
    return _marks(start[is_evaluation], end[is_evaluation], "evaluation")


def passes_without_steps(training: Training) -> ThreadMarks:
    """Return the spans in which a whole iteration of a loader lies between two steps.

    Such a pass over data trains nothing, although no model was set to eval mode. But where steps
    consist of several backward passes, or of a whole pass each, it may belong to a step; and where
    there are several optimizers, to another one.
    """
    marks, ends = training.process.marks, training.edges.ends
    no_marks = _marks(np.empty(0, np.int64), np.empty(0, np.int64), "evaluation")
    if (
        training.edges.rule != "optimizer"
        or len(ends) < _MIN_PASS_LENGTH
        or not _is_single_pass(training)
    ):
        return no_marks
    on_thread = marks.thread == training.edges.thread
    spans: list[tuple[int, int]] = []
    for loader in set(marks.subject[(marks.kind == wire.ITER) & on_thread].tolist()):
        is_loader = on_thread & (marks.subject == loader)
        begins = np.sort(marks.start[is_loader & (marks.kind == wire.ITER)])
        is_next = is_loader & (marks.kind == wire.NEXT)
        exhausted_ends = np.sort(marks.end[is_next & ((marks.flags & wire.EXHAUSTED) != 0)])
        positions = np.searchsorted(begins, exhausted_ends, side="right") - 1
        next_starts = np.sort(marks.start[is_next])
        for position, end in zip(positions.tolist(), exhausted_ends.tolist(), strict=True):
            begin = int(begins[position]) if position >= 0 else end
            n_batches = int(((next_starts >= begin) & (next_starts < end)).sum()) - 1
            is_between = _count_edges(training, begin, end) == 0
            if n_batches >= _MIN_PASS_LENGTH and is_between and ends[0] < begin and end < ends[-1]:
                spans.append((begin, end))
    if not spans or len(spans) * 2 > len(ends):  # in most steps: it is part of a step
        return no_marks
    starts = np.array([begin for begin, _ in spans], np.int64)
    return _marks(starts, np.array([end for _, end in spans], np.int64), "evaluation")


def _count_edges(training: Training, begin: int, end: int) -> int:
    """Count the steps that end in a span; those of a summed stretch count at its end."""
    count = 0
    for ends in (training.edges.ends, training.edges.summed_lane.end):
        count += int(np.searchsorted(ends, end) - np.searchsorted(ends, begin, side="right"))
    return count


def _is_single_pass(training: Training) -> bool:
    """Return whether there is one optimizer, and one backward pass a step; unknown counts as no."""
    facts = training.process.facts
    if sum(fact.noun == "optimizer" for fact in facts) != 1:
        return False
    for fact in facts:
        steps, passes = fact.values.get("steps"), fact.values.get("passes")
        if fact.noun == "calls" and isinstance(steps, int) and isinstance(passes, int):
            return steps <= _MAX_PASS_RATIO * passes and passes <= _MAX_PASS_RATIO * steps
    return False


def _lost_marks(training: Training) -> ThreadMarks:
    """Return the time from the last record of a process that was killed to its end."""
    starts = [training.last_record_ns] if training.was_killed else []
    return _marks(
        np.array(starts, np.int64), np.array([training.end] * len(starts), np.int64), "unknown"
    )


def _marks(start: Int64, end: Int64, leaf: str) -> ThreadMarks:
    return ThreadMarks(start, end, np.full(len(start), RUN_LEAF[leaf]))
