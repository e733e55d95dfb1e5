"""Graphs written by hand: anchors of threads, activities, in nanoseconds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gapless.model.leaf import LEAF, LEAVES
from gapless.replay.nodes import Graph, Op, Thread, Work

PYTHON = "idle.host.python"


@dataclass(frozen=True)
class A:
    """An anchor, and the segment before it."""

    op: Op
    arg: int = -1
    before: int = 0  # ns of the segment
    own: int = 0
    counts: int = 0
    leaf: str = PYTHON  # of the segment
    stall: int = 0


@dataclass(frozen=True)
class W:
    """An activity."""

    duration: int
    stream: int = 0
    lag: int = 0
    gap: int = 0
    after: tuple[int, ...] = ()
    late: int = 0
    slot: int = 1


def thread(anchors: Sequence[A], track: int = 0) -> Thread:
    amounts = np.zeros((len(anchors), len(LEAVES)), np.int64)
    for at, one in enumerate(anchors):
        amounts[at, LEAF[one.leaf]] = one.before
    ops = np.array([one.op for one in anchors], np.int8)
    ended = np.cumsum(ops == Op.STEP) - (ops == Op.STEP)
    return Thread(
        track=track,
        ops=ops,
        args=np.array([one.arg for one in anchors], np.int32),
        amounts=amounts,
        counts=np.array([one.counts for one in anchors], np.int64),
        own=np.array([one.own for one in anchors], np.int64),
        event=np.full(len(anchors), -1, np.int32),
        step=ended.astype(np.int32),
        stall=np.array([one.stall for one in anchors], np.int64),
    )


def work(acts: Sequence[W], hop: int = 0) -> Work:
    return Work(
        stream=np.array([one.stream for one in acts], np.int32),
        duration=np.array([one.duration for one in acts], np.int64),
        lag=np.array([one.lag for one in acts], np.int64),
        gap=np.array([one.gap for one in acts], np.int64),
        after=tuple(one.after for one in acts),
        leaf=np.full(len(acts), LEAF["busy.math"], np.int8),
        event=np.full(len(acts), -1, np.int32),
        late=np.array([one.late for one in acts], np.int64),
        slot=np.array([one.slot for one in acts], np.int8),
        hop=hop,
    )


def graph(
    *threads: Sequence[A], acts: Sequence[W] = (), capacity: int = 1023, hop: int = 0
) -> Graph:
    """Make a graph that begins at 0; its ends of steps are not those of a trace."""
    streams = max([one.stream for one in acts], default=-1) + 1
    steps = sum(one.op == Op.STEP for one in threads[0])
    return Graph(
        threads=tuple(thread(one, at) for at, one in enumerate(threads)),
        work=work(acts, hop),
        streams=tuple((0, 7 + at) for at in range(streams)),
        capacity=(capacity,) * streams,
        begun=np.full(streams, -1, np.int64),
        steps=np.zeros(steps, np.int64),
        on_device=streams > 0,
        start=0,
        unexplained=0.0,
        counted=tuple(range(1, steps)) or (0,),
    )


def launched(*jobs: int, before: int = 10, own: int = 5) -> list[A]:
    return [A(Op.LAUNCH, job, before, own) for job in jobs]


def seen(found: Graph, steps: Sequence[int]) -> Graph:
    """Give a graph with the ends of steps that a trace would have shown."""
    return replace(found, steps=np.array(steps, np.int64))
