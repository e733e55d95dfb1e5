"""Exchanges that other work goes on beside, in a replay of ranks: how long, and what that costs.

What runs beside an exchange is slowed by it: it takes processors and memory that both need.
"""

import numpy as np

from gapless.accounting.intervals import Lane, empty_column, overlap, union
from gapless.replay.graph.nodes import Graph, Op, SimulatedSteps
from gapless.replay.graph.simulate import simulate
from gapless.replay.graph.thread_costs import fill_column, pace_work


def hidden_ns(graph: Graph, alpha: float) -> float:
    """Return how long a step's exchanges run while their rank works, on average over ranks."""
    simulated = simulate(graph, alpha)
    total_ns = sum(_rank_hidden_ns(graph, simulated, rank) for rank in range(len(graph.rank_spans)))
    return total_ns / max(1, len(graph.rank_spans) * len(graph.steps))


def _rank_hidden_ns(graph: Graph, simulated: SimulatedSteps, rank: int) -> int:
    span, work = graph.rank_spans[rank], graph.work
    is_own = (work.stream >= span.streams[0]) & (work.stream < span.streams[1])
    is_own &= simulated.start >= 0
    is_met = is_own & (fill_column(work.meeting, len(is_own), -1) >= 0)
    end = simulated.end[is_met]
    exchange = union(end - pace_work(graph).duration[is_met], end)
    if graph.on_device:
        rows = is_own & ~is_met
        works = union(simulated.start[rows], simulated.end[rows])
        return _common_ns(exchange, works)
    return int((exchange.end - exchange.start).sum()) - _common_ns(
        exchange, _wait_lane(graph, simulated, span.threads)
    )


def _wait_lane(graph: Graph, simulated: SimulatedSteps, threads: tuple[int, int]) -> Lane:
    """Return when threads of a rank wait for exchanges."""
    starts, ends = [empty_column()], [empty_column()]
    for index in range(*threads):
        is_wait = graph.threads[index].ops == Op.EVENT
        starts.append(simulated.segment_starts[index][is_wait])
        ends.append(simulated.threads[index][is_wait])
    return union(np.concatenate(starts), np.concatenate(ends))


def _common_ns(lane: Lane, works: Lane) -> int:
    return int(overlap(lane, works.start, works.end).sum())
