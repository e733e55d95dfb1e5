"""Whether CUPTI is detached behind windows: by torch's versions, and only for the C library."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from gapless.payload.windows import cupti
from gapless.payload.windows.capture import ProfilerCapture

DETACH, LAZY = "TEARDOWN_CUPTI", "DISABLE_CUPTI_LAZY_REINIT"


def c_variable(name: str) -> str | None:
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value = getenv(name.encode())
    return None if value is None else value.decode()


def make_torch(version: str, cuda: str | None) -> SimpleNamespace:
    return SimpleNamespace(__version__=version, version=SimpleNamespace(cuda=cuda))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(DETACH, raising=False)
    monkeypatch.delenv(LAZY, raising=False)
    monkeypatch.setattr(cupti, "_state", SimpleNamespace(is_ours=False, unsettled=None))
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
    cupti.before_window(make_torch(version, cuda))
    assert (c_variable(DETACH), c_variable(LAZY)) == (detach, lazy)
    assert DETACH not in os.environ
    assert LAZY not in os.environ


@pytest.mark.parametrize("set_by_user", ["0", "1"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, set_by_user: str) -> None:
    monkeypatch.setenv(DETACH, set_by_user)
    cupti.before_window(make_torch("2.12.0+cu130", "13.0"))
    assert c_variable(DETACH) == set_by_user
    cupti.hand_back()
    assert c_variable(DETACH) == set_by_user


def test_the_environment_is_handed_back() -> None:
    cupti.before_window(make_torch("2.11.0+cu130", "13.0"))
    cupti.hand_back()
    assert c_variable(DETACH) is None


def test_what_the_user_sets_meanwhile_stays() -> None:
    cupti.before_window(make_torch("2.11.0+cu130", "13.0"))
    os.environ[DETACH] = "0"
    try:
        cupti.hand_back()
        assert c_variable(DETACH) == "0"
    finally:
        del os.environ[DETACH]


class Device:
    """A ``torch.cuda`` at whose call CUPTI is detached, or is not."""

    def __init__(self) -> None:
        self.detaches, self.calls = False, 0
        self.fails: BaseException | None = None
        self.acts: Callable[[], object] = lambda: None
        self.called = threading.Event()

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        self.calls += 1
        self.acts()
        if self.fails is not None:
            raise self.fails
        if self.detaches:
            self.called.set()
        return 0


PROC = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc")  # noqa: PTH112


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    stand_in = Device()
    monkeypatch.setitem(sys.modules, "torch.cuda", stand_in)
    yield stand_in
    stand_in.called.set()


def stop_window(device: Device) -> cupti.Detachment:
    """Have a window stop, whose profiler leaves a thread that waits for a call."""
    cupti.before_window(make_torch("2.11.0+cu130", "13.0"))
    detachment = cupti.Detachment()
    threading.Thread(target=device.called.wait, daemon=True).start()
    return detachment


@PROC
def test_calls_are_made_until_the_thread_that_waits_for_one_is_gone(device: Device) -> None:
    device.detaches = True
    n_before = threading.active_count()
    assert stop_window(device).settle()
    assert device.calls > 0
    assert threading.active_count() == n_before
    assert c_variable(DETACH) is None, "only while a window is open"


@PROC
def test_a_thread_that_stays_is_asked_for_again_and_not_for_long(device: Device) -> None:
    assert not stop_window(device).settle()
    assert c_variable(DETACH) == "1", "the thread reads it, too"
    assert not cupti.Detachment().settle(), "it is still there"
    n_before, device.detaches = device.calls, True
    cupti.hand_back()
    assert device.calls > n_before
    assert c_variable(DETACH) is None


@PROC
def test_what_interrupts_the_calls_leaves_them_to_the_end(device: Device) -> None:
    device.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        stop_window(device).settle()
    device.fails, device.detaches = None, True
    cupti.hand_back()
    assert device.called.is_set()


@PROC
def test_a_device_that_failed_stops_no_end(device: Device) -> None:
    device.fails = RuntimeError("CUDA error: unspecified launch failure")
    assert not stop_window(device).settle()
    cupti.hand_back()
    assert c_variable(DETACH) is None


@PROC
def test_what_a_signal_handler_of_the_user_raises_is_the_users(device: Device) -> None:
    class TooLongError(Exception):
        pass

    def handler(*_: object) -> None:
        raise TooLongError

    device.acts = lambda: signal.raise_signal(signal.SIGALRM)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        stop_window(device)
        with pytest.raises(TooLongError):
            cupti.hand_back()
    finally:
        signal.signal(signal.SIGALRM, before)


@PROC
def test_nothing_is_known_to_be_detached_where_threads_are_not_told(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    detachment = stop_window(device)
    monkeypatch.setattr(cupti, "_TASKS", "/nowhere")
    assert not detachment.settle()
    assert device.calls > 0


def test_it_stays_attached_where_threads_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "_TASKS", "/nowhere")
    cupti.before_window(make_torch("2.11.0+cu130", "13.0"))
    assert c_variable(DETACH) is None


def test_nothing_is_called_where_it_stays_attached(device: Device) -> None:
    assert not cupti.Detachment().settle()
    assert device.calls == 0


def test_a_profiler_is_stopped_though_no_file_descriptor_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_listing(_: str) -> list[str]:
        raise OSError(24, "Too many open files")

    capture = ProfilerCapture(stacks=False)
    cupti.before_window(make_torch("2.11.0+cu130", "13.0"))
    monkeypatch.setattr(os, "listdir", fail_listing)
    capture.stop()
    assert ProfilerCapture(stacks=False).stop() is not None
