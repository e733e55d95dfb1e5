"""The device's own time between step edges: ``hooks/device_steps.py``."""

import sys
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from gapless import wire
from gapless.payload.hooks import device_steps
from tests.payload import hooking


class Device:
    """A stand-in for torch.cuda: events pass when told, and nothing may wait."""

    def __init__(self) -> None:
        self.initialized = True
        self.capturing = False
        self.passed_until = -1.0
        self.clock = 0.0  # ms
        self.events: list[Event] = []
        self.stream = SimpleNamespace(device_index=0)

    def is_initialized(self) -> bool:
        return self.initialized

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self) -> SimpleNamespace:
        assert self.initialized
        return self.stream

    def Event(self, *, enable_timing: bool) -> "Event":  # noqa: N802 - torch's name
        assert enable_timing
        event = Event(self)
        self.events.append(event)
        return event


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.time_ms = -1.0

    def record(self, stream: object) -> None:
        assert stream is self.device.stream
        assert not self.device.capturing
        self.time_ms = self.device.clock

    def query(self) -> bool:
        assert not self.device.capturing
        return self.time_ms <= self.device.passed_until

    def elapsed_time(self, other: "Event") -> float:
        assert other.query()
        return other.time_ms - self.time_ms


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setitem(sys.modules, "torch.cuda", device)
    return device


@contextmanager
def measure_all_steps() -> Generator[hooking.Recorder]:
    """Measure all steps, however short."""
    with hooking.install_hooks("device_steps") as recorder:
        device_steps.COST_NS = 0
        yield recorder


def test_the_time_between_two_edges_is_told_once_the_device_has_passed_them(
    device: Device,
) -> None:
    with measure_all_steps() as recorder:
        for step, clock in enumerate((0.0, 2.5, 6.0)):
            device.clock = clock
            recorder.edge(1000 * step)
        assert recorder.marks_of(wire.DEVICE_STEP) == []
        device.passed_until = device.clock = 7.0
        recorder.edge(3000)
        device.passed_until = device.clock = 8.0
        recorder.edge(4000)
        recorder.edge(5000)
    marks = recorder.marks_of(wire.DEVICE_STEP)
    assert [mark.value for mark in marks] == [2_500_000, 3_500_000, 1_000_000, 1_000_000]
    assert [(mark.start, mark.end) for mark in marks][:2] == [(0, 1000), (1000, 2000)]


def test_events_are_used_again(device: Device) -> None:
    with measure_all_steps() as recorder:
        for step in range(500):
            device.clock = device.passed_until = float(step)
            recorder.edge(step)
    assert len(device.events) <= 4
    assert {mark.value for mark in recorder.marks_of(wire.DEVICE_STEP)} == {1_000_000}
    assert len(recorder.marks_of(wire.DEVICE_STEP)) >= 497


def test_a_device_far_behind_leaves_a_gap_and_no_wrong_time(device: Device) -> None:
    with measure_all_steps() as recorder:
        for step in range(400):
            device.clock = float(step)
            recorder.edge(step)
        assert len(device.events) == 256
        device.passed_until = 400.0
        for step in range(400, 1000):
            device.clock = device.passed_until = float(step)
            recorder.edge(step)
    spans = [mark.end - mark.start for mark in recorder.marks_of(wire.DEVICE_STEP)]
    assert set(spans) == {1}
    assert {mark.value for mark in recorder.marks_of(wire.DEVICE_STEP)} == {1_000_000}
    assert len(spans) > 800


def test_nothing_is_asked_while_a_graph_is_captured(device: Device) -> None:
    with measure_all_steps() as recorder:
        recorder.edge(0)
        device.capturing = True
        recorder.edge(1)  # the stand-in's assertions would be failures of the hook
        device.capturing = False
        device.passed_until = 10.0
        recorder.edge(2)
        recorder.edge(3)
        recorder.edge(4)
    assert [(mark.start, mark.end) for mark in recorder.marks_of(wire.DEVICE_STEP)] == [(2, 3)]


def test_another_stream_is_not_compared(device: Device) -> None:
    with measure_all_steps() as recorder:
        device.passed_until = 10.0
        recorder.edge(0)
        device.stream = SimpleNamespace(device_index=1)
        for step in range(1, 4):
            recorder.edge(step)
    starts = [mark.start for mark in recorder.marks_of(wire.DEVICE_STEP)]
    assert 0 not in starts
    assert 1 in starts


