"""What-ifs of real windows: what must hold of any."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gapless.accounting import account, join, partition
from gapless.formats import read
from gapless.model.change import Change, Copied, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.interval import Interval
from gapless.model.leaf import LEAVES
from gapless.replay.changes import apply
from gapless.replay.cuts import going
from gapless.replay.nodes import Graph
from gapless.replay.predict import predict
from gapless.replay.retimed import retimed
from gapless.replay.scene import Scene, lengths, scene
from gapless.replay.simulate import simulate
from gapless.replay.tiling import tiled

DATA = Path(__file__).parents[1] / "data"
CASES = ("amp_fp16_scaler", "eager_launch_bound", "loader_workers", "side_stream_copies")
HALF = Interval(0.5, 0.5, 0.5)
ITEM = Omit(("aten::item",))
FASTER: tuple[Change, ...] = (
    ITEM,
    Drop(("idle.sync",)),
    Omit(("Optimizer.step#*",)),
    Omit(("autograd::engine::evaluate_function*",)),
    Hosted(("idle.host", "idle.launch"), HALF),
    Scale(HALF, leaves=("busy", "copy")),
    Copied(pinned=True, non_blocking=True, ahead=True),
    Merge(("Optimizer.step#*",), 4),
    Feed(0, wait=False),
)
SLACK = 1.01  # steps end where devices are through: the first may gain more than the last


@cache
def made(case: str) -> Scene:
    trace = read(DATA / f"{case}.json.gz")
    joined = join(trace)
    found = scene(joined, partition(trace, joined=joined))
    assert isinstance(found, Scene), found
    return found


def played(one: Scene, *changes: Change, alpha: float = 0.0) -> float:
    return float(one.changed(changes, alpha).sum())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("alpha", [0.0, 1700.0])
def test_less_to_do_never_takes_longer(case: str, alpha: float) -> None:
    one = made(case)
    plain = float(one.unchanged(alpha).sum())
    for change in FASTER:
        assert played(one, change, alpha=alpha) <= plain * SLACK, change


@pytest.mark.parametrize("case", CASES)
def test_less_of_a_change_gains_less(case: str) -> None:
    one = made(case)
    kept = [played(one, Omit(("Optimizer.step#*",), keep=keep)) for keep in (0.0, 0.5, 1.0)]
    assert kept[0] < kept[1] < kept[2]
    assert kept[2] == one.unchanged(0.0).sum()


@pytest.mark.parametrize("case", CASES)
def test_the_account_of_a_replay_ends_where_its_steps_do(case: str) -> None:
    one = made(case)
    for changes in ((), (ITEM,), (Omit(("Optimizer.step#*",)),)):
        after = apply(one.view, one.graph, changes)
        found = simulate(after)
        told = retimed(one.view, one.graph, after, found, going(one.view, one.graph, changes))
        ledger = partition(told)
        assert [row.end for row in ledger.rows] == found.steps.tolist()


@pytest.mark.parametrize("case", CASES)
def test_the_leaves_of_an_unchanged_replay_are_those_of_the_trace(case: str) -> None:
    one = made(case)
    told = retimed(one.view, one.graph, one.graph, simulate(one.graph))
    before, after = account([one.view.ledger]).leaves, account([partition(told)]).leaves
    off = sum(abs(before.get(leaf, 0) - after.get(leaf, 0)) for leaf in LEAVES)
    assert off / 2 < 0.05 * sum(before.values())


@pytest.mark.parametrize("case", CASES)
def test_a_window_played_on_keeps_its_pace(case: str) -> None:
    one = made(case)
    plain = one.graph.counted[1:]
    many = tiled(one.graph, 5)
    assert isinstance(many, Graph)
    steps = np.diff(simulate(many).steps)
    usual = float(np.diff(simulate(one.graph).steps).mean())
    assert len(steps) == 5 * (len(one.graph.steps) - 1)
    assert float(steps.mean()) == pytest.approx(usual, rel=0.05)
    assert len(plain) > 0
    assert lengths(many, 0.0).shape == (len(many.counted),)


def test_a_sync_of_a_launch_bound_training_is_worth_little() -> None:
    """The host is what limits it: it would not run ahead."""
    found = predict([made("eager_launch_bound")], [Drop(("idle.sync",))]).speedup
    assert found is not None
    assert found.mid < 1.02


def test_a_starved_training_gains_most_from_its_loader() -> None:
    found = predict([made("loader_workers")], [Feed(0, wait=False)]).speedup
    assert found is not None
    assert found.low > 2
