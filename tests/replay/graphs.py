"""Graphs written by hand: anchors of threads, activities, in nanoseconds."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.leaf import LEAF, LEAVES
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Op

PYTHON = "idle.host.python"


class Anchor(Struct, frozen=True):
    """An anchor, and the segment before it."""

    op: Op
    arg: int = -1
    segment_ns: int = 0  # ns of the segment
    own_ns: int = 0
    counts: int = 0
    leaf: str = PYTHON  # of the segment
    stall: int = 0


class Job(Struct, frozen=True):
    """An activity."""

    duration: int
    stream: int = 0
    lag: int = 0
    gap: int = 0
    after: tuple[int, ...] = ()
    late: int = 0
    slot: int = 1


def make_thread(anchors: Sequence[Anchor], track: int = 0) -> GraphThread:
    amounts = np.zeros((len(anchors), len(LEAVES)), np.int64)
    for index, anchor in enumerate(anchors):
        amounts[index, LEAF[anchor.leaf]] = anchor.segment_ns
    ops = np.array([anchor.op for anchor in anchors], np.int8)
    step_numbers = np.cumsum(ops == Op.STEP) - (ops == Op.STEP)
    return GraphThread(
        track=track,
        ops=ops,
        args=np.array([anchor.arg for anchor in anchors], np.int32),
        amounts=amounts,
        counts=np.array([anchor.counts for anchor in anchors], np.int64),
        own_ns=np.array([anchor.own_ns for anchor in anchors], np.int64),
        event=np.full(len(anchors), -1, np.int32),
        step=step_numbers.astype(np.int32),
        stall=np.array([anchor.stall for anchor in anchors], np.int64),
    )


def make_work(acts: Sequence[Job], hop: int = 0) -> GraphWork:
    return GraphWork(
        stream=np.array([job.stream for job in acts], np.int32),
        duration=np.array([job.duration for job in acts], np.int64),
        lag=np.array([job.lag for job in acts], np.int64),
        gap=np.array([job.gap for job in acts], np.int64),
        after=tuple(job.after for job in acts),
        leaf=np.full(len(acts), LEAF["busy.math"], np.int8),
        event=np.full(len(acts), -1, np.int32),
        late=np.array([job.late for job in acts], np.int64),
        slot=np.array([job.slot for job in acts], np.int8),
        hop=hop,
    )


def make_graph(
    *threads: Sequence[Anchor], acts: Sequence[Job] = (), capacity: int = 1023, hop: int = 0
) -> Graph:
    """Make a graph that begins at 0; its ends of steps are not those of a trace."""
    streams = max([job.stream for job in acts], default=-1) + 1
    steps = sum(anchor.op == Op.STEP for anchor in threads[0])
    return Graph(
        threads=tuple(make_thread(anchors, track) for track, anchors in enumerate(threads)),
        work=make_work(acts, hop),
        streams=tuple((0, 7 + index) for index in range(streams)),
        capacity=(capacity,) * streams,
        backlog_ends=np.full(streams, -1, np.int64),
        steps=np.zeros(steps, np.int64),
        on_device=streams > 0,
        start=0,
        unexplained=0.0,
        counted_steps=tuple(range(1, steps)) or (0,),
    )


def launch_anchors(*jobs: int, segment_ns: int = 10, own_ns: int = 5) -> list[Anchor]:
    return [Anchor(Op.LAUNCH, job, segment_ns, own_ns) for job in jobs]


def with_steps(graph: Graph, steps: Sequence[int]) -> Graph:
    """Return a graph with the ends of steps that a trace would have shown."""
    return replace(graph, steps=np.array(steps, np.int64))
