"""Real windows replayed unchanged, with imputed lags: they take as long as they did."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gapless.accounting import join, partition
from gapless.formats import read
from gapless.model.leaf import LEAVES
from gapless.replay.graph import build
from gapless.replay.identity import identity, unsound
from gapless.replay.nodes import Graph, Op, Played, Thread
from gapless.replay.scene import Scene, usual
from gapless.replay.select import view_of
from gapless.replay.simulate import simulate
from tests.accounting.drawing import Act, Call, Drawing
from tests.replay.making import graph_of

DATA = Path(__file__).parents[1] / "data"
CASES = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))


@cache
def graph(case: str) -> Graph:
    trace = read(DATA / f"{case}.json.gz")
    joined = join(trace)
    found = build(joined, partition(trace, joined=joined))
    assert isinstance(found, Graph), found
    return found


@pytest.mark.parametrize("case", CASES)
def test_real_windows_are_given_back(case: str) -> None:
    found = identity(graph(case), simulate)
    assert found.passes, found.why_not
    assert found.error is not None
    assert abs(found.error) < 0.005
    assert len(found.steps) == len(graph(case).counted) >= 5
    assert found.unexplained < 0.01


@pytest.mark.parametrize("case", CASES)
def test_threads_do_what_the_account_says_and_nothing_is_lost(case: str) -> None:
    found = graph(case)
    main = found.threads[0]
    waits = np.isin(main.ops, (Op.WAIT, Op.SYNC, Op.EVENT, Op.COPY))
    calls = (main.end - main.begin)[waits].sum()
    assert main.amounts.sum() + main.stall.sum() + main.own[~waits].sum() + calls == (
        main.end[-1] - found.start
    )
    assert main.end[-1] <= found.steps[-1]
    assert [op for op in main.ops.tolist() if op == Op.STEP] == [Op.STEP] * len(found.steps)


def test_loading_is_asked_for_once_a_step() -> None:
    main = graph("loader_workers").threads[0]
    asked = [int((main.ops[main.step == step] == Op.ASK).sum()) for step in range(6)]
    assert asked == [1] * 6


def changed(case: str, edit: Callable[[Thread], Thread]) -> Graph:
    found = graph(case)
    return replace(found, threads=tuple(edit(one) for one in found.threads))


def test_a_missing_hand_off_does_not_pass() -> None:
    def alone(thread: Thread) -> Thread:
        handed = np.isin(thread.ops, (Op.EMIT, Op.WAIT))
        return replace(
            thread,
            ops=np.where(handed, Op.EVENT, thread.ops).astype(np.int8),
            args=np.where(handed, -1, thread.args).astype(np.int32),
        )

    found = identity(changed("eager_launch_bound", alone), simulate)
    assert not found.passes
    assert "the step is -" in str(found.why_not)


def test_threads_that_wait_for_ever_do_not_pass() -> None:
    def deaf(thread: Thread) -> Thread:
        waits = thread.ops == Op.WAIT
        return replace(thread, args=np.where(waits, 9999, thread.args).astype(np.int32))

    found = identity(changed("eager_launch_bound", deaf), simulate)
    assert (found.error, found.passes) == (None, False)
    assert "wait for ever" in str(found.why_not)


def test_waits_that_nothing_explains_do_not_pass() -> None:
    found = identity(replace(graph("compiled"), unexplained=0.06), simulate)
    assert not found.passes
    assert "6%" in str(found.why_not)


def test_what_an_identity_misses_makes_intervals_wider() -> None:
    found = identity(graph("compiled"), simulate)
    assert found.allowed == 0.02
    joined = join(read(DATA / "compiled.json.gz"))
    ledger = partition(joined.threads.trace, joined=joined)
    off = replace(found, error=-0.012)
    one = Scene(view_of(joined, ledger), graph("compiled"), off, usual(), anchored=True)
    assert one.off == pytest.approx(0.007)
    assert replace(one, identity=replace(found, error=0.004)).off == 0.0


def broken(case: str) -> Graph:
    found = graph_of(
        Drawing([Act("K", 10, 60, Call(0, 6)), Act("L", 70, 90, Call(20, 26))], [], [0, 99])
    )
    work, main = found.work, found.threads[0]
    match case:
        case "a regular step":
            return replace(found, counted=())
        case "has no length":
            return replace(found, steps=np.array([0]))
        case "negative":
            amounts = np.zeros((len(main.ops), len(LEAVES)), np.int64)
            amounts[0, 0] = -1
            return replace(found, threads=(replace(main, amounts=amounts),))
        case "an activity has no length":
            return replace(found, work=replace(work, duration=np.array([50, 0])))
        case "launched after it":
            return replace(found, work=replace(work, after=((1,), ())))
        case _:
            args = np.array([0, 0, 0], np.int32)
            return replace(found, threads=(replace(main, args=args),))


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
    def never(graph: Graph, alpha: float) -> Played:
        raise AssertionError((graph, alpha))

    found = identity(broken(case), never)
    assert reason in str(unsound(broken(case)))
    assert (found.passes, found.error) == (False, None)
    assert reason in str(found.why_not)