def test_a_forked_child_does_not_touch_the_events_of_its_parent(device: Device) -> None:
    with measure_all_steps() as recorder:
        device.passed_until = 10.0
        recorder.edge(0)
        recorder.edge(1)
        alive = [weakref.ref(event) for event in device.events]
        device.events.clear()
        hooking.hook_module("device_steps")._events.fork()  # noqa: SLF001
        assert all(event() is not None for event in alive)
        recorder.edge(2)
        recorder.edge(3)
    assert [mark.start for mark in recorder.marks_of(wire.DEVICE_STEP)] == []
    assert len(device.events) == 2


def test_of_short_steps_one_in_some_is_measured(device: Device) -> None:
    with hooking.install_hooks("device_steps") as recorder:
        for step in range(100):
            device.clock = device.passed_until = float(step)
            recorder.edge(1_000_000 * step)
    spans = [(mark.end - mark.start, mark.value) for mark in recorder.marks_of(wire.DEVICE_STEP)]
    assert set(spans) == {(1_000_000, 1_000_000)}  # never across the steps passed over
    assert 4 <= len(spans) <= 6


@contextmanager
def follow_edges() -> Generator[hooking.Recorder]:
    """Mark edges as an arm of a trial does."""
    with hooking.install_hooks("device_steps") as recorder:
        device_steps.follow()
        device_steps.SPACING_NS = 0
        yield recorder


def device_edges(recorder: hooking.Recorder) -> list[tuple[int, int]]:
    return [(mark.end, mark.value) for mark in recorder.marks_of(wire.DEVICE_EDGE)]


def test_an_arm_marks_when_the_device_came_to_each_edge_however_late(device: Device) -> None:
    with follow_edges() as recorder:
        for step in range(40):  # the host is done at once, the device takes 45 ms a step
            device.clock = 45.0 * step
            recorder.edge(1000 * step)
        assert device_edges(recorder) == [(0, 0)]
        device.passed_until = device.clock  # the device has been waited for
        device_steps.drain()
        assert device_edges(recorder) == [(1000 * step, 45_000_000 * step) for step in range(40)]
    assert recorder.marks_of(wire.DEVICE_STEP) == []


def test_an_arm_whose_device_is_far_behind_leaves_edges_out_and_the_chain_holds(
    device: Device,
) -> None:
    with follow_edges() as recorder:
        for step in range(400):
            device.clock = float(step)
            recorder.edge(step)
        assert len(device.events) == 256
        for step in range(400, 420):
            device.clock = device.passed_until = float(step)
            recorder.edge(step)
        device_steps.drain()
        assert all(value == 1_000_000 * end for end, value in device_edges(recorder))
        assert device_edges(recorder)[-1][0] == 419


def test_an_arm_spaces_its_events_on_short_steps(device: Device) -> None:
    with follow_edges() as recorder:
        device_steps.SPACING_NS = 5_000_000
        for step in range(100):
            device.clock = device.passed_until = float(step)
            recorder.edge(1_000_000 * step)
        device_steps.drain()
        assert len(device_edges(recorder)) == 20
        assert len({end % 5_000_000 for end, _ in device_edges(recorder)}) == 1


def test_the_last_edge_of_a_host_far_ahead_is_marked_when_it_is_asked_for(device: Device) -> None:
    with follow_edges() as recorder:
        device_steps.SPACING_NS = 5_000_000
        for step in range(13):  # the host is done in 1 ms, the device takes 45 ms a step
            device.clock = 45.0 * step
            recorder.edge(1_000_000 * step)
        device_steps.link(12_000_000)
        device_steps.link(12_000_000)  # once is enough
        device.passed_until = device.clock
        device_steps.drain()
        assert device_edges(recorder)[-2:] == [(10_000_000, 450_000_000), (12_000_000, 540_000_000)]


def test_a_captured_graph_breaks_the_chain_for_good(device: Device) -> None:
    with follow_edges() as recorder:
        device.passed_until = 1e9
        recorder.edge(0)
        recorder.edge(1)
        device.capturing = True
        recorder.edge(2)
        device.capturing = False
        recorder.edge(3)
        recorder.edge(4)
        assert [end for end, _ in device_edges(recorder)] == [0]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_real_events_tell_what_the_device_did_without_a_sync() -> None:
    work = torch.ones(4096, 4096, device="cuda")
    spent_ns: list[int] = []
    with measure_all_steps() as recorder:
        torch.cuda.set_sync_debug_mode("error")
        for _ in range(50):
            torch.mm(work, work)
            start = time.perf_counter_ns()
            recorder.edge()
            spent_ns.append(time.perf_counter_ns() - start)
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        for _ in range(60):
            recorder.edge()
    values = sorted(mark.value for mark in recorder.marks_of(wire.DEVICE_STEP))
    assert len(values) >= 49
    assert values[len(values) // 2] > 0
    assert sorted(spent_ns)[25] < 100_000
