"""Run rows: the life of a training process, and its steps, charged by light marks."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES, RunRow, ThreadMarks, charge_life
from gapless.model.recording import Marks as Recorded
from gapless.model.trace import Int64
from gapless.recorded.loaders.waits import Waits
from gapless.recorded.steps.evaluations import Evaluating, Evaluations, find_evaluations
from gapless.recorded.training.edges import Bool
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
_START_UP: Final = RUN_LEAF["data.start-up"]
_HIDEABLE: Final = ("collector", "logging", "profiling", "epoch-turn")  # besides waits for data


def leaf_marks(
    training: Training, waits: Sequence[Waits], evaluations: Evaluations, backlog: int = 0
) -> ThreadMarks:
    """Return the marks of a process as run leaves.

    With a ``backlog`` so many ns at the start of each wait and interruption are left out: the
    device still had that much to do. What an evaluation waits for its own batches is part of it.
    """
    spans, evaluating = evaluations.spans, evaluations.loaders
    marks = [
        *_plain_marks(training, backlog),
        *(
            _wait_marks(loader_waits, backlog, own_evaluating.kept)
            for loader_waits, own_evaluating in zip(waits, evaluating, strict=True)
        ),
    ]
    charged_marks = _concatenate([*marks, _exhausted_marks(training)])
    tables = [_marks(spans.start, spans.end, "evaluation"), _lost_marks(training)]
    if len(training.sums):
        occupied = union(charged_marks.start, charged_marks.end)
        amounts = _summed_amounts(training, waits, evaluating, backlog)
        tables.append(ThreadMarks(*lay_out(training.sums, amounts, occupied)))
    return _concatenate([charged_marks, *tables])


def _concatenate(tables: Sequence[ThreadMarks]) -> ThreadMarks:
    return ThreadMarks(
        np.concatenate([table.start for table in tables]),
        np.concatenate([table.end for table in tables]),
        np.concatenate([table.leaf for table in tables]),
    )


class TrainingRow(Struct, frozen=True, dict=True):
    """A training process with its waits, its evaluations and its run row."""

    training: Training
    waits: tuple[Waits, ...]
    evaluations: Evaluations
    row: RunRow

    @cached_property
    def step_leaves(self) -> dict[str, int]:
        """Return the time of the counted steps by run leaf, nothing without two steps."""
        if len(self.training.edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
            return {}
        return _counted_leaves(self.training, self.row)


def charge_training(training: Training, waits: tuple[Waits, ...]) -> TrainingRow:
    """Charge the whole life of a process."""
    evaluations = find_evaluations(training, waits)
    marks = leaf_marks(training, waits, evaluations)
    row = charge_life((training.start, training.end), training.span, marks)
    return TrainingRow(training, waits, evaluations, row)


def exposed_leaves(training_row: TrainingRow, backlog: int) -> dict[str, int]:
    """Return the time of the counted steps by run leaf, without what a backlog hides."""
    return (
        training_row.step_leaves
        if not backlog
        else _counted_leaves(training_row.training, exposed_row(training_row, backlog))
    )


def exposed_row(training_row: TrainingRow, backlog: int) -> RunRow:
    """Charge the steps of a process with at least two step ends, in the same way."""
    training = training_row.training
    span = int(training.edges.ends[0]), int(training.edges.ends[-1])
    marks = leaf_marks(training, training_row.waits, training_row.evaluations, backlog)
    return charge_life(span, span, marks)


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


def _summed_amounts(
    training: Training, waits: Sequence[Waits], evaluating: Sequence[Evaluating], backlog: int
) -> Int64:
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
    for loader_waits, own_evaluating in zip(waits, evaluating, strict=True):
        shares = loader_waits.shares(backlog) * ~own_evaluating.summed[:, None]
        np.add.at(amounts, loader_waits.summed.stretch, shares)
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


def _wait_marks(waits: Waits, backlog: int, is_evaluating: Bool) -> ThreadMarks:
    """Return the pieces of waits; of those that an evaluation makes only the start of workers."""
    pieces = waits.pieces
    pieces = pieces.take(~is_evaluating[pieces.wait] | (pieces.leaf == _START_UP))
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


def _lost_marks(training: Training) -> ThreadMarks:
    """Return the time from the last record of a process that was killed to its end."""
    starts = [training.last_record_ns] if training.was_killed else []
    return _marks(
        np.array(starts, np.int64), np.array([training.end] * len(starts), np.int64), "unknown"
    )


def _marks(start: Int64, end: Int64, leaf: str) -> ThreadMarks:
    return ThreadMarks(start, end, np.full(len(start), RUN_LEAF[leaf]))
