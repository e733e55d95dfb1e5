"""Windows played on and on."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.replay.graph.nodes import Graph, Op
from gapless.replay.graph.simulate import simulate
from gapless.replay.graph.tiling import tile_graph
from tests.replay.graphs import Anchor, Job, launch_anchors, make_graph, with_steps


def step_lengths(graph: Graph) -> list[int]:
    return np.diff(simulate(graph).steps).tolist()


def two_threads(steps: int) -> Graph:
    """Let the second thread work for the first in each step."""
    main, helper, acts = list[Anchor](), list[Anchor](), list[Job]()
    for index in range(steps):
        outward, back, job = 2 * index, 2 * index + 1, 2 * index
        main += [
            *launch_anchors(job),
            Anchor(Op.EMIT, outward),
            Anchor(Op.WAIT, back),
            Anchor(Op.STEP, index, segment_ns=5),
        ]
        helper += [
            Anchor(Op.WAIT, outward),
            *launch_anchors(job + 1, segment_ns=30),
            Anchor(Op.EMIT, back),
        ]
        acts += [Job(7), Job(9)]
    short_graph = make_graph(main, helper, acts=acts)
    second = replace(short_graph.threads[1], step=np.repeat(np.arange(steps, dtype=np.int32), 3))
    short_graph = replace(short_graph, threads=(short_graph.threads[0], second))
    simulated = simulate(short_graph)
    return with_steps(short_graph, simulated.steps.tolist())


def test_threads_work_for_each_other_in_each_turn() -> None:
    short_graph = two_threads(3)
    assert step_lengths(short_graph) == [55, 55]
    assert step_lengths(tile_graph(short_graph, 4)) == [55] * 8
    assert len(simulate(tile_graph(short_graph, 4)).start) == 18


def test_the_first_step_comes_once() -> None:
    main = [
        Anchor(Op.STEP, 0, segment_ns=1000),
        Anchor(Op.STEP, 1, segment_ns=10),
        Anchor(Op.STEP, 2, segment_ns=20),
    ]
    short_graph = with_steps(make_graph(main), [1000, 1010, 1030])
    tiled_graph = tile_graph(short_graph, 3)
    assert step_lengths(tiled_graph) == [10, 20] * 3
    assert tiled_graph.steps.tolist() == [1000, 1010, 1030, 1040, 1060, 1070, 1090]
    assert tiled_graph.counted_steps == (1, 2, 3, 4, 5, 6)


def test_waits_for_the_step_before_reach_over_the_seam() -> None:
    """A copy of the step before, as copies a batch ahead have it."""
    main, acts = list[Anchor](), list[Job]()
    for index in range(3):
        main += [*launch_anchors(2 * index, 2 * index + 1), Anchor(Op.STEP, index, segment_ns=5)]
        acts += [Job(200, stream=1), Job(10, after=(2 * index - 2,) if index else ())]
    short_graph = make_graph(main, acts=acts)
    short_graph = with_steps(short_graph, simulate(short_graph).steps.tolist())
    tiled_graph = tile_graph(short_graph, 3)
    waits = [jobs for jobs in tiled_graph.work.after if jobs]
    assert len(waits) == 6
    assert step_lengths(tiled_graph)[1:] == [200] * 5


def test_a_queue_that_fills_slowly_is_seen_in_the_end() -> None:
    main = [
        anchor
        for index in range(3)
        for anchor in [*launch_anchors(index), Anchor(Op.STEP, index, segment_ns=5)]
    ]
    short_graph = make_graph(main, acts=[Job(100)] * 3, capacity=4)
    short_graph = with_steps(short_graph, simulate(short_graph).steps.tolist())
    short_run, long_run = simulate(short_graph), simulate(tile_graph(short_graph, 10))
    assert short_run.threads[0][-1] == 60  # the host runs ahead
    assert long_run.threads[0][-1] - long_run.threads[0][-3] == 100  # as fast as the device


@pytest.mark.parametrize("times", [0, 1])
def test_once_is_as_it_was(times: int) -> None:
    short_graph = two_threads(2)
    assert tile_graph(short_graph, times) is short_graph


def test_one_step_cannot_be_repeated() -> None:
    short_graph = with_steps(make_graph([Anchor(Op.STEP, 0, segment_ns=10)]), [10])
    assert tile_graph(short_graph, 5) is short_graph
