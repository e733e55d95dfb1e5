"""Collections are timed, and no Python of ours runs within one."""

import gc
import signal
import types
from collections.abc import Iterator

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.hooks import collector


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, int]]]:
    noted_marks: list[tuple[int, int, int]] = []

    def mark(kind: int, start: int, end: int) -> None:
        noted_marks.append((kind, start, end))

    monkeypatch.setattr(recorder, "mark", mark)
    monkeypatch.setattr(collector, "LONG_NS", 0)
    gc.collect()
    old_callbacks = gc.callbacks[:]  # a test library's own is Python, which a signal can end
    gc.callbacks.clear()
    collector._begin()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    yield noted_marks
    collector._leave()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    gc.callbacks[:] = old_callbacks


def reach_edge() -> None:
    collector._collect(0, 0, 0)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


def test_each_collection_is_one_mark_with_its_length(marks: list[tuple[int, int, int]]) -> None:
    before = recorder.now()
    gc.collect()
    after = recorder.now()
    reach_edge()
    own_marks = [mark for mark in marks if before <= mark[1] <= mark[2] <= after]
    assert own_marks
    assert {mark[0] for mark in own_marks} == {wire.COLLECTOR}
    assert sum(end - start for _, start, end in own_marks) > (after - before) / 2
    reach_edge()
    assert len(marks) == len(own_marks), "each is told once"


def collect_under_alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    gc.collect()


@pytest.fixture
def frozen_objects() -> Iterator[None]:
    """Leave out what other tests made: with it each collection would take half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen_objects")
def test_what_a_signal_handler_raises_right_after_a_collection_is_not_lost(
    marks: list[tuple[int, int, int]],
) -> None:
    def handler(_number: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    old_handler = signal.signal(signal.SIGALRM, handler)
    cycles: list[object] = []
    for _ in range(200_000):  # so that the alarm comes within the collection
        cycles.append([cycles])
    try:
        for _ in range(6):
            with pytest.raises(KeyboardInterrupt):
                collect_under_alarm()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
    reach_edge()
    assert marks
