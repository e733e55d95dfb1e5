"""Steps that are longer behind the first window than before it are told."""

from itertools import accumulate, pairwise

import pytest

from gapless import wire
from gapless.model.recording import Window
from gapless.model.run import ProfilerSlowdown
from gapless.recorded.steps.step_times import run_steps
from gapless.recorded.training.processes import trainings
from tests.study.recording import Log, recording


def log_of(before: list[float], behind: list[float], *, device: bool = True) -> Log:
    """Return a log of steps that long, in ms, before and behind a window of 50 ms."""
    ends = [*accumulate(before, initial=100.0)]
    window_start = ends[-1]
    ends += [*accumulate(behind, initial=window_start + 50)]
    log = Log(start=0, end=ends[-1] + 100)
    log.add_steps(*ends)
    log.add_mark("observer", window_start + 1, window_start + 49, value=wire.OBSERVER_WINDOW)
    if device:
        for start, end in pairwise(ends):
            log.add_mark("device-step", start, end, value=round((end - start) * 1e6))
    return log


def slowdown_of(log: Log) -> ProfilerSlowdown | None:
    steps = run_steps(trainings(recording(log)), [])
    assert steps is not None
    return steps.slowdown


def test_steps_behind_a_window_are_compared_with_those_before_it() -> None:
    assert slowdown_of(log_of([90.0] + [60.0] * 8, [80.0] * 20)) == ProfilerSlowdown(
        8, 60_000_000, 80_000_000
    )


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ([90.0] + [60.0] * 8, [62.0] * 20),  # less than a twentieth
        ([90.0] + [60.0, 90.0] * 4, [80.0] * 20),  # they vary as much by themselves
        ([90.0] + [60.0] * 3, [80.0] * 20),  # too few
        ([90.0] + [80.0] * 8, [60.0] * 20),  # quicker
    ],
)
def test_nothing_is_said_that_may_be_chance(before: list[float], behind: list[float]) -> None:
    assert slowdown_of(log_of(before, behind)) is None


def test_nothing_is_left_behind_without_a_device() -> None:
    assert slowdown_of(log_of([90.0] + [60.0] * 8, [80.0] * 20, device=False)) is None


@pytest.mark.parametrize("detached", [False, True])
def test_nothing_is_left_behind_by_a_profiler_that_was_detached(*, detached: bool) -> None:
    log = log_of([90.0] + [60.0] * 8, [80.0] * 20)
    log.windows.append(Window(1, None, 0, 1, 1, 2, False, 1, 1, None, detached=detached))  # noqa: FBT003
    assert (slowdown_of(log) is None) == detached


def test_waits_for_data_are_no_part_of_it() -> None:
    before, behind = [90.0] + [60.0] * 8, [80.0] * 20
    log = log_of(before, behind)
    for end in {mark[5] / 1e6 for mark in log.marks if mark[0] == wire.STEP}:
        if end > 100 + sum(before) + 60:  # the queue is empty by then
            log.add_mark("next", end - 25, end - 3)
    assert slowdown_of(log) is None
