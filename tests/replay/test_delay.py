"""A delay of the training thread in a replayed window: it costs what no device hides."""

import pytest

from gapless.model.change import Delay, Feed
from gapless.replay.predict import family, predict
from tests.accounting.drawing import Act, Frame
from tests.replay.test_fed import FETCH, HOST, speedup
from tests.replay.windows import act, call, frame, lengths, scene_of, training


def computing(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Work on the host for a step of 1,000 µs; the device has little to do."""
    launch = call(at + 110, at + 116)
    return [frame("op", at + 100, at + 900)], [act(at + 118, at + 218, launch)]


def test_a_delay_of_a_host_that_limits_costs_all_of_it() -> None:
    scene = scene_of(training(computing, 1000))
    assert lengths(scene, Delay(200_000)) == pytest.approx([one + 200 for one in lengths(scene)])
    found = predict((scene,), (Delay(200_000),))
    assert found.speedup is not None
    assert found.speedup.low < 1 / 1.2 < found.speedup.high < 1


def test_delays_add_up() -> None:
    scene = scene_of(training(computing, 1000))
    both = lengths(scene, Delay(150_000), Delay(50_000))
    assert both == lengths(scene, Delay(200_000))


def test_a_delay_is_of_the_host() -> None:
    assert family((Delay(1),)) == "host"


def test_a_delay_is_hidden_where_a_worker_is_waited_for() -> None:
    assert speedup(Delay(10_000_000), Feed(1)).mid == pytest.approx(1, abs=0.01)
    gone = speedup(Feed(1, num_workers=16)).mid
    both = speedup(Delay(10_000_000), Feed(1, num_workers=16)).mid
    # Once it is not waited for, a step of 12 ms takes 22.
    assert both == pytest.approx(gone * (HOST + 0.4) / (HOST + 10.4), rel=0.03)
    assert gone > FETCH / 15


def waiting_for_device(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Launch at the start of a step of 1,000 µs, and wait for the device at its end."""
    launch = call(at + 30, at + 36)
    frames = [
        frame("op", at + 20, at + 40),
        frame("op", at + 400, at + 990, "aten::item"),
        frame("sync", at + 410, at + 980),
    ]
    back = call(at + 404, at + 408)
    return frames, [act(at + 38, at + 938, launch), act(at + 940, at + 942, back, "d2h")]


def test_what_the_thread_does_before_it_launches_is_hidden_by_nothing() -> None:
    scene = scene_of(training(waiting_for_device, 1000))
    assert lengths(scene, Delay(100_000)) == pytest.approx([one + 100 for one in lengths(scene)])
