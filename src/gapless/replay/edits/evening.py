"""A late rank evened out: what it does more than the others, and nothing else, is taken away.

Ranks are compared by what their threads and devices do in a step, not by when their devices are
idle: a rank that waits for another hides its own work behind that wait. Waits and tracing are no
work.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.model.change import Change, Drop
from gapless.model.leaf import LEAVES
from gapless.replay.graph.nodes import Float, Graph

STRAGGLER_LEAVES: Final = ("comm.straggler_wait",)
_WAITS: Final = ("comm.", "idle.comm", "idle.sync", "idle.profiler", "idle.device")


def is_evening_out(change: Change) -> bool:
    """Return whether a change makes a late rank as fast as the others."""
    return isinstance(change, Drop) and change.leaves == STRAGGLER_LEAVES


def evened_keep(changes: Sequence[Change]) -> float | None:
    """Return the share of its excess that a late rank keeps; ``None``: none is evened out."""
    return next(
        (change.keep for change in changes if isinstance(change, Drop) and is_evening_out(change)),
        None,
    )


def even_out(
    graphs: Sequence[Graph], late: int, keep: float = 0.0, hidden: float = 0.0
) -> list[Graph]:
    """Return the graphs, the late rank's without a share of what it does more than the others.

    What these do of the same kind counts no more than what it takes the late one, which waits for
    nobody: ranks run the same code; what a host does while its device waits is hidden, and kernels
    beside a collective that waits are slowed by it. ``hidden``: the share of the rest that counts.
    """
    other_graphs = [graph for index, graph in enumerate(graphs) if index != late]
    host_ns = _host_ns(graphs[late])
    kept_shares = _kept_shares(host_ns, [_host_ns(graph) for graph in other_graphs], keep)
    device_ns = _device_ns(graphs[late])
    kept_device = _kept_shares(device_ns, [_device_ns(graph) for graph in other_graphs], keep)
    evened_ns, evened_device_ns = host_ns * kept_shares, device_ns * kept_device
    evened_graphs: list[Graph] = []
    for index, graph in enumerate(graphs):
        if index == late:
            evened_graphs.append(_scale_graph(graph, kept_shares[_KIND], kept_device[_KIND]))
            continue
        open_host = _kept_shares(_host_ns(graph), [evened_ns], hidden)
        open_device = _kept_shares(_device_ns(graph), [evened_device_ns], hidden)
        evened_graphs.append(_scale_graph(graph, open_host[_KIND], open_device[_KIND]))
    return evened_graphs


def saved_by_evening(graphs: Sequence[Graph], late: int, keep: float) -> float:
    """Return what a late rank does less in a step, on its host and devices, once it is evened out.

    At the pace of its host: only waits for data last as long at any. The others gain no more by
    that: what they do meanwhile may itself be a wait for it.
    """
    is_device_own, pace = graphs[late].on_device, graphs[late].pace
    host_pace, device_pace = np.where(_IS_DATA, 1.0, pace), 1.0 if is_device_own else pace
    saved_ns = 0.0
    for count_ns, kind_pace in ((_host_ns, host_pace), (_device_ns, device_pace)):
        rank_ns = [count_ns(graph) for graph in graphs]
        own_ns = rank_ns.pop(late)
        kept_shares = _kept_shares(own_ns, rank_ns, keep)
        saved_ns += float((own_ns * (1 - kept_shares) / kind_pace).sum())
    return saved_ns


def _scale_graph(graph: Graph, host: Float, device: Float) -> Graph:
    """Return a graph whose threads and devices keep a share of each leaf."""
    threads = tuple(
        replace(
            thread,
            amounts=np.rint(thread.amounts * host).astype(np.int64),
        )
        for thread in graph.threads
    )
    duration = np.maximum(np.rint(graph.work.duration * device[graph.work.leaf]), 1)
    return replace(
        graph, threads=threads, work=replace(graph.work, duration=duration.astype(np.int64))
    )


def _kind_of(leaf: str) -> str:
    """Return what leaves are compared by: their first two parts."""
    return ".".join(leaf.split(".")[:2])


_KINDS: Final = sorted({_kind_of(leaf) for leaf in LEAVES})
_KIND: Final = np.array([_KINDS.index(_kind_of(leaf)) for leaf in LEAVES])
_IS_DATA: Final = np.array([kind == "idle.data" for kind in _KINDS], bool)
_IS_WORK: Final = np.array([not kind.startswith(_WAITS) for kind in _KINDS], bool)


def _host_ns(graph: Graph) -> Float:
    """Return what a rank's threads do in its counted steps, by kind of leaf."""
    sums = np.zeros(len(LEAVES), np.int64)
    for thread in graph.threads:
        sums += thread.amounts[np.isin(thread.step, graph.counted_steps)].sum(axis=0)
    return np.bincount(_KIND, sums, len(_KINDS)) / max(len(graph.counted_steps), 1)


def _device_ns(graph: Graph) -> Float:
    """Return what a rank's devices do in a step, by kind of leaf."""
    sums = np.bincount(graph.work.leaf, graph.work.duration, len(LEAVES))
    return np.bincount(_KIND, sums, len(_KINDS)) / max(len(graph.steps), 1)


def _kept_shares(own_ns: Float, other_ns: Sequence[Float], keep: float) -> Float:
    """Return what is kept of each leaf: what the others have on average, and some of the rest."""
    mean_ns = np.mean(other_ns, axis=0)
    target_ns = np.minimum(own_ns, mean_ns + keep * (own_ns - mean_ns))
    return np.where(_IS_WORK & (own_ns > 0), target_ns / np.maximum(own_ns, 1e-9), 1.0)
