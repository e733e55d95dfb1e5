"""Short steps of a host that runs ahead of its device are no measure of the training."""

from itertools import accumulate

import numpy as np
import pytest

from gapless import wire
from gapless.recorded.steps.step_times import run_steps
from gapless.recorded.training.edges import find_edges, unprofiled_steps
from gapless.recorded.training.processes import left_out_steps, trainings
from tests.study.recording import Log, recording

DEVICE = 60.0  # ms of a step on the device


def log_of(lengths: list[float], device: float | list[float] | None) -> Log:
    """Return a log of steps that long, in ms, and of what each took on the device."""
    ends = list(accumulate(lengths, initial=100.0))
    log = Log(start=0, end=ends[-1] + 100)
    log.add_steps(*ends)
    if device is not None:
        device_times = device if isinstance(device, list) else [device] * len(lengths)
        for step_start, step_end, device_ms in zip(ends[:-1], ends[1:], device_times, strict=True):
            log.add_mark("device-step", step_start, step_end, value=round(device_ms * 1e6))
    return log


def left_out_numbers(log: Log) -> list[int]:
    """Return the numbers of the steps that are left out."""
    (training,) = trainings(recording(log))
    return np.flatnonzero(left_out_steps(training)).tolist()


def test_steps_until_the_queue_is_full_are_left_out() -> None:
    log = log_of([2.0] * 8 + [40.0] + [DEVICE] * 30, DEVICE)
    assert left_out_numbers(log) == [*range(9)]
    steps = run_steps(trainings(recording(log)), [])
    assert steps is not None
    assert (steps.mean_ns, steps.regular, steps.ahead) == (DEVICE * 1e6, 30, 9)
    assert steps.host_ns is not None
    assert steps.host_ns[0] == 2_000_000  # what the host can do is known from them all the same
    assert steps.host_ns[1] < steps.p10_ns


def test_long_steps_make_up_for_short_ones_where_the_host_waits() -> None:
    lengths = ([2.0] * 9 + [10 * DEVICE - 18]) * 4
    assert left_out_numbers(log_of(lengths, DEVICE)) == []


def test_only_what_the_device_is_still_behind_by_is_left_out() -> None:
    cycle = [2.0] * 9 + [10 * DEVICE - 18]
    log = log_of([*cycle, *cycle, 2.0, 2.0, 2.0, *[DEVICE] * 20], DEVICE)
    # Three steps' worth is left at the end: as much is left out at the head.
    assert left_out_numbers(log) == [0, 1, 2]


def test_a_device_that_was_as_quick_then_was_not_behind() -> None:
    lengths = [6.0] * 8 + [11.0] * 40  # batches had been made ahead: both were quicker
    assert left_out_numbers(log_of(lengths, lengths)) == []
    slow_lengths = [38.0] * 8 + [DEVICE] * 40  # not half as long: the host alone was quicker
    assert left_out_numbers(log_of(slow_lengths, DEVICE)) == []


@pytest.mark.parametrize("device", [None, [DEVICE] * 2 + [0.0] * 37])
def test_nothing_is_said_without_times_of_the_device(device: list[float] | None) -> None:
    assert left_out_numbers(log_of([2.0] * 8 + [DEVICE] * 31, device)) == []


@pytest.mark.parametrize(
    "lengths",
    [
        [2.0] * 300 + [10.0] * 700,
        [3.0] * 400 + [12.0] * 600,
        [2.0] * 16 + [11.0] * 200,
    ],
)
def test_steps_that_were_not_measured_are_like_those_beside_them(lengths: list[float]) -> None:
    """Of short steps the device's part is measured in one of 20 ms."""
    device, unmeasured_ms = list[float](), 0.0
    for step_ms in lengths:
        unmeasured_ms += step_ms
        device.append(step_ms if unmeasured_ms >= 20 else 0.0)
        unmeasured_ms = 0.0 if unmeasured_ms >= 20 else unmeasured_ms
    assert len(left_out_numbers(log_of(lengths, device))) <= 10


def test_what_is_owed_may_be_paid_in_steps_that_were_summed() -> None:
    log = log_of([2.0] * 9, DEVICE)
    (end,) = {
        step_mark[5]
        for step_mark in log.marks
        if step_mark[5] == max(mark[5] for mark in log.marks)
    }
    log.add_mark_sum("step", (end / 1e6, end / 1e6 + 10 * DEVICE * 4 - 9 * 2), 31)
    assert left_out_numbers(log) == []


def test_stretches_between_windows_are_looked_at_one_by_one() -> None:
    log = log_of([2.0, 2.0, *[DEVICE] * 10, DEVICE, 2.0, 2.0, *[DEVICE] * 10], DEVICE)
    process = log.to_process()
    ends = find_edges(process).ends
    log.add_mark("observer", ends[12] / 1e6 + 1, ends[12] / 1e6 + 2, value=wire.OBSERVER_WINDOW)
    (training,) = trainings(recording(log))
    assert not unprofiled_steps(training.process, training.edges.ends)[12]
    assert left_out_numbers(log) == [0, 1, 13, 14]


def test_a_run_of_short_steps_alone_is_kept() -> None:
    assert left_out_numbers(log_of([2.0] * 12, DEVICE)) == []
