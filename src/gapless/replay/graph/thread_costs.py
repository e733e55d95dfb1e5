"""What the segments and anchors of a thread take, less what tracing cost."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.model.leaf import LEAVES
from gapless.model.trace import Int8, Int32, Int64
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Op
from gapless.replay.loader.queue import Source

_WAITS: Final = np.array([leaf.startswith(("idle.data", "comm.", "idle.comm.")) for leaf in LEAVES])
NO_SOURCES: Final[Mapping[int, Source]] = {}


def fill_column(column: Int64 | Int32 | Int8, count: int, value: int = 0) -> Int64:
    """Return a column as it is, or if it was left out, one value throughout."""
    return column.astype(np.int64) if len(column) else np.full(count, value, np.int64)


def find_source(sources: Mapping[int, Source], loader: int) -> Source | None:
    """Return the source of a loader; for an unknown one, that for any, or the only one."""
    source = sources.get(loader, sources.get(-1))
    alone = loader < 0 and len(sources) == 1
    return next(iter(sources.values())) if source is None and alone else source


def thread_costs(
    thread: GraphThread, alpha: float, sources: Mapping[int, Source] = NO_SOURCES, pace: float = 1.0
) -> tuple[Int64, Int64]:
    """Return the time of each segment and each anchor's own, less what tracing cost, in ns.

    Where a source is asked, the recorded wait for it is left out. If tracing cost more than the
    segment took, the excess is subtracted from the anchor's own time; stalls stay as they are.
    ``pace``: of the host.
    """
    remaining = thread.amounts.sum(axis=1) - np.rint(alpha * thread.counts).astype(np.int64)
    segment = np.maximum(remaining, 0)
    own_ns = thread.own_ns - np.minimum(np.maximum(-remaining, 0), np.maximum(thread.own_ns, 0))
    if pace != 1:
        waits = _WAITS if thread.amounts.shape[1] == len(LEAVES) else slice(0)  # else: not split
        wait_ns = np.minimum(thread.amounts[:, waits].sum(axis=1), segment)
        segment = wait_ns + np.rint((segment - wait_ns) / pace).astype(np.int64)
        own_ns = np.rint(own_ns / pace).astype(np.int64)
    segment = segment + fill_column(thread.stall, len(remaining))
    if sources:
        waits = _wait_anchors(thread, sources)
        segment[waits] = own_ns[waits] = 0
    return segment, own_ns


def _wait_anchors(thread: GraphThread, sources: Mapping[int, Source]) -> Int64:
    """Return the anchors between an ask and its hand-over, of loaders that a source stands for.

    Without an ask it is the hand-over alone.
    """
    rows: list[int] = []
    ask_position = None
    marks = np.flatnonzero((thread.ops == Op.DATA) | (thread.ops == Op.ASK))
    for position, op, loader in zip(
        marks.tolist(), thread.ops[marks].tolist(), thread.args[marks].tolist(), strict=True
    ):
        if op == Op.ASK:
            ask_position = position
        elif find_source(sources, loader) is not None:
            rows += range(position if ask_position is None else ask_position + 1, position + 1)
            ask_position = None
    return np.array(rows, np.int64)


def pace_work(graph: Graph) -> GraphWork:
    """Return the activities; what threads of the host carry out takes as long as its pace."""
    work = graph.work
    if graph.on_device or graph.pace == 1:
        return work
    columns = {"duration": work.duration, "lag": work.lag, "gap": work.gap}
    paced = {
        name: np.rint(column / graph.pace).astype(np.int64) for name, column in columns.items()
    }
    return replace(work, **paced)
