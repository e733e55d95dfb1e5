"""Stacks are sampled by a thread that nobody sees, and that is gone while a process forks."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder, stacks, thinning
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    written: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.STACKS
        written.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(recorder, "options", lambda: {"stacks_hz": 200})
    monkeypatch.setattr(stacks, "PATIENCE_S", PATIENCE_S)
    stacks.start()
    yield written
    stacks.stop()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]]) -> list[int]:
    """Give a list that grows with each look."""
    counted, count = list[int](), stacks._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def look(passed: int, ran: int | None) -> None:
        count(passed, ran)
        counted.append(passed)

    assert told == []
    monkeypatch.setattr(stacks, "_look", look)
    return counted


def busy_here(looks: list[int]) -> None:
    enough, end = len(looks) + 8, time.monotonic() + PATIENCE_S
    while len(looks) < enough and time.monotonic() < end:
        pass


def looking() -> Path:
    """Give the task of the thread that looks, once it has begun."""
    until(lambda: _STATE["tid"])
    return Path(f"/proc/self/task/{_STATE['tid']}")


_STATE = stacks._state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def test_the_stack_of_the_training_thread_is_counted_innermost_first(
    told: list[dict[str, Any]], looks: list[int]
) -> None:
    before = threading.enumerate()
    busy_here(looks)
    assert threading.enumerate() == before
    stacks.stop()
    (frame,) = told
    assert frame["thread"] == "training"
    assert frame["looks"] == sum(one[0] for one in frame["stacks"])
    here = [one for one in frame["stacks"] if [__file__, "busy_here"] == one[1][0][::2]]
    assert sum(one[0] for one in here) > 5
    assert all(one[1][1][2].startswith("test_") for one in here)


def test_where_there_is_no_room_stacks_are_counted_on(
    told: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "TELL_NS", 0)
    monkeypatch.setitem(_STATE, "wait", 0)

    def affords(*, last: bool = False) -> bool:
        return last

    monkeypatch.setattr(thinning, "affords", affords)
    busy_here(looks)
    assert told == []
    stacks.stop()
    assert sum(one[0] for one in told[0]["stacks"]) > 5


def test_what_was_seen_is_told_again_after_half_of_the_time_since_the_start(
    told: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_STATE, "wait", 0)
    monkeypatch.setitem(_STATE, "began", time.monotonic_ns() - 600_000_000_000)
    busy_here(looks)
    assert len(told) == 1
    assert 300e9 <= _STATE["wait"] < 600e9


def test_the_thread_is_gone_for_a_fork_and_back_after_it(told: list[dict[str, Any]]) -> None:
    before = looking()
    assert before.exists()
    stacks.pause()
    assert not before.exists()
    stacks.resume()
    again = looking()
    assert again.exists()
    stacks.stop()
    assert not again.exists()
    stacks.resume()
    assert _STATE["alarm"] is None, "not after the end"
    assert len(told) <= 1


def test_a_process_that_allows_no_more_threads_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    unseen: list[tuple[str, str]] = []

    def note(what: str, why: str) -> None:
        unseen.append((what, why))

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    monkeypatch.setattr(recorder, "unseen", note)
    stacks.start()
    assert unseen[-1:] == [("stacks", 'RuntimeError("can\'t start new thread")')]
    assert os.getpid()
    stacks.stop()


def test_the_first_looks_at_a_training_come_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_jitter", lambda: 1.0)
    pause = stacks._pause_s  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(_STATE, "role", "training")
    assert pause(0.1, 0) == pytest.approx(0.1 / stacks.MORE_OFTEN)
    assert pause(0.1, stacks.FIRST_LOOKS) == pytest.approx(0.1)
    monkeypatch.setitem(_STATE, "role", "worker")
    assert pause(0.1, 0) == pytest.approx(0.1)
