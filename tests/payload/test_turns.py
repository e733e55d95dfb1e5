"""Which steps of two arms that take turns are neighbours, and what passes at the end of a turn."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.trial import turns

START, STEPS, SLICES = 10, 5, 6


def list_waits(*, first: bool) -> list[int]:
    """Return the slices after which a process waits; 0: before the first."""
    turns.begin({"start": START, "steps": STEPS, "first": first})
    ends = [step for step in range(START + SLICES * STEPS) if turns.is_turn_over(step)]
    return [(step - START) // STEPS for step in ends]


end_step: Any = vars(turns)["_edge"].__wrapped__


def ignore(*_words: object, **_options: object) -> None:
    """Stand in for what the recorder would do."""


def has_plan() -> bool:
    return bool(turns.turns.plan)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "on_edge", ignore)
    monkeypatch.setattr(recorder, "flush", ignore)
    turns.turns.fork()


def test_slices_of_the_same_steps_are_neighbours_in_alternating_order() -> None:
    waits = {True: list_waits(first=True), False: list_waits(first=False)}
    order: list[tuple[str, int]] = []
    done = {True: 0, False: 0}
    is_first = True
    while min(done.values()) < SLICES:
        end = next((wait for wait in waits[is_first] if wait > done[is_first]), SLICES)
        order += [("AB"[not is_first], index) for index in range(done[is_first], end)]
        done[is_first], is_first = end, not is_first
    assert "".join(side for side, _ in order) == "ABBAABBAABBA"
    assert [index for _, index in order] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_process_without_a_plan_never_waits() -> None:
    turns.begin(None)
    end_step(START - 1, 0, 1)  # it would fail for want of a plan


def test_the_end_of_a_turn_is_told_and_the_next_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.SPOOL, str(tmp_path))
    for name in (wire.TURN_OVER, wire.TURN_BEGINS):
        os.mkfifo(tmp_path / name)
    over = os.open(tmp_path / wire.TURN_OVER, os.O_RDWR)
    begins = os.open(tmp_path / wire.TURN_BEGINS, os.O_RDWR)
    marks: list[tuple[int, int]] = []

    def mark(kind: int, _start: int, _end: int, value: int) -> None:
        marks.append((kind, value))

    monkeypatch.setattr(recorder, "mark", mark)
    turns.begin({"start": START, "steps": STEPS, "first": True})
    stepping = threading.Thread(target=end_step, args=(START - 1, 0, 1))
    stepping.start()
    assert int(os.read(over, 100)) == os.getpid()
    stepping.join(0.3)
    assert stepping.is_alive()
    assert not marks
    os.write(begins, b"\n")
    stepping.join(60)
    assert marks == [(wire.OBSERVER, wire.OBSERVER_TURN)]


def test_without_a_launcher_it_steps_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(wire.SPOOL, str(tmp_path))
    monkeypatch.setattr(recorder, "mark", ignore)
    turns.begin({"start": START, "steps": STEPS, "first": True})
    end_step(START - 1, 0, 1)
    end_step(START - 1, 0, 1)  # and forgets the plan
    assert not has_plan()
