"""A window and its loader in one replay: neither gains what the other holds back."""

from functools import cache

import pytest

from gapless.model.change import Change, Feed, Hosted
from gapless.model.interval import Interval
from gapless.replay.predict import Extra, predict
from gapless.replay.scene import Scene
from tests.accounting.drawing import Act, Frame
from tests.replay import windows
from tests.replay.test_feeding import HAND, MS, lengths, ran
from tests.replay.windows import act, call, frame

FETCH, HOST = 60, 12  # ms


def waiting(at: int, _number: int) -> tuple[list[Frame], list[Act]]:
    """Wait for one worker, work for 12 ms with a kernel of 4 ms."""
    got = at + (FETCH - HOST) * 1000
    frames = [frame("data", at, got), frame("op", got + 10, got + 40)]
    return frames, [act(got + 28, got + 4028, call(got + 20, got + 26))]


@cache
def scene() -> Scene:
    return windows.scene_of(windows.training(waiting, FETCH * 1000))


def speedup(*changes: Change) -> Interval:
    inputs = ran(1, lengths(FETCH * MS, 0.02), HOST * MS - HAND)
    found = predict([scene()], changes, Extra(loaders={1: inputs}))
    assert found.speedup is not None, found.refused
    assert found.family == "feed"
    return found.speedup


def test_the_loader_as_it_is_gains_nothing() -> None:
    assert speedup(Feed(1)).mid == 1


def test_workers_gain_until_the_host_is_what_limits() -> None:
    assert speedup(Feed(1, num_workers=2)).mid == pytest.approx(2, rel=0.03)
    assert speedup(Feed(1, num_workers=16)).mid == pytest.approx(FETCH / (HOST + 0.4), rel=0.05)


def test_a_faster_host_waits_instead() -> None:
    half = Hosted(("idle.host",), Interval(0.5, 0.5, 0.5))
    assert speedup(Feed(1), half).mid == pytest.approx(1, abs=0.01)
    both = speedup(Feed(1, num_workers=16), half).mid
    assert both == pytest.approx(FETCH / (HOST / 2 + 0.4), rel=0.08)


def test_the_interval_holds_what_is_known_badly() -> None:
    found = speedup(Feed(1, num_workers=2))
    assert found.low < found.mid < found.high


def test_several_loaders_are_refused() -> None:
    found = predict([scene()], [Feed(1, wait=False), Feed(2, wait=False)])
    assert found.refused == "changes of several loaders are not replayed together"
