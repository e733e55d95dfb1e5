# pyright: reportPrivateUsage=false
"""A time limit of the user's, a handler that raises TimeoutError, is never lost in what is ours."""

import contextlib
import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator

import pytest

from gapless.payload import surroundings, tracebacks
from gapless.payload.hooks import files
from gapless.payload.log import sink
from gapless.payload.windows import agreeing, cupti, save


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Let SIGUSR1 raise what a time limit of the user's does."""

    def raise_timeout(*_: object) -> None:
        raise TimeoutError("the user's")

    before = signal.signal(signal.SIGUSR1, raise_timeout)
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupt(*_: object, **__: object) -> None:
    """Be interrupted by the signal, as a call of the system may be."""
    signal.raise_signal(signal.SIGUSR1)


def refuse(*_: object, **__: object) -> None:
    """Fail as the system does."""
    raise OSError(9, "refused")


CALLS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("os.fstat", sink.is_open),
    ("os.statvfs", lambda: surroundings._free("/")),  # noqa: SLF001
    ("builtins.open", lambda: files._written_to("0")),  # noqa: SLF001
    ("os.listdir", cupti._threads),  # noqa: SLF001
    ("os.unlink", lambda: save._remove("/nowhere")),  # noqa: SLF001
    ("os.symlink", lambda: agreeing._decide("/nowhere", is_wanted=True)),  # noqa: SLF001
)


@pytest.mark.parametrize(
    ("name", "call"), CALLS, ids=[f"{name}-{index}" for index, (name, _) in enumerate(CALLS)]
)
def test_it_passes(name: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink.log, "fd", 0)
    with monkeypatch.context() as patch:
        patch.setattr(name, interrupt)
        with pytest.raises(TimeoutError, match="the user's"):
            call()


class Tensor:
    """What a caller holds."""


@pytest.mark.parametrize(
    ("name", "call"), CALLS, ids=[f"{name}-{index}" for index, (name, _) in enumerate(CALLS)]
)
def test_what_the_system_refuses_keeps_nothing_of_the_callers(
    name: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink.log, "fd", 0)

    def hold() -> "weakref.ref[Tensor]":
        tensor = Tensor()
        with contextlib.suppress(OSError):
            call()
        return weakref.ref(tensor)

    gc.disable()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(name, refuse)
            held = hold()
        assert held() is None
    finally:
        gc.enable()


def test_what_the_system_refuses_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", refuse)
    assert cupti._threads() == frozenset()  # noqa: SLF001
    with tracebacks.suppress(OSError):
        refuse()
    with pytest.raises(ZeroDivisionError), tracebacks.suppress(OSError):
        raise ZeroDivisionError
