"""Random programs: the graph comes from timestamps, the truth from running the edited program."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import pytest

from gapless.model.leaf import LEAF, LEAVES
from gapless.replay.identity import identity
from gapless.replay.nodes import Graph, Op, Thread
from gapless.replay.simulate import simulate
from tests.replay.machine import SIDE, Costs, Do, program, run, without
from tests.replay.making import graph_of

PROGRAMS = 24
DATA = [code for code, leaf in enumerate(LEAVES) if leaf.startswith("idle.data.")]
OTHER_STREAM = 14


def changed(graph: Graph, edit: Callable[[Thread], Thread]) -> Graph:
    return replace(graph, threads=tuple(edit(one) for one in graph.threads))


def without_syncs(graph: Graph) -> Graph:
    def edit(thread: Thread) -> Thread:
        syncs = np.isin(thread.ops, (Op.SYNC, Op.EVENT))
        return replace(
            thread,
            ops=np.where(syncs, Op.EVENT, thread.ops).astype(np.int8),
            args=np.where(syncs, -1, thread.args).astype(np.int32),
            own=np.where(syncs, 0, thread.own),
        )

    return changed(graph, edit)


def with_faster_host(graph: Graph) -> Graph:
    def edit(thread: Thread) -> Thread:
        amounts = np.rint(thread.amounts * 0.2).astype(np.int64)
        amounts[:, DATA] = thread.amounts[:, DATA]
        own = np.where(thread.ops == Op.LAUNCH, np.rint(thread.own * 0.2), thread.own)
        return replace(thread, amounts=amounts, own=own.astype(np.int64))

    return changed(graph, edit)


def with_faster_math(graph: Graph, half: np.ndarray) -> Graph:
    duration = np.where(half, graph.work.duration // 2, graph.work.duration)
    return replace(graph, work=replace(graph.work, duration=duration))


def faster_host(do: Do) -> Do:
    return replace(do, ns=round(do.ns * 0.2)) if do.kind in ("cpu", "launch") else do


def faster_math(do: Do) -> Do:
    return replace(do, device=do.device // 2) if do.kind == "launch" and do.what == "gemm" else do


@dataclass
class Producer:
    """Makes one batch ahead, as the machine does."""

    made: int
    hand: int
    ready: int = 0

    def got(self, ask_ns: int) -> int:
        got = max(ask_ns, self.ready) + self.hand
        self.ready = max(self.ready, ask_ns) + self.made
        return got


def played(graph: Graph, made: list[Do]) -> np.ndarray:
    """Play a graph with the machine's producer in place of the waits for it."""
    asked = next(do for do in made if do.kind == "data")
    return simulate(graph, 0.0, {-1: Producer(asked.device, asked.ns)}).steps


def mean(steps: list[int] | np.ndarray) -> float:
    ends = np.asarray(steps)
    return float((ends[-1] - ends[0]) / (len(ends) - 1))


def gains(jitter: float, edit: str) -> list[tuple[float, float]]:
    """Give (predicted, true) shares of a step for each program, and check the identity."""
    out = list[tuple[float, float]]()
    for seed in range(PROGRAMS):
        made, costs = program(random.Random(seed)), Costs(jitter=jitter)
        ran = run(made, costs, seed + 1)
        graph = graph_of(ran.drawing())
        before = mean(played(graph, made))
        if edit == "sync":
            other, after = without(made, "sync"), without_syncs(graph)
        elif edit == "host":
            other, after = [faster_host(do) for do in made], with_faster_host(graph)
        else:
            other = [faster_math(do) for do in made]
            names = np.array([act.name == "gemm" for act in ran.acts])
            after = with_faster_math(graph, names)
        truth = mean(run(other, costs, seed + 2).ends) / mean(ran.ends)
        out.append((1 - mean(played(after, made)) / before, 1 - truth))
    return out


@pytest.mark.parametrize("jitter", [0.0, 0.05])
def test_an_unchanged_replay_gives_random_programs_back(jitter: float) -> None:
    errors = list[float]()
    for seed in range(PROGRAMS):
        ran = run(program(random.Random(seed)), Costs(jitter=jitter), seed + 1)
        graph = graph_of(ran.drawing())
        assert graph.steps.tolist() == ran.ends
        found = identity(graph, simulate)
        assert found.error is not None, found.why_not
        errors.append(abs(found.error))
    assert median(errors) < 0.001
    assert max(errors) < 0.01


@pytest.mark.parametrize("edit", ["sync", "host", "math"])
@pytest.mark.parametrize(("jitter", "middle", "worst"), [(0.0, 0.0002, 0.005), (0.05, 0.006, 0.04)])
def test_gains_are_those_of_the_machine(
    edit: str, jitter: float, middle: float, worst: float
) -> None:
    every = gains(jitter, edit)
    errors = [abs(predicted - true) for predicted, true in every]
    assert max(true for _, true in every) > 0.03  # there is something to predict
    assert median(errors) < middle
    assert max(errors) < worst


def test_a_second_stream_waits_for_the_first_without_a_record_of_it() -> None:
    ran = run(program(random.Random(3)), Costs(), 4)
    side = [at for at, act in enumerate(ran.acts) if act.stream == SIDE]
    assert side
    graph = graph_of(ran.drawing())
    launched = {at: ran.acts[at].call for at in side}
    late = [at for at, call in launched.items() if call and ran.acts[at].start - call.end > 20_000]
    waiting = [at for at in range(len(graph.work.after)) if graph.work.after[at]]
    assert len(waiting) >= len(late) * 0.9
    assert graph.unexplained < 0.01


def test_leaves_of_host_time_are_those_of_the_account() -> None:
    ran = run(program(random.Random(1)), Costs(), 2)
    graph = graph_of(ran.drawing())
    data = sum(f.end - f.start for f in ran.frames if f.tag == "data")
    assert int(graph.threads[0].amounts[:, DATA].sum()) == data
    ops = sum(f.end - f.start for f in ran.frames if f.tag == "op")
    assert int(graph.threads[0].amounts[:, LEAF["idle.host.dispatch"]].sum()) == ops
