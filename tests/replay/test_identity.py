"""Real windows replayed unchanged, with imputed lags: they take as long as they did."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.accounting import join_trace, partition
from gapless.model.leaf import LEAVES
from gapless.replay.edits.select import view_of
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph, GraphThread, Op, SimulatedSteps
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.identity import check_identity, find_fault
from gapless.replay.predict.scene import Scene, usual_alpha
from tests.accounting.drawing import Act, Call, Drawing
from tests.replay.making import graph_of
from tests.traces import TRACES, read_fixture


@cache
def read_graph(case: str) -> Graph:
    trace = read_fixture(case)
    joined_trace = join_trace(trace)
    graph = build_graph(joined_trace, partition(trace, joined_trace=joined_trace))
    assert isinstance(graph, Graph), graph
    return graph


@pytest.mark.parametrize("case", TRACES)
def test_real_windows_are_given_back(case: str) -> None:
    check = check_identity(read_graph(case), simulate)
    assert check.passes, check.refusal
    assert check.error is not None
    assert abs(check.error) < 0.005
    assert len(check.steps) == len(read_graph(case).counted_steps) >= 5
    assert check.unexplained < 0.01


@pytest.mark.parametrize("case", TRACES)
def test_threads_do_what_the_account_says_and_nothing_is_lost(case: str) -> None:
    graph = read_graph(case)
    main = graph.threads[0]
    is_wait = np.isin(main.ops, (Op.WAIT, Op.SYNC, Op.EVENT, Op.COPY))
    calls = (main.end - main.begin)[is_wait].sum()
    assert main.amounts.sum() + main.stall.sum() + main.own_ns[~is_wait].sum() + calls == (
        main.end[-1] - graph.start
    )
    assert main.end[-1] <= graph.steps[-1]
    assert [op for op in main.ops.tolist() if op == Op.STEP] == [Op.STEP] * len(graph.steps)


def test_loading_is_asked_for_once_a_step() -> None:
    main = read_graph("loader_workers").threads[0]
    n_asks = [int((main.ops[main.step == step] == Op.ASK).sum()) for step in range(6)]
    assert n_asks == [1] * 6


def edit_threads(case: str, edit: Callable[[GraphThread], GraphThread]) -> Graph:
    graph = read_graph(case)
    return replace(graph, threads=tuple(edit(thread) for thread in graph.threads))


def test_a_missing_hand_off_does_not_pass() -> None:
    def cut_hand_offs(thread: GraphThread) -> GraphThread:
        is_hand_off = np.isin(thread.ops, (Op.EMIT, Op.WAIT))
        return replace(
            thread,
            ops=np.where(is_hand_off, Op.EVENT, thread.ops).astype(np.int8),
            args=np.where(is_hand_off, -1, thread.args).astype(np.int32),
        )

    check = check_identity(edit_threads("eager_launch_bound", cut_hand_offs), simulate)
    assert not check.passes
    assert "the step is -" in str(check.refusal)


def test_threads_that_wait_for_ever_do_not_pass() -> None:
    def deaf(thread: GraphThread) -> GraphThread:
        is_wait = thread.ops == Op.WAIT
        return replace(thread, args=np.where(is_wait, 9999, thread.args).astype(np.int32))

    check = check_identity(edit_threads("eager_launch_bound", deaf), simulate)
    assert (check.error, check.passes) == (None, False)
    assert "wait for ever" in str(check.refusal)


def test_waits_that_nothing_explains_do_not_pass() -> None:
    check = check_identity(replace(read_graph("compiled"), unexplained=0.16), simulate)
    assert not check.passes
    assert "16%" in str(check.refusal)


def test_what_an_identity_misses_makes_intervals_wider() -> None:
    check = check_identity(read_graph("compiled"), simulate)
    joined_trace = join_trace(read_fixture("compiled"))
    ledger = partition(joined_trace.threads.trace, joined_trace=joined_trace)
    inexact = replace(check, error=-0.012)
    scene = Scene(
        view_of(joined_trace, ledger), read_graph("compiled"), inexact, usual_alpha(), anchored=True
    )
    assert scene.error_share == pytest.approx(0.007)
    assert replace(scene, identity=replace(check, error=0.004)).error_share == 0.0
    waiting = replace(check, error=0.0, unexplained=0.09)  # such as for another process's kernels
    assert replace(scene, identity=waiting).error_share == pytest.approx(0.09)


def break_graph(case: str) -> Graph:
    graph = graph_of(
        Drawing([Act("K", 10, 60, Call(0, 6)), Act("L", 70, 90, Call(20, 26))], [], [0, 99])
    )
    work, main = graph.work, graph.threads[0]
    match case:
        case "a regular step":
            return replace(graph, counted_steps=())
        case "has no length":
            return replace(graph, steps=np.array([0]))
        case "negative":
            amounts = np.zeros((len(main.ops), len(LEAVES)), np.int64)
            amounts[0, 0] = -1
            return replace(graph, threads=(replace(main, amounts=amounts),))
        case "an activity has no length":
            return replace(graph, work=replace(work, duration=np.array([50, 0])))
        case "launched after it":
            return replace(graph, work=replace(work, after=((1,), ())))
        case _:
            args = np.array([0, 0, 0], np.int32)
            return replace(graph, threads=(replace(main, args=args),))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("a regular step", "no step of the window is regular"),
        ("has no length", "a step of the window has no length"),
        ("negative", "negative length"),
        ("an activity has no length", "an activity has no length"),
        ("launched after it", "launched after it"),
        ("twice", "not launched, or twice"),
    ],
)
def test_a_graph_that_no_trace_can_give_is_not_played(case: str, reason: str) -> None:
    def never(graph: Graph, alpha: float) -> SimulatedSteps:
        raise AssertionError((graph, alpha))

    check = check_identity(break_graph(case), never)
    assert reason in str(find_fault(break_graph(case)))
    assert (check.passes, check.error) == (False, None)
    assert reason in str(check.refusal)
