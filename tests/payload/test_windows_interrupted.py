# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false
"""What a signal handler of the user's raises reaches the user, and leaves no profiler on."""

import gc
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C import _autograd

from gapless.payload import recorder
from gapless.payload.hooks import collector
from gapless.payload.windows import capture, collecting, save, session


class LateError(RuntimeError):
    """A time limit of the user's."""


def _raise(_number: int, _frame: object) -> None:
    raise LateError


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _raise)
    yield
    signal.signal(signal.SIGALRM, before)


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have a signal come while a native function runs: it is handled right behind the call."""
    original: Any = getattr(_autograd, name)

    def call_interrupted(*args: object) -> object:
        result = original(*args)
        signal.raise_signal(signal.SIGALRM)
        return result

    monkeypatch.setattr(_autograd, name, call_interrupted)


def is_on() -> bool:
    on: Any = torch.autograd.profiler
    return bool(_autograd._profiler_enabled() or on._is_profiler_enabled)


class Result:
    """What a profiler gives, whose saving a signal interrupts."""

    def save(self, path: str) -> None:
        Path(path).write_text("{}")
        signal.raise_signal(signal.SIGALRM)


def test_a_limit_that_comes_while_a_window_is_saved_is_the_users(tmp_path: Path) -> None:
    with pytest.raises(LateError):
        save.in_place(Result(), str(tmp_path / "window.json"))
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_comes_while_a_child_is_made_leaves_signals_and_collections_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until signals are no longer blocked; the call that lets them in raises it then."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        signal.raise_signal(signal.SIGALRM)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ()), sys.getswitchinterval()
    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(LateError):
        save.in_child(Result(), str(tmp_path / "window.json"), 0)
    assert len(slept) == 1
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, ()), sys.getswitchinterval()) == before
    assert gc.isenabled()


def test_a_collection_in_code_without_import_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As in the ``__new__`` of a namedtuple."""
    collector._begin()
    ranges = collecting.watch()
    assert ranges is not None
    collect: Any = eval("lambda collect: collect()", {"__builtins__": {}})  # noqa: S307
    with torch.profiler.profile() as profiler:
        collect(gc.collect)
        torch.ones(1)
    ranges.end()
    collector._leave()
    events: Any = profiler.events()
    assert sum(event.name == collecting.RANGE for event in events) == 1
    assert "Exception" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["_prepare_profiler", "_enable_profiler"])
def test_a_signal_while_the_profiler_starts_leaves_it_off(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        interrupt(patched, name)
        with pytest.raises(LateError):
            capture.ProfilerCapture(stacks=False)
    assert not is_on()
    assert capture.ProfilerCapture(stacks=False).stop().events() is not None
    assert "already" not in capfd.readouterr().err, "the first one was still on"


@pytest.mark.parametrize("name", ["_enable_profiler", "_disable_profiler"])
def test_windows_that_are_always_interrupted_are_given_up(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is the user's, though it is a ``RuntimeError``: torch's profiler did start."""
    notes: list[str] = []

    def note(topic: str, why: str) -> None:
        notes.append(f"{topic}: {why}")

    monkeypatch.setattr(recorder, "report_unobserved", note)
    monkeypatch.setattr(capture, "others_may_compute", lambda: False)  # those of the tests' runner
    interrupt(monkeypatch, name)
    windows = session.Session(str(tmp_path), {})
    n_raised = 0
    for step in range(300):
        try:
            windows.edge(step, 1_000_000 * step)
        except LateError:
            n_raised += 1
        assert windows.open is not None or not is_on()
    assert (n_raised, notes) == (5, [])
