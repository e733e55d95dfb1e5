"""Other threads of Python: how long each was on a processor, and where it stood."""

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gapless.payload import recorder
from gapless.payload.stacks import threads as threads_module

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
LASTS_S = 0.6


@pytest.fixture
def thread_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[str, tuple[dict[str, Any], tuple[str, int, str]]]]:
    facts_by_name: dict[str, tuple[dict[str, Any], tuple[str, int, str]]] = {}

    def fact(
        _noun: str, _entity: object, values: dict[str, Any], location: tuple[str, int, str]
    ) -> int:
        facts_by_name[values["name"]] = values, location
        return 0

    monkeypatch.setattr(recorder, "fact", fact)
    threads_module._others.fork()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    yield facts_by_name
    threads_module._others.fork()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def burn(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(100))


def sleep(stop: threading.Event) -> None:
    stop.wait()


def test_a_thread_that_burns_is_told_with_its_line_and_one_that_waits_is_not(
    thread_facts: dict[str, tuple[dict[str, Any], tuple[str, int, str]]],
) -> None:
    stop, own_thread = threading.Event(), threading.get_ident()
    threads = [
        threading.Thread(target=task, args=(stop,), name=task.__name__) for task in (burn, sleep)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + LASTS_S
    while time.monotonic() < end:
        time.sleep(0.05)
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        threads_module.look(frames, own_thread, threading.get_native_id())
    threads_module.report_threads()
    stop.set()
    for thread in threads:
        thread.join()
    ((values, location),) = thread_facts.values()
    assert values["name"] == "burn"
    assert values["ran"] > values["training_ran"] >= 0
    assert location[::2] == (__file__, "burn")
