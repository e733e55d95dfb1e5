"""Activities and anchors that a graph did not have: put where they would be in the trace."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.intervals import Lane, measure_before
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.trace import Int64
from gapless.replay.graph.nodes import Float, Graph, GraphThread, GraphWork, Op
from gapless.replay.graph.simulate import fill_column

_Number = TypeVar("_Number", bound=np.integer[Any])
_LAUNCHES: Final = (Op.LAUNCH, Op.COPY)
_JOBS: Final = (*_LAUNCHES, Op.EVENT)
_UNKNOWN_LEAF: Final = LEAF["idle.host.python"]


class CallCost(Struct, frozen=True):
    """What a thread does for a call: before it launches, by leaf, traced events, the launch."""

    amounts: Int64
    count: int
    own_ns: int


NO_COST: Final = CallCost(np.zeros(len(LEAVES), np.int64), 0, 0)


class Insert(Struct, frozen=True):
    """An anchor that a thread gets at an instant of the trace; ``cost``: what comes with it."""

    instant: int
    op: Op
    arg: int
    cost: CallCost = NO_COST


class NewActivities(Struct, frozen=True):
    """Activities of one stream, in order of their launches, which are those of a collective.

    ``before``: the activity that their thread launched last, −1: none; on a device they wait for
    it. ``lag``, ``gap``, ``leaf``, ``event``: of all of them, as in ``GraphWork``.
    """

    launch: Int64
    before: Int64
    duration: Int64
    meeting: Int64
    stream: int
    lag: int
    gap: int
    leaf: int
    event: int


def jobs_before(thread: GraphThread, instants: Int64) -> Int64:
    """Return what a thread had launched last at each instant, −1: nothing."""
    rows = np.flatnonzero(np.isin(thread.ops, _LAUNCHES))
    position = np.searchsorted(thread.begin[rows], instants, side="right") - 1
    jobs = thread.args[rows].astype(np.int64)
    return np.where(position >= 0, np.append(jobs, -1)[position], -1)


def jobs_after(thread: GraphThread, instants: Int64) -> Int64:
    """Return what a thread launches first from each instant on, −1: nothing."""
    rows = np.flatnonzero(np.isin(thread.ops, _LAUNCHES))
    position = np.searchsorted(thread.begin[rows], instants)
    return np.append(thread.args[rows].astype(np.int64), -1)[position]


def add_activities(
    graph: Graph, new: NewActivities, waiting: Sequence[Sequence[int]]
) -> tuple[Graph, Int64]:
    """Return a graph with more activities, and their numbers: nothing launches them yet.

    ``waiting``: of each, the events of the trace whose activities wait for it.
    """
    work, count = graph.work, len(graph.work.stream)
    position = np.concatenate((np.arange(count), new.before))
    order = np.lexsort((np.concatenate((np.full(count, -1), new.launch)), position))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    numbers = number[count:]
    after: list[tuple[int, ...]] = [tuple(int(number[job]) for job in jobs) for jobs in work.after]
    for events, job in zip(waiting, numbers.tolist(), strict=True):
        for row in np.flatnonzero(np.isin(work.event, events)).tolist() if events else ():
            after[row] = (*after[row], job)
    is_tied = (new.before >= 0) & graph.on_device
    after += [
        (int(number[job]),) if tied else ()
        for job, tied in zip(new.before.tolist(), is_tied.tolist(), strict=True)
    ]

    sources: list[int] = order.tolist()
    added = GraphWork(
        stream=_join(order, work.stream, new.stream),
        duration=_join(order, work.duration, new.duration),
        lag=_join(order, work.lag, new.lag),
        gap=_join(order, work.gap, new.gap),
        after=tuple(after[row] for row in sources),
        leaf=_join(order, work.leaf, new.leaf),
        event=_join(order, work.event, new.event),
        late=_join(order, fill_column(work.late, count), 0),
        slot=_join(order, fill_column(work.slot, count, 1), int(graph.on_device)).astype(np.int8),
        hop=work.hop,
        meeting=_join(order, fill_column(work.meeting, count, -1), new.meeting).astype(np.int32),
    )
    threads = tuple(_renumber(thread, number) for thread in graph.threads)
    return replace(graph, work=added, threads=threads), numbers


def _join(
    order: Int64, column: npt.NDArray[_Number], values: npt.ArrayLike
) -> npt.NDArray[_Number]:
    """Return a column with those of new activities, all in order."""
    n_new = len(order) - len(column)
    new = np.broadcast_to(np.asarray(values, column.dtype), n_new)
    return np.concatenate((column, new))[order]


def _renumber(thread: GraphThread, number: Int64) -> GraphThread:
    args = thread.args.copy()
    is_job = np.isin(thread.ops, _JOBS) & (args >= 0)
    args[is_job] = number[args[is_job]]
    return replace(thread, args=args)


def insert_anchors(
    thread: GraphThread, inserts: Sequence[Insert], removed: Lane, start: int
) -> GraphThread:
    """Return a thread with more anchors; segments are parted by the time that is left of them.

    ``removed``: what is no longer part of them; ``start``: of the first one.
    """
    if not inserts:
        return thread
    ordered = sorted(inserts, key=lambda insert: insert.instant)
    instants = np.array([insert.instant for insert in ordered], np.int64)
    rows = np.searchsorted(thread.begin, instants)
    if rows[-1] == len(thread.ops):
        longer = _lengthen(thread, int(instants[-1]), start)
        return _leave_last_out(insert_anchors(longer, inserts, removed, start))
    lo, hi = np.concatenate(([start], thread.end[:-1]))[rows], thread.begin[rows]
    length, upto = (
        bound - lo - measure_before(removed, bound) + measure_before(removed, lo)
        for bound in (hi, np.clip(instants, lo, hi))
    )
    share = np.where(length > 0, upto / np.maximum(length, 1), 0.0)
    parts = {
        name: _part(column, rows, share)
        for name, column in (("amounts", thread.amounts), ("counts", thread.counts))
    }

    added = np.stack([insert.cost.amounts for insert in ordered])
    counts = np.array([insert.cost.count for insert in ordered], np.int64)

    return replace(
        thread,
        ops=_put(thread.ops, rows, [int(insert.op) for insert in ordered]),
        args=_put(thread.args, rows, [insert.arg for insert in ordered]),
        amounts=_put(thread.amounts - parts["amounts"][1], rows, parts["amounts"][0] + added),
        counts=_put(thread.counts - parts["counts"][1], rows, parts["counts"][0] + counts),
        own_ns=_put(thread.own_ns, rows, [insert.cost.own_ns for insert in ordered]),
        event=_put(thread.event, rows, -1),
        step=_put(thread.step, rows, thread.step[rows]),
        begin=_put(thread.begin, rows, instants),
        end=_put(thread.end, rows, instants),
        stall=_put(fill_column(thread.stall, len(thread.ops)), rows, 0),
        under=_put(thread.under, rows, thread.under[rows]) if len(thread.under) else thread.under,
    )


def _lengthen(thread: GraphThread, instant: int, start: int) -> GraphThread:
    """Return a thread with one row more, which ends its last segment at an instant.

    Of what it does behind its last anchor nothing is known, which counts as Python.
    """
    rest = np.zeros((1, len(LEAVES)), np.int64)
    rest[0, _UNKNOWN_LEAF] = max(0, instant - int(thread.end.max(initial=start)))
    values = {"args": -1, "event": -1, "step": thread.step.max(initial=-1)}
    values |= {"begin": instant, "end": instant, "ops": int(Op.EVENT)}
    at = np.array([len(thread.ops)])
    columns = {
        name: _put(getattr(thread, name), at, values.get(name, 0))
        for name in ("ops", "args", "counts", "own_ns", "event", "step", "begin", "end")
    }
    under = _put(thread.under, at, _UNKNOWN_LEAF) if len(thread.under) else thread.under
    amounts = np.concatenate((thread.amounts, rest))
    stall = _put(fill_column(thread.stall, len(thread.ops)), at, 0)
    return replace(thread, **columns, amounts=amounts, stall=stall, under=under)


def _leave_last_out(thread: GraphThread) -> GraphThread:
    columns = {name: getattr(thread, name)[:-1] for name in thread.__struct_fields__[1:]}
    return replace(thread, **columns)


def _put(column: npt.NDArray[_Number], rows: Int64, values: npt.ArrayLike) -> npt.NDArray[_Number]:
    """Return a column with values put before some of its rows."""
    return np.insert(column, rows, np.asarray(values, column.dtype), axis=0)


def _part(column: Int64, rows: Int64, share: Float) -> tuple[Int64, Int64]:
    """Return what of the segments lies before each insert, after the one before, and the sums."""
    shape = (-1,) + (1,) * (column.ndim - 1)
    upto = np.rint(column[rows] * share.reshape(shape)).astype(np.int64)
    is_same = np.append(False, rows[1:] == rows[:-1])[: len(rows)].reshape(shape)
    before = np.where(is_same, np.concatenate((upto[:1] * 0, upto[:-1])), 0)
    sums = np.zeros_like(column)
    np.add.at(sums, rows, upto - before)
    return upto - before, sums
