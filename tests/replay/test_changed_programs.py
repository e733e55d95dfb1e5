"""Changes of random programs, predicted from a trace, against what the machine does with them."""

import random
from collections.abc import Callable, Sequence
from statistics import median

import pytest
from msgspec.structs import replace

from gapless.accounting import join_trace, partition
from gapless.model.change import Change, Drop, HostChange, Omit, Scale
from gapless.model.estimate import Estimate
from gapless.replay.edits.changes import apply_changes
from gapless.replay.edits.select import view_of
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph
from tests.accounting.drawing import draw
from tests.replay.machine import Action, MachineCosts, drop_kind, make_program, run_program
from tests.replay.test_oracle import mean_step, play_with_producer

PROGRAMS = 16
HOST = ("idle.host.python", "idle.host.dispatch", "idle.launch.api")


def point_estimate(factor: float) -> Estimate:
    return Estimate(factor, factor, factor)


def speed_up_host(program: Sequence[Action]) -> list[Action]:
    return [
        replace(action, ns=round(action.ns * 0.2)) if action.kind in ("cpu", "launch") else action
        for action in program
    ]


def halve_math(program: Sequence[Action]) -> list[Action]:
    return [
        replace(action, device_ns=action.device_ns // 2)
        if action.kind == "launch" and action.name == "gemm"
        else action
        for action in program
    ]


def drop_syncs(program: Sequence[Action]) -> list[Action]:
    return drop_kind(program, "sync")


def speed_up_and_drop_syncs(program: Sequence[Action]) -> list[Action]:
    return drop_syncs(speed_up_host(program))


@pytest.mark.parametrize(
    ("changes", "edit"),
    [
        ([Omit(("cudaDeviceSynchronize",))], drop_syncs),
        ([Drop(("idle.sync",))], drop_syncs),
        ([HostChange(HOST, point_estimate(0.2))], speed_up_host),
        ([Scale(point_estimate(0.5), names=("gemm",))], halve_math),
        ([Drop(("idle.sync",)), HostChange(HOST, point_estimate(0.2))], speed_up_and_drop_syncs),
    ],
)
def test_gains_are_those_of_the_machine(
    changes: Sequence[Change], edit: Callable[[Sequence[Action]], list[Action]]
) -> None:
    errors, gains = list[float](), list[float]()
    for seed in range(PROGRAMS):
        actions = make_program(random.Random(seed))
        machine_run = run_program(actions, MachineCosts(), seed + 1)
        trace = draw(machine_run.drawing()).trace
        joined_trace = join_trace(trace)
        ledger = partition(trace, joined_trace=joined_trace)
        graph = build_graph(joined_trace, ledger)
        assert isinstance(graph, Graph)
        changed_graph = apply_changes(view_of(joined_trace, ledger), graph, changes)
        truth = mean_step(
            run_program(edit(actions), MachineCosts(), seed + 2).step_ends
        ) / mean_step(machine_run.step_ends)
        gains.append(1 - truth)
        errors.append(
            abs(
                mean_step(play_with_producer(changed_graph, actions))
                / mean_step(play_with_producer(graph, actions))
                - truth
            )
        )
    assert max(gains) > 0.03
    assert median(errors) < 0.0005
    assert max(errors) < 0.01
