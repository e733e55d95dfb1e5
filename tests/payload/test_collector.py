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
    seen: list[tuple[int, int, int]] = []

    def mark(kind: int, start: int, end: int) -> None:
        seen.append((kind, start, end))

    monkeypatch.setattr(recorder, "mark", mark)
    monkeypatch.setattr(collector, "LONG_NS", 0)
    gc.collect()
    others = gc.callbacks[:]  # a test library's own is Python, which a signal can end
    gc.callbacks.clear()
    collector._begin()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    yield seen
    collector._leave()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    gc.callbacks[:] = others


def edge() -> None:
    collector._collect(0, 0, 0)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


def test_each_collection_is_one_mark_with_its_length(marks: list[tuple[int, int, int]]) -> None:
    before = recorder.now()
    gc.collect()
    after = recorder.now()
    edge()
    own = [mark for mark in marks if before <= mark[1] <= mark[2] <= after]
    assert own
    assert {mark[0] for mark in own} == {wire.COLLECTOR}
    assert sum(end - start for _, start, end in own) > (after - before) / 2
    edge()
    assert len(marks) == len(own), "each is told once"


def alarmed_collection() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    gc.collect()


@pytest.fixture
def frozen() -> Iterator[None]:
    """Leave out what other tests made: with it each collection would take half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
def test_what_a_signal_handler_raises_right_after_a_collection_is_not_lost(
    marks: list[tuple[int, int, int]],
) -> None:
    def handler(_number: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    thing: list[object] = []
    for _ in range(200_000):  # so that the alarm comes within the collection
        thing.append([thing])
    try:
        for _ in range(6):
            with pytest.raises(KeyboardInterrupt):
                alarmed_collection()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    edge()
    assert marks
