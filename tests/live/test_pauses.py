"""Pauses between what takes long."""

import time

import pytest

from gapless.live.pauses import Pause


def test_it_is_due_again_after_so_many_times_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"monotonic": 100.0, "thread_time": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["monotonic"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["thread_time"])
    pause = Pause(ratio=200, min_s=2)
    assert pause.is_due()
    with pause.measure():
        clock["thread_time"] += 0.1
    clock["monotonic"] += 19.9
    assert not pause.is_due()
    clock["monotonic"] += 0.2
    assert pause.is_due()
    with pause.measure():
        pass
    clock["monotonic"] += 1.9
    assert not pause.is_due()  # however little it took


def test_it_can_be_wanted_at_once_also_while_it_is_done() -> None:
    pause = Pause(ratio=200, min_s=1000)
    with pause.measure():
        pass
    assert not pause.is_due()
    pause.end()
    assert pause.is_due()
    with pause.measure():
        pause.end()
    assert pause.is_due()
