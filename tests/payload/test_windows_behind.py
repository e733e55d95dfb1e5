"""Windows last until the device has done what their steps launched."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gapless.payload.windows import opened
from gapless.payload.windows.opened import Opened
from gapless.payload.windows.plan import PROBE, STACKS, WINDOW

WANT, MORE = 4, 10

Closes = Callable[..., int]


class Device:
    """A device that is so many edges of steps behind its host, as ``torch.cuda`` shows it."""

    def __init__(self, behind: int, *, capturing: bool = False) -> None:
        self.behind, self.capturing, self.now = behind, capturing, 0
        self.put = list[int]()  # at which step an event was put

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def Event(self) -> SimpleNamespace:  # noqa: N802 - as torch names it
        at = list[int]()

        def record() -> None:
            assert not self.capturing
            at.append(self.now)
            self.put.append(self.now)

        return SimpleNamespace(record=record, query=lambda: self.now >= at[0] + self.behind)


@pytest.fixture
def closes(monkeypatch: pytest.MonkeyPatch) -> Closes:
    """Give a function that tells after how many steps a window closes."""

    def after(device: Device | None, what: str = WINDOW, *, cuda: bool = True) -> int:
        capture = SimpleNamespace(cuda=cuda)

        def started(*, stacks: bool) -> SimpleNamespace:
            assert stacks is (what is STACKS)
            return capture

        monkeypatch.setattr(opened, "Capture", started)
        if device is None:
            monkeypatch.delitem(sys.modules, "torch.cuda", raising=False)
        else:
            monkeypatch.setitem(sys.modules, "torch.cuda", device)
        here = Opened(what, 1, 100, 1 if what is PROBE else WANT)
        for step in range(1, 100):
            here.steps = step
            if device is not None:
                device.now = step
            if here.is_done(MORE):
                return step
        raise AssertionError("it was never closed")

    return after


@pytest.mark.parametrize("behind", [0, 1, 7, MORE])
def test_a_window_waits_for_a_device_that_is_behind(closes: Closes, behind: int) -> None:
    device = Device(behind)
    assert closes(device) == WANT + behind
    assert device.put == [WANT]  # one event, at the end of the last planned step


def test_a_window_with_stacks_waits_too(closes: Closes) -> None:
    assert closes(Device(3), STACKS) == WANT + 3


def test_a_device_that_never_comes_is_not_waited_for(closes: Closes) -> None:
    assert closes(Device(1000)) == WANT + MORE


def test_a_probe_waits_for_nothing(closes: Closes) -> None:
    device = Device(5)
    assert closes(device, PROBE) == 1
    assert not device.put


def test_nothing_is_asked_where_no_device_is_recorded(closes: Closes) -> None:
    device = Device(5)
    assert closes(device, cuda=False) == WANT
    assert not device.put
    assert closes(None) == WANT


def test_a_graph_that_is_being_captured_is_left_alone(closes: Closes) -> None:
    device = Device(5, capturing=True)
    assert closes(device) == WANT
    assert not device.put


def test_a_capture_that_begins_while_a_window_waits_ends_the_waiting(closes: Closes) -> None:
    device = Device(50)
    here = Opened.is_done

    def capturing(self: Opened, more: int) -> bool:
        device.capturing = self.steps > WANT + 2
        return here(self, more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Opened, "is_done", capturing)
        assert closes(device) == WANT + 3
