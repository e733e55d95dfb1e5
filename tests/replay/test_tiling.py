"""Windows played on and on."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.replay.nodes import Graph, Op
from gapless.replay.simulate import simulate
from gapless.replay.tiling import tiled
from tests.replay.graphs import A, W, graph, launched, seen


def lengths(made: Graph) -> list[int]:
    return np.diff(simulate(made).steps).tolist()


def two_threads(steps: int) -> Graph:
    """Let the second thread work for the first in each step."""
    main, other, acts = list[A](), list[A](), list[W]()
    for at in range(steps):
        there, back, job = 2 * at, 2 * at + 1, 2 * at
        main += [*launched(job), A(Op.EMIT, there), A(Op.WAIT, back), A(Op.STEP, at, before=5)]
        other += [A(Op.WAIT, there), *launched(job + 1, before=30), A(Op.EMIT, back)]
        acts += [W(7), W(9)]
    made = graph(main, other, acts=acts)
    second = replace(made.threads[1], step=np.repeat(np.arange(steps, dtype=np.int32), 3))
    made = replace(made, threads=(made.threads[0], second))
    played = simulate(made)
    return seen(made, played.steps.tolist())


def test_threads_work_for_each_other_in_each_turn() -> None:
    made = two_threads(3)
    assert lengths(made) == [55, 55]
    assert lengths(tiled(made, 4)) == [55] * 8
    assert len(simulate(tiled(made, 4)).start) == 18


def test_the_first_step_comes_once() -> None:
    main = [A(Op.STEP, 0, before=1000), A(Op.STEP, 1, before=10), A(Op.STEP, 2, before=20)]
    made = seen(graph(main), [1000, 1010, 1030])
    many = tiled(made, 3)
    assert lengths(many) == [10, 20] * 3
    assert many.steps.tolist() == [1000, 1010, 1030, 1040, 1060, 1070, 1090]
    assert many.counted == (1, 2, 3, 4, 5, 6)


def test_waits_for_the_step_before_reach_over_the_seam() -> None:
    """A copy of the step before, as copies a batch ahead have it."""
    main, acts = list[A](), list[W]()
    for at in range(3):
        main += [*launched(2 * at, 2 * at + 1), A(Op.STEP, at, before=5)]
        acts += [W(200, stream=1), W(10, after=(2 * at - 2,) if at else ())]
    made = graph(main, acts=acts)
    made = seen(made, simulate(made).steps.tolist())
    many = tiled(made, 3)
    waits = [one for one in many.work.after if one]
    assert len(waits) == 6
    assert lengths(many)[1:] == [200] * 5


def test_a_queue_that_fills_slowly_is_seen_in_the_end() -> None:
    main = [one for at in range(3) for one in [*launched(at), A(Op.STEP, at, before=5)]]
    made = graph(main, acts=[W(100)] * 3, capacity=4)
    made = seen(made, simulate(made).steps.tolist())
    few, many = simulate(made), simulate(tiled(made, 10))
    assert few.threads[0][-1] == 60  # the host runs ahead
    assert many.threads[0][-1] - many.threads[0][-3] == 100  # as fast as the device


@pytest.mark.parametrize("times", [0, 1])
def test_once_is_as_it_was(times: int) -> None:
    made = two_threads(2)
    assert tiled(made, times) is made


def test_one_step_cannot_be_repeated() -> None:
    made = seen(graph([A(Op.STEP, 0, before=10)]), [10])
    assert tiled(made, 5) is made
