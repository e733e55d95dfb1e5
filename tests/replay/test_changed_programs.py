"""Changes of random programs, predicted from a trace, against what the machine does with them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import pytest

from gapless.accounting import join, partition
from gapless.model.change import Change, Drop, Hosted, Omit, Scale
from gapless.model.interval import Interval
from gapless.replay.changes import apply
from gapless.replay.graph import build
from gapless.replay.nodes import Graph
from gapless.replay.select import view_of
from tests.accounting.drawing import draw
from tests.replay.machine import Costs, Do, program, run, without
from tests.replay.test_oracle import mean, played

PROGRAMS = 16
HOST = ("idle.host.python", "idle.host.dispatch", "idle.launch.api")


def by(factor: float) -> Interval:
    return Interval(factor, factor, factor)


def faster(program: Sequence[Do]) -> list[Do]:
    return [
        replace(do, ns=round(do.ns * 0.2)) if do.kind in ("cpu", "launch") else do for do in program
    ]


def lighter(program: Sequence[Do]) -> list[Do]:
    return [
        replace(do, device=do.device // 2) if do.kind == "launch" and do.what == "gemm" else do
        for do in program
    ]


def unsynchronised(program: Sequence[Do]) -> list[Do]:
    return without(program, "sync")


def faster_and_unsynchronised(program: Sequence[Do]) -> list[Do]:
    return unsynchronised(faster(program))


@pytest.mark.parametrize(
    ("changes", "edit"),
    [
        ([Omit(("cudaDeviceSynchronize",))], unsynchronised),
        ([Drop(("idle.sync",))], unsynchronised),
        ([Hosted(HOST, by(0.2))], faster),
        ([Scale(by(0.5), names=("gemm",))], lighter),
        ([Drop(("idle.sync",)), Hosted(HOST, by(0.2))], faster_and_unsynchronised),
    ],
)
def test_gains_are_those_of_the_machine(
    changes: Sequence[Change], edit: Callable[[Sequence[Do]], list[Do]]
) -> None:
    errors, gains = list[float](), list[float]()
    for seed in range(PROGRAMS):
        made = program(random.Random(seed))
        ran = run(made, Costs(), seed + 1)
        trace = draw(ran.drawing()).trace
        joined = join(trace)
        ledger = partition(trace, joined=joined)
        graph = build(joined, ledger)
        assert isinstance(graph, Graph)
        after = apply(view_of(joined, ledger), graph, changes)
        truth = mean(run(edit(made), Costs(), seed + 2).ends) / mean(ran.ends)
        gains.append(1 - truth)
        errors.append(abs(mean(played(after, made)) / mean(played(graph, made)) - truth))
    assert max(gains) > 0.03
    assert median(errors) < 0.0005
    assert max(errors) < 0.01
