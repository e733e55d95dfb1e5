"""A window and its loader in one replay: neither gains what the other holds back."""

from functools import cache

import pytest

from gapless.model.change import Change, HostChange, LoaderChange
from gapless.model.estimate import Estimate
from gapless.replay.predict.predict import PredictionInputs, predict
from gapless.replay.predict.scene import Scene
from tests.accounting.drawing import Act, Frame
from tests.replay import windows
from tests.replay.test_feeding import HAND, MS, draw_lengths, make_inputs
from tests.replay.windows import act, call, frame

FETCH, HOST = 60, 12  # ms


def waiting_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Wait for one worker, work for 12 ms with a kernel of 4 ms."""
    batch_us = start + (FETCH - HOST) * 1000
    frames = [frame("data", start, batch_us), frame("op", batch_us + 10, batch_us + 40)]
    return frames, [act(batch_us + 28, batch_us + 4028, call(batch_us + 20, batch_us + 26))]


@cache
def make_scene() -> Scene:
    return windows.scene_of(windows.draw_training(waiting_step, FETCH * 1000))


def predict_speedup(*changes: Change) -> Estimate:
    inputs = make_inputs(1, draw_lengths(FETCH * MS, 0.02), HOST * MS - HAND)
    prediction = predict([make_scene()], changes, PredictionInputs(loaders={1: inputs}))
    assert prediction.speedup is not None, prediction.refused
    assert prediction.family == "feed"
    return prediction.speedup


def test_the_loader_as_it_is_gains_nothing() -> None:
    assert predict_speedup(LoaderChange(1)).mid == 1


def test_workers_gain_until_the_host_is_what_limits() -> None:
    assert predict_speedup(LoaderChange(1, num_workers=2)).mid == pytest.approx(2, rel=0.03)
    assert predict_speedup(LoaderChange(1, num_workers=16)).mid == pytest.approx(
        FETCH / (HOST + 0.4), rel=0.05
    )


def test_a_faster_host_waits_instead() -> None:
    half = HostChange(("idle.host",), Estimate(0.5, 0.5, 0.5))
    assert predict_speedup(LoaderChange(1), half).mid == pytest.approx(1, abs=0.01)
    both_speedup = predict_speedup(LoaderChange(1, num_workers=16), half).mid
    assert both_speedup == pytest.approx(FETCH / (HOST / 2 + 0.4), rel=0.08)


def test_the_interval_holds_what_is_known_badly() -> None:
    speedup = predict_speedup(LoaderChange(1, num_workers=2))
    assert speedup.low < speedup.mid < speedup.high


def test_several_loaders_are_refused() -> None:
    prediction = predict([make_scene()], [LoaderChange(1, wait=False), LoaderChange(2, wait=False)])
    assert prediction.refused == "changes of several loaders are not replayed together"
