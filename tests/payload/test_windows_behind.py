"""Windows last until the device has done what their steps launched."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gapless.payload.windows import open_window
from gapless.payload.windows.open_window import OpenWindow
from gapless.payload.windows.plan import PROBE, STACKS, WINDOW

PLANNED_STEPS, EXTRA_STEPS = 4, 10

ClosingStep = Callable[..., int]


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
        recorded_at = list[int]()

        def record() -> None:
            assert not self.capturing
            recorded_at.append(self.now)
            self.put.append(self.now)

        return SimpleNamespace(
            record=record, query=lambda: self.now >= recorded_at[0] + self.behind
        )


@pytest.fixture
def closing_step(monkeypatch: pytest.MonkeyPatch) -> ClosingStep:
    """Return a function that tells after how many steps a window closes."""

    def run_window(device: Device | None, kind: str = WINDOW, *, cuda: bool = True) -> int:
        capture = SimpleNamespace(cuda=cuda)

        def start_capture(*, stacks: bool) -> SimpleNamespace:
            assert stacks is (kind is STACKS)
            return capture

        monkeypatch.setattr(open_window, "ProfilerCapture", start_capture)
        if device is None:
            monkeypatch.delitem(sys.modules, "torch.cuda", raising=False)
        else:
            monkeypatch.setitem(sys.modules, "torch.cuda", device)
        window = OpenWindow(kind, 1, 100, 1 if kind is PROBE else PLANNED_STEPS)
        for step in range(1, 100):
            window.steps = step
            if device is not None:
                device.now = step
            if window.is_done(EXTRA_STEPS):
                return step
        raise AssertionError("it was never closed")

    return run_window


@pytest.mark.parametrize("behind", [0, 1, 7, EXTRA_STEPS])
def test_a_window_waits_for_a_device_that_is_behind(closing_step: ClosingStep, behind: int) -> None:
    device = Device(behind)
    assert closing_step(device) == PLANNED_STEPS + behind
    assert device.put == [PLANNED_STEPS]  # one event, at the end of the last planned step


def test_a_window_with_stacks_waits_too(closing_step: ClosingStep) -> None:
    assert closing_step(Device(3), STACKS) == PLANNED_STEPS + 3


def test_a_device_that_never_comes_is_not_waited_for(closing_step: ClosingStep) -> None:
    assert closing_step(Device(1000)) == PLANNED_STEPS + EXTRA_STEPS


def test_a_probe_waits_for_nothing(closing_step: ClosingStep) -> None:
    device = Device(5)
    assert closing_step(device, PROBE) == 1
    assert not device.put


def test_nothing_is_asked_where_no_device_is_recorded(closing_step: ClosingStep) -> None:
    device = Device(5)
    assert closing_step(device, cuda=False) == PLANNED_STEPS
    assert not device.put
    assert closing_step(None) == PLANNED_STEPS


def test_a_graph_that_is_being_captured_is_left_alone(closing_step: ClosingStep) -> None:
    device = Device(5, capturing=True)
    assert closing_step(device) == PLANNED_STEPS
    assert not device.put


def test_a_capture_that_begins_while_a_window_waits_ends_the_waiting(
    closing_step: ClosingStep,
) -> None:
    device = Device(50)
    original = OpenWindow.is_done

    def is_done(self: OpenWindow, extra_steps: int) -> bool:
        device.capturing = self.steps > PLANNED_STEPS + 2
        return original(self, extra_steps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenWindow, "is_done", is_done)
        assert closing_step(device) == PLANNED_STEPS + 3
