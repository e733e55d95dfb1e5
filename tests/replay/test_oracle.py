"""Random programs: the graph comes from timestamps, the truth from running the edited program."""

import random
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.leaf import LEAF, LEAVES
from gapless.replay.graph.nodes import Graph, GraphThread, Op
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.identity import check_identity
from tests.replay.machine import SIDE, Action, MachineCosts, drop_kind, make_program, run_program
from tests.replay.making import graph_of

PROGRAMS = 24
DATA = [code for code, leaf in enumerate(LEAVES) if leaf.startswith("idle.data.")]


def edit_threads(graph: Graph, edit: Callable[[GraphThread], GraphThread]) -> Graph:
    return replace(graph, threads=tuple(edit(thread) for thread in graph.threads))


def without_syncs(graph: Graph) -> Graph:
    def edit(thread: GraphThread) -> GraphThread:
        syncs = np.isin(thread.ops, (Op.SYNC, Op.EVENT))
        return replace(
            thread,
            ops=np.where(syncs, Op.EVENT, thread.ops).astype(np.int8),
            args=np.where(syncs, -1, thread.args).astype(np.int32),
            own_ns=np.where(syncs, 0, thread.own_ns),
        )

    return edit_threads(graph, edit)


def with_faster_host(graph: Graph) -> Graph:
    def edit(thread: GraphThread) -> GraphThread:
        amounts = np.rint(thread.amounts * 0.2).astype(np.int64)
        amounts[:, DATA] = thread.amounts[:, DATA]
        own_ns = np.where(thread.ops == Op.LAUNCH, np.rint(thread.own_ns * 0.2), thread.own_ns)
        return replace(thread, amounts=amounts, own_ns=own_ns.astype(np.int64))

    return edit_threads(graph, edit)


def with_faster_math(graph: Graph, is_halved: np.ndarray) -> Graph:
    duration = np.where(is_halved, graph.work.duration // 2, graph.work.duration)
    return replace(graph, work=replace(graph.work, duration=duration))


def speed_up_host(action: Action) -> Action:
    return (
        replace(action, ns=round(action.ns * 0.2)) if action.kind in ("cpu", "launch") else action
    )


def speed_up_math(action: Action) -> Action:
    return (
        replace(action, device_ns=action.device_ns // 2)
        if action.kind == "launch" and action.name == "gemm"
        else action
    )


class Producer(Struct):
    """Makes one batch ahead, as the machine does."""

    batch_ns: int
    hand_ns: int
    ready_ns: int = 0

    def hand_over(self, ask_ns: int) -> int:
        hand_over_ns = max(ask_ns, self.ready_ns) + self.hand_ns
        self.ready_ns = max(self.ready_ns, ask_ns) + self.batch_ns
        return hand_over_ns


def play_with_producer(graph: Graph, actions: list[Action]) -> np.ndarray:
    """Play a graph with the machine's producer in place of the waits for it."""
    data_action = next(action for action in actions if action.kind == "data")
    return simulate(graph, 0.0, {-1: Producer(data_action.device_ns, data_action.ns)}).steps


def mean_step(steps: list[int] | np.ndarray) -> float:
    ends = np.asarray(steps)
    return float((ends[-1] - ends[0]) / (len(ends) - 1))


def measure_gains(jitter: float, edit: str) -> list[tuple[float, float]]:
    """Return (predicted, true) shares of a step for each program, and check the identity."""
    gain_pairs = list[tuple[float, float]]()
    for seed in range(PROGRAMS):
        actions, costs = make_program(random.Random(seed)), MachineCosts(jitter=jitter)
        machine_run = run_program(actions, costs, seed + 1)
        graph = graph_of(machine_run.drawing())
        base_step = mean_step(play_with_producer(graph, actions))
        if edit == "sync":
            edited_actions, edited_graph = drop_kind(actions, "sync"), without_syncs(graph)
        elif edit == "host":
            edited_actions, edited_graph = (
                [speed_up_host(action) for action in actions],
                with_faster_host(graph),
            )
        else:
            edited_actions = [speed_up_math(action) for action in actions]
            is_gemm = np.array([act.name == "gemm" for act in machine_run.acts])
            edited_graph = with_faster_math(graph, is_gemm)
        truth = mean_step(run_program(edited_actions, costs, seed + 2).step_ends) / mean_step(
            machine_run.step_ends
        )
        gain_pairs.append(
            (1 - mean_step(play_with_producer(edited_graph, actions)) / base_step, 1 - truth)
        )
    return gain_pairs


@pytest.mark.parametrize("jitter", [0.0, 0.05])
def test_an_unchanged_replay_gives_random_programs_back(jitter: float) -> None:
    errors = list[float]()
    for seed in range(PROGRAMS):
        machine_run = run_program(
            make_program(random.Random(seed)), MachineCosts(jitter=jitter), seed + 1
        )
        graph = graph_of(machine_run.drawing())
        assert graph.steps.tolist() == machine_run.step_ends
        check = check_identity(graph, simulate)
        assert check.error is not None, check.refusal
        errors.append(abs(check.error))
    assert median(errors) < 0.001
    assert max(errors) < 0.01


@pytest.mark.parametrize("edit", ["sync", "host", "math"])
@pytest.mark.parametrize(("jitter", "middle", "worst"), [(0.0, 0.0002, 0.005), (0.05, 0.006, 0.04)])
def test_gains_are_those_of_the_machine(
    edit: str, jitter: float, middle: float, worst: float
) -> None:
    gain_pairs = measure_gains(jitter, edit)
    errors = [abs(predicted - true) for predicted, true in gain_pairs]
    assert max(true for _, true in gain_pairs) > 0.03  # there is something to predict
    assert median(errors) < middle
    assert max(errors) < worst


def test_a_second_stream_waits_for_the_first_without_a_record_of_it() -> None:
    machine_run = run_program(make_program(random.Random(3)), MachineCosts(), 4)
    side_rows = [index for index, act in enumerate(machine_run.acts) if act.stream == SIDE]
    assert side_rows
    graph = graph_of(machine_run.drawing())
    calls = {index: machine_run.acts[index].call for index in side_rows}
    late_rows = [
        index
        for index, call in calls.items()
        if call and machine_run.acts[index].start - call.end > 20_000
    ]
    waiting_rows = [index for index in range(len(graph.work.after)) if graph.work.after[index]]
    assert len(waiting_rows) >= len(late_rows) * 0.9
    assert graph.unexplained < 0.01


def test_leaves_of_host_time_are_those_of_the_account() -> None:
    machine_run = run_program(make_program(random.Random(1)), MachineCosts(), 2)
    graph = graph_of(machine_run.drawing())
    data_ns = sum(f.end - f.start for f in machine_run.frames if f.tag == "data")
    assert int(graph.threads[0].amounts[:, DATA].sum()) == data_ns
    op_ns = sum(f.end - f.start for f in machine_run.frames if f.tag == "op")
    assert int(graph.threads[0].amounts[:, LEAF["idle.host.dispatch"]].sum()) == op_ns
