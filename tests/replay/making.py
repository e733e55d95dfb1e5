"""Graphs of traces that were drawn."""

import numpy as np
from msgspec.structs import replace

from gapless.accounting import join_trace, partition
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph
from tests.accounting.drawing import Drawing, draw


def graph_of(drawing: Drawing) -> Graph:
    inputs = draw(drawing)
    joined_trace = join_trace(inputs.trace)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages, joined_trace=joined_trace)
    graph = build_graph(joined_trace, ledger)
    assert isinstance(graph, Graph), graph
    return graph


def with_durations(graph: Graph, *durations: int) -> Graph:
    return replace(graph, work=replace(graph.work, duration=np.array(durations, np.int64)))
