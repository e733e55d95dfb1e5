"""Graphs of traces that were drawn."""

from dataclasses import replace

import numpy as np

from gapless.accounting import join, partition
from gapless.replay.graph import build
from gapless.replay.nodes import Graph
from tests.accounting.drawing import Drawing, draw


def graph_of(drawing: Drawing) -> Graph:
    drawn = draw(drawing)
    joined = join(drawn.trace)
    ledger = partition(drawn.trace, drawn.arrivals, drawn.stages, joined=joined)
    graph = build(joined, ledger, drawn.stages)
    assert isinstance(graph, Graph), graph
    return graph


def lasting(graph: Graph, *ns: int) -> Graph:
    return replace(graph, work=replace(graph.work, duration=np.array(ns, np.int64)))
