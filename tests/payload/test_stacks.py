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


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    written: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.STACKS
        written.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(recorder, "options", lambda: {"stacks_hz": 200})
    stacks.start()
    yield written
    stacks.stop()


def busy_here() -> None:
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        pass


def tasks() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def test_the_stack_of_the_training_thread_is_counted_innermost_first(
    told: list[dict[str, Any]],
) -> None:
    before = threading.enumerate()
    busy_here()
    assert threading.enumerate() == before
    stacks.stop()
    (frame,) = told
    assert frame["thread"] == "training"
    assert frame["looks"] == sum(count for count, _ in frame["stacks"])
    here = [count for count, frames in frame["stacks"] if [__file__, "busy_here"] == frames[0][::2]]
    assert sum(here) > 5
    assert all(frames[1][2].startswith("test_") for _, frames in frame["stacks"][:1])


def test_where_there_is_no_room_stacks_are_counted_on(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "TELL_NS", 0)
    monkeypatch.setitem(stacks._state, "wait", 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def affords(*, last: bool = False) -> bool:
        return last

    monkeypatch.setattr(thinning, "affords", affords)
    busy_here()
    assert told == []
    stacks.stop()
    assert sum(count for count, _ in told[0]["stacks"]) > 5


def test_the_thread_is_gone_for_a_fork_and_back_after_it(told: list[dict[str, Any]]) -> None:
    time.sleep(0.02)
    with_it = tasks()
    stacks.pause()
    assert tasks() == with_it - 1
    stacks.resume()
    time.sleep(0.02)
    assert tasks() == with_it
    stacks.stop()
    assert tasks() == with_it - 1
    stacks.resume()
    assert tasks() == with_it - 1, "not after the end"
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
    assert unseen == [("stacks", 'RuntimeError("can\'t start new thread")')]
    assert os.getpid()
    stacks.stop()
