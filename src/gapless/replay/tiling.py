"""A window played on: its steps over and over, for what remembers longer than a window lasts.

Prefetch queues, workers and the queues of devices do; with four steps the batches that are ready
when a window begins would hide what a slower loader does.
"""

from dataclasses import dataclass, replace

import numpy as np

from gapless.model.trace import Int64
from gapless.replay.nodes import Graph, Op, Thread, Work
from gapless.replay.simulate import filled

_JOBS = (Op.LAUNCH, Op.COPY, Op.EVENT)
_HAND_OFFS = (Op.EMIT, Op.WAIT)


def tiled(graph: Graph, times: int) -> Graph:
    """Give a graph whose steps but the first come so many times, one after another.

    As seen, times are those of the steps that are repeated: a tiled graph is played, not drawn.
    """
    count = len(graph.steps)
    if times <= 1 or count < 2:  # noqa: PLR2004 - the first step alone cannot be repeated
        return graph
    plan = _plan(graph, times)
    length = int(graph.steps[-1] - graph.steps[0])
    ends = [graph.steps[1:] + turn * length for turn in range(times)]
    repeated = tuple(one for one in graph.counted if one > 0)
    every = tuple(one + turn * (count - 1) for turn in range(times) for one in repeated)
    return replace(
        graph,
        threads=tuple(_thread(one, plan) for one in graph.threads),
        work=_work(graph.work, plan),
        steps=np.concatenate((graph.steps[:1], *ends)),
        counted=every,
        aligned=False,
    )


@dataclass(frozen=True)
class _Plan:
    """Which activities and hand-offs of which turn become which."""

    times: int
    steps: int  # of the graph as it was
    jobs: Int64  # [turns, activities]: the new number of each; −1: it is not of that turn
    source: Int64  # of each new activity: the old one
    turn: Int64  # and the turn that it is of
    stands: Int64  # of each activity before the repeated steps: its like at their end, −1
    emitted: Int64  # [hand-offs]: the step that each is emitted in; −1: never


def _plan(graph: Graph, times: int) -> _Plan:
    count, steps = len(graph.work.stream), len(graph.steps)
    step = np.full(count, -1)
    hand_offs = 0
    for thread in graph.threads:
        launches = np.isin(thread.ops, (Op.LAUNCH, Op.COPY))
        step[thread.args[launches]] = thread.step[launches]
        passed = thread.args[np.isin(thread.ops, _HAND_OFFS)]
        hand_offs = max(hand_offs, int(passed.max(initial=-1)) + 1)
    emitted = np.full(hand_offs, -1)
    for thread in graph.threads:
        emits = thread.ops == Op.EMIT
        emitted[thread.args[emits]] = thread.step[emits]
    groups = [np.flatnonzero(step < 1)]
    groups += [np.flatnonzero((step >= 1) & (step < steps))] * times
    groups += [np.flatnonzero(step >= steps)]
    turns = [0, *range(times), times - 1]
    jobs = np.full((times, count), -1)
    begin = 0
    for turn, rows in zip(turns, groups, strict=True):
        jobs[turn, rows] = np.arange(begin, begin + len(rows))
        begin += len(rows)
    return _Plan(
        times,
        steps,
        jobs,
        np.concatenate(groups),
        np.repeat(turns, [len(rows) for rows in groups]),
        _stands(graph.work, step, steps),
        emitted,
    )


def _stands(work: Work, step: Int64, steps: int) -> Int64:
    """Find what stands for what was before, in later turns: on its stream as far from the end."""
    found = np.full(len(step), -1)
    for stream in np.unique(work.stream).tolist():
        mine = work.stream == stream
        early = np.flatnonzero(mine & (step < 1))[::-1]
        late = np.flatnonzero(mine & (step >= 1) & (step < steps))[::-1]
        both = min(len(early), len(late))
        found[early[:both]] = late[:both]
    return found


def _work(work: Work, plan: _Plan) -> Work:
    source, count = plan.source, len(work.stream)
    olds: list[int] = source.tolist()
    turns: list[int] = plan.turn.tolist()
    after = tuple(
        _after(work.after[old], turn, plan) if work.after[old] else ()
        for old, turn in zip(olds, turns, strict=True)
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
        late=filled(work.late, count)[source],
        slot=filled(work.slot, count, 1)[source].astype(np.int8),
    )


def _after(others: tuple[int, ...], turn: int, plan: _Plan) -> tuple[int, ...]:
    found: list[int] = _jobs(plan, turn, np.array(others)).tolist()
    return tuple(one for one in found if one >= 0)


def _jobs(plan: _Plan, turn: int, old: Int64) -> Int64:
    """Give the numbers of activities as a turn sees them: what was before is of the turn before."""
    new, stands = plan.jobs[turn, old], plan.stands[old]
    before = (new < 0) & (stands >= 0)
    if turn and before.any():
        new[before] = plan.jobs[turn - 1, stands[before]]
    return new


def _thread(thread: Thread, plan: _Plan) -> Thread:
    step = _steps(thread, plan)
    before = np.flatnonzero(step < 1)
    repeated = np.flatnonzero((step >= 1) & (step < plan.steps))
    tail = np.flatnonzero(step >= plan.steps)
    parts = [(before, 0), *((repeated, turn) for turn in range(plan.times)), (tail, plan.times - 1)]
    parts = [(_emitted(thread, rows, turn, plan), turn) for rows, turn in parts]
    rows = np.concatenate([one for one, _ in parts])
    args = np.concatenate([_args(thread, one, turn, plan) for one, turn in parts])
    columns = ("ops", "amounts", "counts", "own", "event", "step", "begin", "end", "stall", "under")
    taken = {
        name: column[rows]
        for name in columns
        if len(column := getattr(thread, name)) == len(thread.ops)
    }
    return replace(thread, args=args.astype(np.int32), **taken)


def _steps(thread: Thread, plan: _Plan) -> Int64:
    """Give the step of each anchor; a wait that begins early is of the step that it waits for."""
    step = thread.step.astype(np.int64)
    waits = np.flatnonzero(thread.ops == Op.WAIT)
    step[waits] = np.maximum(step[waits], plan.emitted[thread.args[waits]])
    return np.maximum.accumulate(step)


def _emitted(thread: Thread, rows: Int64, turn: int, plan: _Plan) -> Int64:
    """Leave out, in later turns, waits for what was handed over before the first."""
    if not turn:
        return rows
    waits = thread.ops[rows] == Op.WAIT
    given = plan.emitted[np.where(waits, thread.args[rows], 0)] if len(plan.emitted) else 0 * rows
    return rows[~(waits & (given < 1))]


def _args(thread: Thread, rows: Int64, turn: int, plan: _Plan) -> Int64:
    ops, args = thread.ops[rows], thread.args[rows].astype(np.int64)
    jobs = np.flatnonzero(np.isin(ops, _JOBS) & (args >= 0))
    args[jobs] = _jobs(plan, turn, args[jobs])
    passed = np.isin(ops, _HAND_OFFS)
    args[passed] += turn * len(plan.emitted)
    args[ops == Op.STEP] += turn * (plan.steps - 1)
    return args
