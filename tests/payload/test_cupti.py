"""Whether CUPTI is detached behind windows: by torch's versions, and only for the C library."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gapless.payload.windows import cupti

DETACH, LAZY = "TEARDOWN_CUPTI", "DISABLE_CUPTI_LAZY_REINIT"


def in_c(name: str) -> str | None:
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    found = getenv(name.encode())
    return None if found is None else found.decode()


def torch_of(version: str, cuda: str | None) -> SimpleNamespace:
    return SimpleNamespace(__version__=version, version=SimpleNamespace(cuda=cuda))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(DETACH, raising=False)
    monkeypatch.delenv(LAZY, raising=False)
    monkeypatch.setattr(cupti, "_state", {"ours": False, "unsettled": None})
    yield
    os.unsetenv(DETACH)
    os.unsetenv(LAZY)


@pytest.mark.parametrize(
    ("version", "cuda", "detach", "lazy"),
    [
        ("2.11.0+cu130", "13.0", "1", None),
        ("2.13.0", "12.6", "1", None),
        ("3.0.0a0+git12", "13.1", "1", None),
        ("2.10.1+cu130", "13.0", None, None),  # sessions that follow each other soon break it
        ("2.12.0+cu124", "12.4", "0", "1"),  # graphs do
        ("2.4.1+cu118", "11.8", "0", "1"),
        ("2.13.0+cpu", None, None, None),
        ("2.13.0+rocm7.0", None, None, None),
    ],
)
def test_it_is_detached_where_that_is_safe(
    version: str, cuda: str | None, detach: str | None, lazy: str | None
) -> None:
    cupti.before_window(torch_of(version, cuda))
    assert (in_c(DETACH), in_c(LAZY)) == (detach, lazy)
    assert DETACH not in os.environ
    assert LAZY not in os.environ


@pytest.mark.parametrize("set_by_user", ["0", "1"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, set_by_user: str) -> None:
    monkeypatch.setenv(DETACH, set_by_user)
    cupti.before_window(torch_of("2.12.0+cu130", "13.0"))
    assert in_c(DETACH) == set_by_user
    cupti.hand_back()
    assert in_c(DETACH) == set_by_user


def test_the_environment_is_handed_back() -> None:
    cupti.before_window(torch_of("2.11.0+cu130", "13.0"))
    cupti.hand_back()
    assert in_c(DETACH) is None


class Device:
    """A ``torch.cuda`` at whose call CUPTI is detached, or never is."""

    def __init__(self, *, detaches: bool) -> None:
        self.detaches, self.calls = detaches, 0
        self.called = threading.Event()

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        self.calls += 1
        if self.detaches:
            self.called.set()
        return 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are not told")  # noqa: PTH112
def test_calls_are_made_until_the_thread_that_waits_for_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(detaches=True)
    monkeypatch.setitem(sys.modules, "torch.cuda", device)
    cupti.before_window(torch_of("2.11.0+cu130", "13.0"))
    detaching = cupti.Detaching()
    waiting = threading.Thread(target=device.called.wait)
    waiting.start()
    assert detaching.settle()
    assert device.calls > 0
    waiting.join(1)
    assert not waiting.is_alive()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are not told")  # noqa: PTH112
def test_a_thread_that_stays_is_not_awaited_for_long_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(detaches=False)
    monkeypatch.setitem(sys.modules, "torch.cuda", device)
    cupti.before_window(torch_of("2.11.0+cu130", "13.0"))
    detaching = cupti.Detaching()
    waiting = threading.Thread(target=device.called.wait)
    waiting.start()
    assert not detaching.settle()
    before = device.calls
    device.detaches = True
    cupti.hand_back()
    assert device.calls > before
    waiting.join(1)
    assert not waiting.is_alive()


def test_nothing_is_called_where_it_stays_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(detaches=True)
    monkeypatch.setitem(sys.modules, "torch.cuda", device)
    assert not cupti.Detaching().settle()
    assert device.calls == 0
