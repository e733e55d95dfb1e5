"""A delay of the training thread in a replayed window: it costs what no device hides."""

import pytest

from gapless.model.change import Delay, LoaderChange
from gapless.replay.predict.predict import family_of, predict
from tests.accounting.drawing import Act, Frame
from tests.replay.test_fed import FETCH, HOST, predict_speedup
from tests.replay.windows import act, call, draw_training, frame, scene_of, step_lengths


def host_bound_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Work on the host for a step of 1,000 µs; the device has little to do."""
    launch = call(start + 110, start + 116)
    return [frame("op", start + 100, start + 900)], [act(start + 118, start + 218, launch)]


def test_a_delay_of_a_host_that_limits_costs_all_of_it() -> None:
    scene = scene_of(draw_training(host_bound_step, 1000))
    assert step_lengths(scene, Delay(200_000)) == pytest.approx(
        [length + 200 for length in step_lengths(scene)]
    )
    prediction = predict((scene,), (Delay(200_000),))
    assert prediction.speedup is not None
    assert prediction.speedup.low < 1 / 1.2 < prediction.speedup.high < 1


def test_delays_add_up() -> None:
    scene = scene_of(draw_training(host_bound_step, 1000))
    both_lengths = step_lengths(scene, Delay(150_000), Delay(50_000))
    assert both_lengths == step_lengths(scene, Delay(200_000))


def test_a_delay_is_of_the_host() -> None:
    assert family_of((Delay(1),)) == "host"


def test_a_delay_is_hidden_where_a_worker_is_waited_for() -> None:
    assert predict_speedup(Delay(10_000_000), LoaderChange(1)).mid == pytest.approx(1, abs=0.01)
    no_wait = predict_speedup(LoaderChange(1, num_workers=16)).mid
    delayed_mid = predict_speedup(Delay(10_000_000), LoaderChange(1, num_workers=16)).mid
    # Once it is not waited for, a step of 12 ms takes 22.
    assert delayed_mid == pytest.approx(no_wait * (HOST + 0.4) / (HOST + 10.4), rel=0.03)
    assert no_wait > FETCH / 15


def awaited_device_step(start: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Launch at the start of a step of 1,000 µs, and wait for the device at its end."""
    launch = call(start + 30, start + 36)
    frames = [
        frame("op", start + 20, start + 40),
        frame("op", start + 400, start + 990, "aten::item"),
        frame("sync", start + 410, start + 980),
    ]
    back = call(start + 404, start + 408)
    return frames, [
        act(start + 38, start + 938, launch),
        act(start + 940, start + 942, back, "d2h"),
    ]


def test_what_the_thread_does_before_it_launches_is_hidden_by_nothing() -> None:
    scene = scene_of(draw_training(awaited_device_step, 1000))
    assert step_lengths(scene, Delay(100_000)) == pytest.approx(
        [length + 100 for length in step_lengths(scene)]
    )
