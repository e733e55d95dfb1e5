"""α: what tracing cost an event is found again from the steps that nobody traced."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.replay.alpha import LEAST, MOST, SLOWEST, USUAL, Ahead, eased, fit_alpha
from gapless.replay.identity import identity, step_ns
from gapless.replay.simulate import simulate
from tests.replay.machine import Costs, Do, run
from tests.replay.making import graph_of


def training(kernel: int, python: int = 20_000) -> list[Do]:
    one = [
        do for _ in range(40) for do in (Do("cpu", python, in_op=True), Do("launch", 6_000, kernel))
    ]
    return [do for _ in range(5) for do in [*one, Do("step")]]


def plain_step(made: list[Do]) -> float:
    ends = run(made, Costs(), 1).ends
    return float(np.diff(ends).mean())


@pytest.mark.parametrize("traced", [800, 1_700, 2_400])
def test_alpha_of_a_host_bound_run_is_found_again(traced: int) -> None:
    made = training(kernel=2_000)
    graph = graph_of(run(made, Costs(traced=traced), 1).drawing())
    assert identity(graph, simulate).passes
    # A launch counts twice, and the machine adds the cost of tracing once.
    found = fit_alpha(graph, plain_step(made), simulate)
    assert not found.bound
    assert found.mid == pytest.approx(traced * 2 / 3, rel=0.1)
    assert found.low <= found.mid <= found.high
    assert found.refused is None
    assert step_ns(graph, simulate(graph, found.mid)) == pytest.approx(plain_step(made), rel=0.01)


def test_alpha_of_a_device_bound_run_has_only_bounds() -> None:
    made = training(kernel=200_000)
    graph = graph_of(run(made, Costs(traced=1_700), 1).drawing())
    found = fit_alpha(graph, plain_step(made), simulate)
    assert found.bound
    assert (found.low, found.mid, found.high) == (LEAST, USUAL, MOST)


@pytest.mark.parametrize("traced", [2_400, 4_500])
def test_short_steps_of_a_host_that_is_ahead_tell_what_tracing_cost(traced: int) -> None:
    made, alone = training(kernel=200_000), training(kernel=0)
    graph = graph_of(run(made, Costs(traced=traced), 1).drawing())
    own = plain_step(alone)
    found = fit_alpha(graph, plain_step(made), simulate, Ahead(own, own))
    assert found.bound
    assert found.mid == pytest.approx(traced * 2 / 3, rel=0.15)
    assert found.low <= found.mid <= found.high
    wider = fit_alpha(graph, plain_step(made), simulate, Ahead(own, own * 1.2))
    assert wider.low < found.low
    assert wider.mid == found.mid
    assert wider.high >= found.high


def test_steps_as_long_as_the_device_needs_tell_nothing_of_the_host() -> None:
    made = training(kernel=200_000)
    graph = graph_of(run(made, Costs(traced=1_700), 1).drawing())
    step = plain_step(made)
    assert fit_alpha(graph, step, simulate, Ahead(step, step)) == fit_alpha(graph, step, simulate)


def test_short_steps_say_nothing_where_the_host_makes_the_step() -> None:
    made = training(kernel=2_000)
    graph = graph_of(run(made, Costs(traced=1_700), 1).drawing())
    step = plain_step(made)
    short = Ahead(step * 0.7, step * 0.9)
    assert fit_alpha(graph, step, simulate, short) == fit_alpha(graph, step, simulate)


def test_a_window_that_no_host_is_so_far_off_is_refused() -> None:
    graph = graph_of(run(training(kernel=2_000), Costs(), 1).drawing())
    step = step_ns(graph, simulate(graph))
    assert "off those" in str(fit_alpha(graph, step / 5, simulate).refused)
    assert "off those" in str(fit_alpha(graph, step * 5, simulate).refused)


@pytest.mark.parametrize("slower", [1.3, 1.6, 2.0])
def test_a_longer_window_has_two_explanations(slower: float) -> None:
    made = training(kernel=2_000)
    graph = graph_of(run(made, Costs(traced=1_700), 1).drawing())
    target = step_ns(graph, simulate(graph, USUAL)) / slower
    found = fit_alpha(graph, target, simulate)
    assert found.refused is None
    assert found.mid > MOST
    assert step_ns(graph, simulate(graph, found.mid)) == pytest.approx(target, rel=0.01)
    other = found.other
    assert other is not None
    assert (other.mid, other.pace) == (USUAL, pytest.approx(slower, rel=0.05))
    paced = replace(graph, pace=other.pace)
    assert step_ns(graph, simulate(paced, other.mid)) == pytest.approx(target, rel=0.01)
    assert found.notes == other.notes
    assert "or the host was" in found.notes[0]


def test_a_shorter_window_has_one_explanation_without_a_device() -> None:
    graph = graph_of(run(training(kernel=2_000), Costs(), 1).drawing())
    host = replace(graph, on_device=False)
    target = step_ns(host, simulate(host)) * 1.5
    found = fit_alpha(host, target, simulate)
    assert found.refused is None
    assert found.other is None
    assert found.pace < 1
    paced = replace(host, pace=found.pace)
    assert step_ns(host, simulate(paced, found.mid)) == pytest.approx(target, rel=0.02)
    assert "times as fast" in found.notes[0]
    both = fit_alpha(graph, target, simulate)  # a device may have been faster, too
    assert both.pace == 1
    assert both.other is not None
    assert both.other.pace < 1


def test_what_so_few_steps_are_off_by_chance_is_no_finding() -> None:
    graph = graph_of(run(training(kernel=2_000), Costs(), 1).drawing())
    target = step_ns(graph, simulate(graph)) * 1.15
    assert "off those" in fit_alpha(graph, target, simulate).notes[0]
    assert not any(
        "off those" in one for one in fit_alpha(graph, target, simulate, chance=0.4).notes
    )


def test_a_host_that_is_traced_at_great_cost_is_believed_to_be() -> None:
    made = training(kernel=2_000)
    graph = graph_of(run(made, Costs(traced=6_000), 1).drawing())
    found = fit_alpha(graph, plain_step(made), simulate)
    assert found.refused is None
    assert found.mid == pytest.approx(6_000 * 2 / 3, rel=0.1)
    assert found.low <= found.mid <= found.high


def test_pace_takes_the_host_and_no_waits() -> None:
    graph = graph_of(run(training(kernel=200_000), Costs(), 1).drawing())
    step = step_ns(graph, simulate(graph))
    assert step_ns(graph, simulate(replace(graph, pace=2.0))) == pytest.approx(step, rel=0.01)
    slow = graph_of(run(training(kernel=2_000), Costs(), 1).drawing())
    half = step_ns(slow, simulate(replace(slow, pace=2.0)))
    assert half == pytest.approx(step_ns(slow, simulate(slow)) / 2, rel=0.02)


def test_what_tracing_cost_a_device_is_found_again() -> None:
    made = training(kernel=400_000)
    slow = [replace(do, device=do.device + 2_000) if do.kind == "launch" else do for do in made]
    graph = graph_of(run(slow, Costs(), 1).drawing())
    found = fit_alpha(graph, plain_step(made), simulate)
    assert found.device == 0.0  # a hundredth of a step is what a step is known to
    made = training(kernel=30_000, python=1_000)
    slow = [replace(do, device=do.device + 2_000) if do.kind == "launch" else do for do in made]
    graph = graph_of(run(slow, Costs(), 1).drawing())
    found = fit_alpha(graph, plain_step(made), simulate)
    assert found.device == pytest.approx(2_000, abs=50)
    assert (found.low, found.mid, found.high) == (LEAST, USUAL, MOST)
    assert "2.0 µs an activity" in found.notes[0]
    assert abs(found.error) < 0.005
    mended = eased(graph, found.device)
    assert mended.work.gap.max() == 0
    assert set(mended.work.duration.tolist()) == {31_000 + 2_000 - round(found.device)}


def test_no_activity_loses_more_than_half() -> None:
    graph = graph_of(run(training(kernel=2_000), Costs(), 1).drawing())
    assert set(eased(graph, 9_000).work.duration.tolist()) == {1_000}


def test_a_window_that_is_somewhat_off_says_so() -> None:
    graph = graph_of(run(training(kernel=200_000), Costs(), 1).drawing())
    step = step_ns(graph, simulate(graph))
    found = fit_alpha(graph, step / 1.09, simulate)
    assert found.device == SLOWEST
    assert found.wide
    assert found.refused is None
    assert "+7% off" in found.notes[0]
    assert not fit_alpha(graph, step / 1.02, simulate).wide


def test_where_the_device_alone_makes_the_step_more_is_allowed() -> None:
    graph = graph_of(run(training(kernel=200_000), Costs(), 1).drawing())
    step = step_ns(graph, simulate(graph))
    assert fit_alpha(graph, step / 1.2, simulate).refused is None
    assert fit_alpha(graph, step / 1.3, simulate).refused is not None


def test_a_stall_of_one_step_is_not_taken_for_tracing() -> None:
    made = training(kernel=2_000)
    slow = [replace(do, ns=do.ns * 200) if at == 90 else do for at, do in enumerate(made)]
    graph = graph_of(run(slow, Costs(traced=1_700), 1).drawing())
    assert sum(int(one.stall.sum()) for one in graph.threads) > 1_000_000
    found = fit_alpha(graph, plain_step(made), simulate)
    assert found.mid == pytest.approx(1_700 * 2 / 3, rel=0.1)
