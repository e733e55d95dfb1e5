"""A window repeated: its steps over and over, for state that outlasts a window.

Prefetch queues, workers and the queues of devices have such state; with four steps the batches that
are ready when a window begins would hide the effect of a slower loader.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.trace import Int32, Int64
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Op
from gapless.replay.graph.simulate import fill_column

_JOBS = (Op.LAUNCH, Op.COPY, Op.EVENT)
_HAND_OFFS = (Op.EMIT, Op.WAIT)


def tile_graph(graph: Graph, n_turns: int) -> Graph:
    """Return a graph whose steps, except the first, are repeated, one after another.

    Observed times are those of the original steps: a tiled graph is simulated, not drawn.
    """
    count = len(graph.steps)
    if n_turns <= 1 or count < 2:  # noqa: PLR2004 - the first step alone cannot be repeated
        return graph
    tiling = _plan_tiling(graph, n_turns)
    length = int(graph.steps[-1] - graph.steps[0])
    ends = [graph.steps[1:] + turn * length for turn in range(n_turns)]
    repeated = tuple(step for step in graph.counted_steps if step > 0)
    tiled_steps = tuple(step + turn * (count - 1) for turn in range(n_turns) for step in repeated)
    return replace(
        graph,
        threads=tuple(_tile_thread(thread, tiling) for thread in graph.threads),
        work=_tile_work(graph.work, tiling),
        steps=np.concatenate((graph.steps[:1], *ends)),
        counted_steps=tiled_steps,
        is_aligned=False,
    )


class _Tiling(Struct, frozen=True):
    """Which activities and hand-offs of which turn become which."""

    n_turns: int
    steps: int  # of the graph as it was
    jobs: Int64  # [turns, activities]: the new number of each; −1: it is not of that turn
    source: Int64  # of each new activity: the old one
    turn: Int64  # and the turn that it is of
    stand_ins: Int64  # of each activity before the repeated steps: its like at their end, −1
    emit_step: Int64  # [hand-offs]: the step that each is emitted in; −1: never


def _plan_tiling(graph: Graph, n_turns: int) -> _Tiling:
    count, steps = len(graph.work.stream), len(graph.steps)
    step = np.full(count, -1)
    n_hand_offs = 0
    for thread in graph.threads:
        launches = np.isin(thread.ops, (Op.LAUNCH, Op.COPY))
        step[thread.args[launches]] = thread.step[launches]
        hand_off_ids = thread.args[np.isin(thread.ops, _HAND_OFFS)]
        n_hand_offs = max(n_hand_offs, int(hand_off_ids.max(initial=-1)) + 1)
    emit_step = np.full(n_hand_offs, -1)
    for thread in graph.threads:
        emits = thread.ops == Op.EMIT
        emit_step[thread.args[emits]] = thread.step[emits]
    groups = [np.flatnonzero(step < 1)]
    groups += [np.flatnonzero((step >= 1) & (step < steps))] * n_turns
    groups += [np.flatnonzero(step >= steps)]
    turns = [0, *range(n_turns), n_turns - 1]
    jobs = np.full((n_turns, count), -1)
    begin = 0
    for turn, rows in zip(turns, groups, strict=True):
        jobs[turn, rows] = np.arange(begin, begin + len(rows))
        begin += len(rows)
    return _Tiling(
        n_turns,
        steps,
        jobs,
        np.concatenate(groups),
        np.repeat(turns, [len(rows) for rows in groups]),
        _find_stand_ins(graph.work, step, steps),
        emit_step,
    )


def _find_stand_ins(work: GraphWork, step: Int64, steps: int) -> Int64:
    """Find what stands for earlier activities in later turns: on its stream as far from the end."""
    stand_ins = np.full(len(step), -1)
    for stream in np.unique(work.stream).tolist():
        on_stream = work.stream == stream
        early_rows = np.flatnonzero(on_stream & (step < 1))[::-1]
        late_rows = np.flatnonzero(on_stream & (step >= 1) & (step < steps))[::-1]
        count = min(len(early_rows), len(late_rows))
        stand_ins[early_rows[:count]] = late_rows[:count]
    return stand_ins


def _tile_work(work: GraphWork, tiling: _Tiling) -> GraphWork:
    source, count = tiling.source, len(work.stream)
    old_jobs: list[int] = source.tolist()
    turns: list[int] = tiling.turn.tolist()
    after = tuple(
        _tile_waits(work.after[old], turn, tiling) if work.after[old] else ()
        for old, turn in zip(old_jobs, turns, strict=True)
    )
    return replace(
        work,
        stream=work.stream[source],
        duration=work.duration[source],
        lag=work.lag[source],
        gap=work.gap[source],
        after=after,
        leaf=work.leaf[source],
        event=work.event[source],
        late=fill_column(work.late, count)[source],
        slot=fill_column(work.slot, count, 1)[source].astype(np.int8),
        meeting=_tile_meetings(work.meeting, tiling),
    )


def _tile_meetings(meeting: Int32, tiling: _Tiling) -> Int32:
    """Return the collectives of each turn, which are others than those of the turn before."""
    if not len(meeting):
        return meeting
    numbers = meeting[tiling.source]
    shift = tiling.turn * (int(meeting.max(initial=-1)) + 1)
    return np.where(numbers >= 0, numbers + shift, -1).astype(np.int32)


def _tile_waits(waits: tuple[int, ...], turn: int, tiling: _Tiling) -> tuple[int, ...]:
    jobs: list[int] = _map_jobs(tiling, turn, np.array(waits)).tolist()
    return tuple(job for job in jobs if job >= 0)


def _map_jobs(tiling: _Tiling, turn: int, old_jobs: Int64) -> Int64:
    """Return the numbers of activities as a turn sees them: earlier ones are of the turn before."""
    new_jobs, stand_ins = tiling.jobs[turn, old_jobs], tiling.stand_ins[old_jobs]
    before = (new_jobs < 0) & (stand_ins >= 0)
    if turn and before.any():
        new_jobs[before] = tiling.jobs[turn - 1, stand_ins[before]]
    return new_jobs


def _tile_thread(thread: GraphThread, tiling: _Tiling) -> GraphThread:
    step = _anchor_steps(thread, tiling)
    before = np.flatnonzero(step < 1)
    repeated = np.flatnonzero((step >= 1) & (step < tiling.steps))
    tail = np.flatnonzero(step >= tiling.steps)
    parts = [
        (before, 0),
        *((repeated, turn) for turn in range(tiling.n_turns)),
        (tail, tiling.n_turns - 1),
    ]
    parts = [(_drop_early_waits(thread, rows, turn, tiling), turn) for rows, turn in parts]
    rows = np.concatenate([part_rows for part_rows, _ in parts])
    args = np.concatenate(
        [_tile_args(thread, part_rows, turn, tiling) for part_rows, turn in parts]
    )
    columns = (
        "ops",
        "amounts",
        "counts",
        "own_ns",
        "event",
        "step",
        "begin",
        "end",
        "stall",
        "under",
    )
    tiled_columns = {
        name: column[rows]
        for name in columns
        if len(column := getattr(thread, name)) == len(thread.ops)
    }
    return replace(thread, args=args.astype(np.int32), **tiled_columns)


def _anchor_steps(thread: GraphThread, tiling: _Tiling) -> Int64:
    """Return the step of each anchor; a wait that begins early is of the step that it waits for."""
    step = thread.step.astype(np.int64)
    waits = np.flatnonzero(thread.ops == Op.WAIT)
    step[waits] = np.maximum(step[waits], tiling.emit_step[thread.args[waits]])
    return np.maximum.accumulate(step)


def _drop_early_waits(thread: GraphThread, rows: Int64, turn: int, tiling: _Tiling) -> Int64:
    """Leave out, in later turns, waits for what was handed over before the first."""
    if not turn:
        return rows
    waits = thread.ops[rows] == Op.WAIT
    emit_step = (
        tiling.emit_step[np.where(waits, thread.args[rows], 0)]
        if len(tiling.emit_step)
        else 0 * rows
    )
    return rows[~(waits & (emit_step < 1))]


def _tile_args(thread: GraphThread, rows: Int64, turn: int, tiling: _Tiling) -> Int64:
    ops, args = thread.ops[rows], thread.args[rows].astype(np.int64)
    jobs = np.flatnonzero(np.isin(ops, _JOBS) & (args >= 0))
    args[jobs] = _map_jobs(tiling, turn, args[jobs])
    is_hand_off = np.isin(ops, _HAND_OFFS)
    args[is_hand_off] += turn * len(tiling.emit_step)
    args[ops == Op.STEP] += turn * (tiling.steps - 1)
    return args
