"""What-ifs of real windows: what must hold of any."""

from functools import cache

import numpy as np
import pytest

from gapless.accounting import join_trace, partition, sum_ledgers
from gapless.model.change import (
    Change,
    CopyChange,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.leaf import LEAVES
from gapless.replay.edits.call_selection import find_cuts
from gapless.replay.edits.changes import apply_changes
from gapless.replay.graph.nodes import Graph
from gapless.replay.graph.simulate import simulate
from gapless.replay.graph.tiling import tile_graph
from gapless.replay.predict.predict import predict
from gapless.replay.predict.predicted_trace import retime_trace
from gapless.replay.predict.scene import Scene, make_scene, play_steps
from tests.traces import read_fixture

CASES = ("amp_fp16_scaler", "eager_launch_bound", "loader_workers", "side_stream_copies")
HALF = Estimate(0.5, 0.5, 0.5)
ITEM = Omit(("aten::item",))
FASTER: tuple[Change, ...] = (
    ITEM,
    Drop(("idle.sync",)),
    Omit(("Optimizer.step#*",)),
    Omit(("autograd::engine::evaluate_function*",)),
    HostChange(("idle.host", "idle.launch"), HALF),
    Scale(HALF, leaves=("busy", "copy")),
    CopyChange(pinned=True, non_blocking=True, ahead=True),
    Merge(("Optimizer.step#*",), 4),
    LoaderChange(0, wait=False),
)
SLACK = 1.01  # steps end where devices are through: the first may gain more than the last


@cache
def read_scene(case: str) -> Scene:
    trace = read_fixture(case)
    joined_trace = join_trace(trace)
    window_scene = make_scene(joined_trace, partition(trace, joined_trace=joined_trace))
    assert isinstance(window_scene, Scene), window_scene
    return window_scene


def sum_steps(scene: Scene, *changes: Change, alpha: float = 0.0) -> float:
    return float(scene.changed_steps(changes, alpha).sum())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("alpha", [0.0, 1700.0])
def test_less_to_do_never_takes_longer(case: str, alpha: float) -> None:
    scene = read_scene(case)
    plain_ns = float(scene.unchanged_steps(alpha).sum())
    for change in FASTER:
        assert sum_steps(scene, change, alpha=alpha) <= plain_ns * SLACK, change


@pytest.mark.parametrize("case", CASES)
def test_less_of_a_change_gains_less(case: str) -> None:
    scene = read_scene(case)
    totals = [sum_steps(scene, Omit(("Optimizer.step#*",), keep=keep)) for keep in (0.0, 0.5, 1.0)]
    assert totals[0] < totals[1] < totals[2]
    assert totals[2] == scene.unchanged_steps(0.0).sum()


@pytest.mark.parametrize("case", CASES)
def test_the_account_of_a_replay_ends_where_its_steps_do(case: str) -> None:
    scene = read_scene(case)
    for changes in ((), (ITEM,), (Omit(("Optimizer.step#*",)),)):
        changed_graph = apply_changes(scene.view, scene.graph, changes)
        simulated = simulate(changed_graph)
        trace = retime_trace(
            scene.view,
            scene.graph,
            changed_graph,
            simulated,
            find_cuts(scene.view, scene.graph, changes),
        )
        ledger = partition(trace)
        assert [row.end for row in ledger.rows] == simulated.steps.tolist()


@pytest.mark.parametrize("case", CASES)
def test_the_leaves_of_an_unchanged_replay_are_those_of_the_trace(case: str) -> None:
    scene = read_scene(case)
    trace = retime_trace(scene.view, scene.graph, scene.graph, simulate(scene.graph))
    before, after = sum_ledgers([scene.view.ledger]).leaves, sum_ledgers([partition(trace)]).leaves
    moved_ns = sum(abs(before.get(leaf, 0) - after.get(leaf, 0)) for leaf in LEAVES)
    assert moved_ns / 2 < 0.05 * sum(before.values())


@pytest.mark.parametrize("case", CASES)
def test_a_window_played_on_keeps_its_pace(case: str) -> None:
    scene = read_scene(case)
    counted_steps = scene.graph.counted_steps[1:]
    tiled_graph = tile_graph(scene.graph, 5)
    assert isinstance(tiled_graph, Graph)
    steps = np.diff(simulate(tiled_graph).steps)
    usual = float(np.diff(simulate(scene.graph).steps).mean())
    assert len(steps) == 5 * (len(scene.graph.steps) - 1)
    assert float(steps.mean()) == pytest.approx(usual, rel=0.05)
    assert len(counted_steps) > 0
    assert play_steps(tiled_graph, 0.0).shape == (len(tiled_graph.counted_steps),)


def test_a_sync_of_a_launch_bound_training_is_worth_little() -> None:
    """The host is what limits it: it would not run ahead."""
    speedup = predict([read_scene("eager_launch_bound")], [Drop(("idle.sync",))]).speedup
    assert speedup is not None
    assert speedup.mid < 1.02


def test_a_starved_training_gains_most_from_its_loader() -> None:
    speedup = predict([read_scene("loader_workers")], [LoaderChange(0, wait=False)]).speedup
    assert speedup is not None
    assert speedup.low > 2
