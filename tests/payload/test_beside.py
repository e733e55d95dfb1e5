"""Other threads of Python: how long each was on a processor, and where it stood."""

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gapless.payload import beside, recorder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
LASTS_S = 0.6


@pytest.fixture
def told(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[str, tuple[dict[str, Any], tuple[str, int, str]]]]:
    found: dict[str, tuple[dict[str, Any], tuple[str, int, str]]] = {}

    def fact(
        _noun: str, _thing: object, values: dict[str, Any], place: tuple[str, int, str]
    ) -> int:
        found[values["name"]] = values, place
        return 0

    monkeypatch.setattr(recorder, "fact", fact)
    beside.forget()
    yield found
    beside.forget()


def burn(over: threading.Event) -> None:
    while not over.is_set():
        sum(range(100))


def sleep(over: threading.Event) -> None:
    over.wait()


def test_a_thread_that_burns_is_told_with_its_line_and_one_that_waits_is_not(
    told: dict[str, tuple[dict[str, Any], tuple[str, int, str]]],
) -> None:
    over, own = threading.Event(), threading.get_ident()
    threads = [
        threading.Thread(target=one, args=(over,), name=one.__name__) for one in (burn, sleep)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + LASTS_S
    while time.monotonic() < end:
        time.sleep(0.05)
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        beside.look(frames, own, threading.get_native_id())
    beside.tell()
    over.set()
    for thread in threads:
        thread.join()
    ((values, place),) = told.values()
    assert values["name"] == "burn"
    assert values["ran"] > values["training_ran"] >= 0
    assert place[::2] == (__file__, "burn")
