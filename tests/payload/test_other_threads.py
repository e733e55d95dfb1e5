"""Windows record all threads only where no other one may be inside of an operator at their end."""

import threading
from types import SimpleNamespace

import pytest

from gapless.payload.windows import capture


class TMonitor(SimpleNamespace):
    """A thread of progress bars, by its class."""


@pytest.mark.parametrize(
    ("others", "may_compute"),
    [
        ([], False),
        ([SimpleNamespace(name="Thread-3 (_pin_memory_loop)")], True),
        ([SimpleNamespace(name="prefetch")], True),
        ([SimpleNamespace(name="QueueFeederThread"), TMonitor(name="Thread-1")], False),
    ],
)
def test_other_threads_of_python_are_known(
    others: list[SimpleNamespace], may_compute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = threading.get_ident()
    threads = {this: threading.current_thread()} | dict(enumerate(others, this + 1))
    monkeypatch.setattr(threading, "_active", threads)
    assert capture.others_may_compute() == may_compute


def test_beside_another_thread_a_window_is_of_the_training_thread_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "others_may_compute", lambda: True)
    window = capture.ProfilerCapture(stacks=False)
    assert (window.all_threads, window.alone) == (False, capture.OTHERS_COMPUTE)
    window.stop()
