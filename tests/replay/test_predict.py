"""Predictions: ratios, their intervals, and what is refused."""

import math
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

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
from gapless.replay.predict.alpha import Alpha
from gapless.replay.predict.predict import family_of, predict
from gapless.replay.predict.scene import Scene
from gapless.replay.predict.uncertainty import (
    BoundLengths,
    StepComparison,
    estimate_speedup,
    pool_windows,
    widen_by_mismatch,
)
from tests.replay import windows

ITEM = Omit(("aten::item",))
HALF = Estimate(0.5, 0.5, 0.5)


@cache
def readback_scene() -> Scene:
    return windows.scene_of(windows.draw_training(windows.readback_step, 1000))


def predict_speedup(*changes: Change, scene: Scene | None = None) -> Estimate:
    prediction = predict([scene or readback_scene()], changes)
    assert prediction.speedup is not None, prediction.refused
    return prediction.speedup


def test_a_gain_is_the_ratio_of_two_replays() -> None:
    assert predict_speedup(ITEM).mid == pytest.approx(1000 / 804)
    assert predict_speedup(ITEM).low < 1000 / 804 < predict_speedup(ITEM).high


def test_no_change_is_worth_nothing() -> None:
    speedup = predict_speedup(Omit(("aten::nonzero",)))
    assert speedup.mid == 1
    assert speedup.high - speedup.low < 0.01


def test_changes_together_are_played_together() -> None:
    kernels = Scale(Estimate(0.2, 0.2, 0.2), leaves=("busy.",))
    gains = [1 - 1 / predict_speedup(change).mid for change in (ITEM, kernels)]
    both_mid = predict_speedup(ITEM, kernels).mid
    assert both_mid == pytest.approx(1000 / 540)  # the host's own time bounds it
    assert sum(gains) == pytest.approx(0.196 + 0.4)


def test_what_is_not_known_of_a_factor_widens_the_interval() -> None:
    kernels = (ITEM, Scale(HALF, leaves=("busy.",)))
    open_one = (ITEM, Scale(Estimate(0.3, 0.8, 1.0), leaves=("busy.",)))
    narrow_gain, wide_gain = predict_speedup(*kernels), predict_speedup(*open_one)
    assert wide_gain.high / wide_gain.low > 1.2 * narrow_gain.high / narrow_gain.low


def test_of_steps_that_tracing_may_have_cost_whole_nothing_is_predicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def play_nothing(*_: object) -> StepComparison:
        return StepComparison(np.zeros(3), np.zeros(3))

    monkeypatch.setattr("gapless.replay.predict.predict._compare_steps", play_nothing)
    prediction = predict([readback_scene()], (ITEM,))
    assert prediction.speedup is None
    assert prediction.refused is not None
    assert "tracing them" in prediction.refused


def test_a_change_that_leaves_nothing_has_a_bounded_gain() -> None:
    estimate = estimate_speedup(StepComparison(np.full(4, 1e6), np.zeros(4)), "kernel")
    assert estimate.mid == pytest.approx(50)
    assert estimate.high < math.inf


def test_a_sync_is_worth_no_more_than_at_the_most_that_tracing_may_have_cost() -> None:
    dear_scene = replace(
        readback_scene(),
        alpha=Alpha(0.0, 0.0, 60_000.0, only_bounds=True, error=0.0),
        lengths_by_alpha={},
    )
    at_most = (
        dear_scene.unchanged_steps(60_000.0).sum()
        / dear_scene.changed_steps([ITEM], 60_000.0).sum()
    )
    assert at_most < predict_speedup(ITEM).mid
    assert predict_speedup(ITEM, scene=dear_scene).low <= at_most


def test_a_replay_that_misses_the_plain_step_is_told_with_a_wider_interval() -> None:
    inexact_scene = replace(
        readback_scene(), alpha=Alpha(0.0, 0.0, 0.0, only_bounds=False, error=0.08, wide=True)
    )
    assert predict_speedup(ITEM, scene=inexact_scene).low < predict_speedup(ITEM).low


def test_a_wide_interval_grows_by_no_more_than_twice_what_the_window_is_off() -> None:
    narrow, wide = Estimate(0.99, 1.0, 1.01), Estimate(0.5, 1.0, 2.0)
    assert widen_by_mismatch(narrow, 0.0) == narrow
    assert widen_by_mismatch(narrow, 0.1).low == pytest.approx(0.99**2)
    assert widen_by_mismatch(wide, -0.1).low == pytest.approx(0.5 * math.exp(-0.2))
    assert widen_by_mismatch(wide, 0.1).high == pytest.approx(2.0 * math.exp(0.2))


def test_nothing_is_predicted_without_a_window() -> None:
    assert predict([], [ITEM]).refused == "there is no window to replay"


def test_a_loader_that_was_not_recorded_is_not_predicted() -> None:
    prediction = predict([readback_scene()], [LoaderChange(0, num_workers=4)])
    assert prediction.speedup is None
    assert prediction.refused is not None
    assert "not recorded" in prediction.refused


def test_a_loader_that_is_never_waited_for_needs_no_recording() -> None:
    assert predict_speedup(LoaderChange(0, wait=False)).mid == 1


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
        (HostChange(("idle.host",), HALF), "host"),
        (CopyChange(pinned=True), "copy"),
        (LoaderChange(0, wait=False), "feed"),
    ],
)
def test_each_change_is_of_a_family(change: Change, kind: str) -> None:
    assert family_of([change]) == kind


def steps(*lengths: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(lengths, np.float64)


def test_the_interval_holds_the_ratio() -> None:
    estimate = estimate_speedup(StepComparison(steps(10, 12, 11, 13), steps(8, 9, 9, 10)), "kernel")
    assert estimate.low < estimate.mid < estimate.high
    assert estimate.mid == pytest.approx(46 / 36)


def test_an_end_that_is_far_off_pulls_its_side_only() -> None:
    plain = StepComparison(steps(10, 10, 10), steps(8, 8, 8))
    ends = BoundLengths(steps(8, 8, 8), steps(10, 10, 10))
    narrow, wide = (
        estimate_speedup(plain, "kernel"),
        estimate_speedup(replace(plain, change_bounds=(ends,)), "kernel"),
    )
    assert wide.low < narrow.low
    assert wide.high == pytest.approx(narrow.high)


def test_windows_are_pooled_step_by_step() -> None:
    ends = BoundLengths(steps(1), steps(3))
    comparison = StepComparison(steps(10), steps(5), ((ends, ends),), (ends,))
    pool = pool_windows([comparison, comparison])
    assert pool.unchanged_ns.tolist() == [10, 10]
    assert pool.change_bounds[0].high.tolist() == [3, 3]
    assert pool.common_bounds[0][1].low.tolist() == [1, 1]
