"""Predictions: ratios, their intervals, and what is refused."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gapless.model.change import Change, Copied, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.interval import Interval
from gapless.replay.alpha import Alpha
from gapless.replay.predict import family, predict
from gapless.replay.scene import Scene
from gapless.replay.uncertainty import Ends, Played, interval, pooled, wider
from tests.replay import windows

ITEM = Omit(("aten::item",))
HALF = Interval(0.5, 0.5, 0.5)


@cache
def reading() -> Scene:
    return windows.scene_of(windows.training(windows.reading, 1000))


def speedup(*changes: Change, scene: Scene | None = None) -> Interval:
    found = predict([scene or reading()], changes)
    assert found.speedup is not None, found.refused
    return found.speedup


def test_a_gain_is_the_ratio_of_two_replays() -> None:
    assert speedup(ITEM).mid == pytest.approx(1000 / 804)
    assert speedup(ITEM).low < 1000 / 804 < speedup(ITEM).high


def test_no_change_is_worth_nothing() -> None:
    found = speedup(Omit(("aten::nonzero",)))
    assert found.mid == 1
    assert found.high - found.low < 0.01


def test_changes_together_are_played_together() -> None:
    kernels = Scale(Interval(0.2, 0.2, 0.2), leaves=("busy.",))
    alone = [1 - 1 / speedup(one).mid for one in (ITEM, kernels)]
    both = speedup(ITEM, kernels).mid
    assert both == pytest.approx(1000 / 540)  # the host's own time bounds it
    assert sum(alone) == pytest.approx(0.196 + 0.4)


def test_what_is_not_known_of_a_factor_widens_the_interval() -> None:
    kernels = (ITEM, Scale(HALF, leaves=("busy.",)))
    open_one = (ITEM, Scale(Interval(0.3, 0.8, 1.0), leaves=("busy.",)))
    known, unknown = speedup(*kernels), speedup(*open_one)
    assert unknown.high / unknown.low > 1.2 * known.high / known.low


def test_of_steps_that_tracing_may_have_cost_whole_nothing_is_predicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(*_: object) -> Played:
        return Played(np.zeros(3), np.zeros(3))

    monkeypatch.setattr("gapless.replay.predict._played", nothing)
    found = predict([reading()], (ITEM,))
    assert found.speedup is None
    assert found.refused is not None
    assert "tracing them" in found.refused


def test_a_change_that_leaves_nothing_has_a_bounded_gain() -> None:
    found = interval(Played(np.full(4, 1e6), np.zeros(4)), "kernel")
    assert found.mid == pytest.approx(50)
    assert found.high < math.inf


def test_a_sync_is_worth_no_more_than_at_the_most_that_tracing_may_have_cost() -> None:
    dear = replace(reading(), alpha=Alpha(0.0, 0.0, 60_000.0, bound=True, error=0.0), plain={})
    at_most = dear.unchanged(60_000.0).sum() / dear.changed([ITEM], 60_000.0).sum()
    assert at_most < speedup(ITEM).mid
    assert speedup(ITEM, scene=dear).low <= at_most


def test_a_replay_that_misses_the_plain_step_is_told_with_a_wider_interval() -> None:
    off = replace(reading(), alpha=Alpha(0.0, 0.0, 0.0, bound=False, error=0.08, wide=True))
    assert speedup(ITEM, scene=off).low < speedup(ITEM).low


def test_a_wide_interval_grows_by_no_more_than_twice_what_the_window_is_off() -> None:
    narrow, wide = Interval(0.99, 1.0, 1.01), Interval(0.5, 1.0, 2.0)
    assert wider(narrow, 0.0) == narrow
    assert wider(narrow, 0.1).low == pytest.approx(0.99**2)
    assert wider(wide, -0.1).low == pytest.approx(0.5 * math.exp(-0.2))
    assert wider(wide, 0.1).high == pytest.approx(2.0 * math.exp(0.2))


def test_nothing_is_predicted_without_a_window() -> None:
    assert predict([], [ITEM]).refused == "there is no window to replay"


def test_a_loader_that_was_not_recorded_is_not_predicted() -> None:
    found = predict([reading()], [Feed(0, num_workers=4)])
    assert found.speedup is None
    assert found.refused is not None
    assert "not recorded" in found.refused


def test_a_loader_that_is_never_waited_for_needs_no_recording() -> None:
    assert speedup(Feed(0, wait=False)).mid == 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (Drop(("idle.io_main.checkpoint",)), "tail"),
        (Drop(("idle.sync",)), "sync"),
        (Drop(("idle.host.python",)), "host"),
        (Drop(("idle.h2d.host",)), "copy"),
        (Drop(("busy.layout",)), "kernel"),
        (Omit(("aten::item", "cudaStreamSynchronize")), "sync"),
        (Omit(("clip_grad*",)), "host"),
        (Scale(HALF, leaves=("copy.d2h",)), "copy"),
        (Scale(HALF, names=("*gemm*",)), "kernel"),
        (Merge(("Optimizer.step#*",), 4), "host"),
        (Hosted(("idle.host",), HALF), "host"),
        (Copied(pinned=True), "copy"),
        (Feed(0, wait=False), "feed"),
    ],
)
def test_each_change_is_of_a_family(change: Change, kind: str) -> None:
    assert family([change]) == kind


def steps(*lengths: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(lengths, np.float64)


def test_the_interval_holds_the_ratio() -> None:
    found = interval(Played(steps(10, 12, 11, 13), steps(8, 9, 9, 10)), "kernel")
    assert found.low < found.mid < found.high
    assert found.mid == pytest.approx(46 / 36)


def test_an_end_that_is_far_off_pulls_its_side_only() -> None:
    plain = Played(steps(10, 10, 10), steps(8, 8, 8))
    ends = Ends(steps(8, 8, 8), steps(10, 10, 10))
    narrow, wide = interval(plain, "kernel"), interval(replace(plain, only=(ends,)), "kernel")
    assert wide.low < narrow.low
    assert wide.high == pytest.approx(narrow.high)


def test_windows_are_pooled_step_by_step() -> None:
    ends = Ends(steps(1), steps(3))
    one = Played(steps(10), steps(5), ((ends, ends),), (ends,))
    both = pooled([one, one])
    assert both.unchanged.tolist() == [10, 10]
    assert both.only[0].high.tolist() == [3, 3]
    assert both.both[0][1].low.tolist() == [1, 1]
