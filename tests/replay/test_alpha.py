"""α: what tracing cost an event is found again from the steps that nobody traced."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.replay.graph.nodes import Graph, SimulatedSteps
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.alpha import (
    MAX_ALPHA,
    MAX_DEVICE_NS,
    MIN_ALPHA,
    USUAL_ALPHA_NS,
    PlainSteps,
    ease_devices,
    fit_alpha,
)
from gapless.replay.predict.identity import check_identity, step_lengths
from tests.replay.machine import Action, MachineCosts, run_program
from tests.replay.making import graph_of


def mean_step_ns(graph: Graph, simulated: SimulatedSteps) -> float:
    """Return the mean counted step of a replay, in ns."""
    return float(step_lengths(graph, simulated.steps).mean())


def make_actions(kernel: int, python: int = 20_000) -> list[Action]:
    step_actions = [
        action
        for _ in range(40)
        for action in (Action("cpu", python, in_op=True), Action("launch", 6_000, kernel))
    ]
    return [action for _ in range(5) for action in [*step_actions, Action("step")]]


def plain_step(actions: list[Action]) -> float:
    ends = run_program(actions, MachineCosts(), 1).step_ends
    return float(np.diff(ends).mean())


@pytest.mark.parametrize("traced", [800, 1_700, 2_400])
def test_alpha_of_a_host_bound_run_is_found_again(traced: int) -> None:
    actions = make_actions(kernel=2_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=traced), 1).drawing())
    assert check_identity(graph, simulate).passes
    # A launch counts twice, and the machine adds the cost of tracing once.
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert not alpha.only_bounds
    assert alpha.mid == pytest.approx(traced * 2 / 3, rel=0.1)
    assert alpha.low <= alpha.mid <= alpha.high
    assert alpha.refused is None
    assert mean_step_ns(graph, simulate(graph, alpha.mid)) == pytest.approx(
        plain_step(actions), rel=0.01
    )


def test_alpha_of_a_device_bound_run_has_only_bounds() -> None:
    actions = make_actions(kernel=200_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=1_700), 1).drawing())
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert alpha.only_bounds
    assert (alpha.low, alpha.mid, alpha.high) == (MIN_ALPHA, USUAL_ALPHA_NS, MAX_ALPHA)


def test_a_step_that_a_device_makes_but_for_short_gaps_bounds_alpha() -> None:
    graph = graph_of(
        run_program(make_actions(kernel=30_000), MachineCosts(tracing_ns=3_500), 1).drawing()
    )
    device_ns = mean_step_ns(graph, simulate(graph, 10_000.0))
    assert fit_alpha(graph, 1.02 * device_ns, simulate).only_bounds
    assert not fit_alpha(graph, 1.05 * device_ns, simulate).only_bounds


@pytest.mark.parametrize("traced", [2_400, 4_500])
def test_short_steps_of_a_host_that_is_ahead_tell_what_tracing_cost(traced: int) -> None:
    actions, host_actions = make_actions(kernel=200_000), make_actions(kernel=0)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=traced), 1).drawing())
    host_step_ns = plain_step(host_actions)
    alpha = fit_alpha(graph, plain_step(actions), simulate, PlainSteps(host_step_ns, host_step_ns))
    assert alpha.only_bounds
    assert alpha.mid == pytest.approx(traced * 2 / 3, rel=0.15)
    assert alpha.low <= alpha.mid <= alpha.high
    wider = fit_alpha(
        graph, plain_step(actions), simulate, PlainSteps(host_step_ns, host_step_ns * 1.2)
    )
    assert wider.low < alpha.low
    assert wider.low < wider.mid <= alpha.mid
    assert wider.high == pytest.approx(alpha.high, rel=0.05)


def test_steps_as_long_as_the_device_needs_tell_nothing_of_the_host() -> None:
    actions = make_actions(kernel=200_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=1_700), 1).drawing())
    step = plain_step(actions)
    assert fit_alpha(graph, step, simulate, PlainSteps(step, step)) == fit_alpha(
        graph, step, simulate
    )


def test_short_steps_say_nothing_where_the_host_makes_the_step() -> None:
    actions = make_actions(kernel=2_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=1_700), 1).drawing())
    step = plain_step(actions)
    short_steps = PlainSteps(step * 0.7, step * 0.9)
    assert fit_alpha(graph, step, simulate, short_steps) == fit_alpha(graph, step, simulate)


def test_a_window_that_no_host_is_so_far_off_is_refused() -> None:
    graph = graph_of(run_program(make_actions(kernel=2_000), MachineCosts(), 1).drawing())
    step = mean_step_ns(graph, simulate(graph))
    assert "off un-profiled steps" in str(fit_alpha(graph, step / 5, simulate).refused)
    assert "off un-profiled steps" in str(fit_alpha(graph, step * 5, simulate).refused)


@pytest.mark.parametrize("slower", [1.3, 1.6, 2.0])
def test_a_longer_window_has_two_explanations(slower: float) -> None:
    actions = make_actions(kernel=2_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=1_700), 1).drawing())
    target = mean_step_ns(graph, simulate(graph, USUAL_ALPHA_NS)) / slower
    alpha = fit_alpha(graph, target, simulate)
    assert alpha.refused is None
    assert alpha.mid > MAX_ALPHA
    assert mean_step_ns(graph, simulate(graph, alpha.mid)) == pytest.approx(target, rel=0.01)
    alternative = alpha.alternative
    assert alternative is not None
    assert (alternative.mid, alternative.pace) == (USUAL_ALPHA_NS, pytest.approx(slower, rel=0.05))
    paced_graph = replace(graph, pace=alternative.pace)
    assert mean_step_ns(graph, simulate(paced_graph, alternative.mid)) == pytest.approx(
        target, rel=0.01
    )
    assert alpha.notes == alternative.notes
    assert "or the host was" in alpha.notes[0]


def test_a_shorter_window_has_one_explanation_without_a_device() -> None:
    graph = graph_of(run_program(make_actions(kernel=2_000), MachineCosts(), 1).drawing())
    host = replace(graph, on_device=False)
    target = mean_step_ns(host, simulate(host)) * 1.5
    alpha = fit_alpha(host, target, simulate)
    assert alpha.refused is None
    assert alpha.alternative is None
    assert alpha.pace < 1
    paced_graph = replace(host, pace=alpha.pace)
    assert mean_step_ns(host, simulate(paced_graph, alpha.mid)) == pytest.approx(target, rel=0.02)
    assert "times as fast" in alpha.notes[0]
    device_alpha = fit_alpha(graph, target, simulate)  # a device may have been faster, too
    assert device_alpha.pace == 1
    assert device_alpha.alternative is not None
    assert device_alpha.alternative.pace < 1


def test_what_so_few_steps_are_off_by_chance_is_no_finding() -> None:
    graph = graph_of(run_program(make_actions(kernel=2_000), MachineCosts(), 1).drawing())
    target = mean_step_ns(graph, simulate(graph)) * 1.15
    assert "off un-profiled steps" in fit_alpha(graph, target, simulate).notes[0]
    assert not any(
        "off un-profiled steps" in note
        for note in fit_alpha(graph, target, simulate, chance=0.4).notes
    )


def test_a_host_that_is_traced_at_great_cost_is_believed_to_be() -> None:
    actions = make_actions(kernel=2_000)
    graph = graph_of(run_program(actions, MachineCosts(tracing_ns=6_000), 1).drawing())
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert alpha.refused is None
    assert alpha.mid == pytest.approx(6_000 * 2 / 3, rel=0.1)
    assert alpha.low <= alpha.mid <= alpha.high


def test_pace_takes_the_host_and_no_waits() -> None:
    graph = graph_of(run_program(make_actions(kernel=200_000), MachineCosts(), 1).drawing())
    step = mean_step_ns(graph, simulate(graph))
    assert mean_step_ns(graph, simulate(replace(graph, pace=2.0))) == pytest.approx(step, rel=0.01)
    slow_graph = graph_of(run_program(make_actions(kernel=2_000), MachineCosts(), 1).drawing())
    half = mean_step_ns(slow_graph, simulate(replace(slow_graph, pace=2.0)))
    assert half == pytest.approx(mean_step_ns(slow_graph, simulate(slow_graph)) / 2, rel=0.02)


def test_what_tracing_cost_a_device_is_found_again() -> None:
    actions = make_actions(kernel=400_000)
    slow_actions = [
        replace(action, device_ns=action.device_ns + 2_000) if action.kind == "launch" else action
        for action in actions
    ]
    graph = graph_of(run_program(slow_actions, MachineCosts(), 1).drawing())
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert alpha.device == 0.0  # a hundredth of a step is what a step is known to
    actions = make_actions(kernel=30_000, python=1_000)
    slow_actions = [
        replace(action, device_ns=action.device_ns + 2_000) if action.kind == "launch" else action
        for action in actions
    ]
    graph = graph_of(run_program(slow_actions, MachineCosts(), 1).drawing())
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert alpha.device == pytest.approx(2_000, abs=50)
    assert (alpha.low, alpha.mid, alpha.high) == (MIN_ALPHA, USUAL_ALPHA_NS, MAX_ALPHA)
    assert "2.0 µs an activity" in alpha.notes[0]
    assert abs(alpha.error) < 0.005
    eased_graph = ease_devices(graph, alpha.device)
    assert eased_graph.work.gap.max() == 0
    assert set(eased_graph.work.duration.tolist()) == {31_000 + 2_000 - round(alpha.device)}


def test_no_activity_loses_more_than_half() -> None:
    graph = graph_of(run_program(make_actions(kernel=2_000), MachineCosts(), 1).drawing())
    assert set(ease_devices(graph, 9_000).work.duration.tolist()) == {1_000}


def test_a_window_that_is_somewhat_off_says_so() -> None:
    graph = graph_of(run_program(make_actions(kernel=200_000), MachineCosts(), 1).drawing())
    step = mean_step_ns(graph, simulate(graph))
    alpha = fit_alpha(graph, step / 1.09, simulate)
    assert alpha.device == MAX_DEVICE_NS
    assert alpha.wide
    assert alpha.refused is None
    assert "+7% off" in alpha.notes[0]
    assert not fit_alpha(graph, step / 1.02, simulate).wide


def test_where_the_device_alone_makes_the_step_more_is_allowed() -> None:
    graph = graph_of(run_program(make_actions(kernel=200_000), MachineCosts(), 1).drawing())
    step = mean_step_ns(graph, simulate(graph))
    assert fit_alpha(graph, step / 1.2, simulate).refused is None
    assert fit_alpha(graph, step / 1.3, simulate).refused is not None


def test_a_stall_of_one_step_is_not_taken_for_tracing() -> None:
    actions = make_actions(kernel=2_000)
    slow_actions = [
        replace(action, ns=action.ns * 200) if index == 90 else action
        for index, action in enumerate(actions)
    ]
    graph = graph_of(run_program(slow_actions, MachineCosts(tracing_ns=1_700), 1).drawing())
    assert sum(int(thread.stall.sum()) for thread in graph.threads) > 1_000_000
    alpha = fit_alpha(graph, plain_step(actions), simulate)
    assert alpha.mid == pytest.approx(1_700 * 2 / 3, rel=0.1)
