"""Which steps of an arm count, in which blocks; what comes before, between and after them."""

import numpy as np
import pytest

from gapless import wire
from gapless.model.recording import Recording
from gapless.verify.arms.steady import (
    ArmSteps,
    SteadyRange,
    block_means,
    count_warm_up,
    find_steady_range,
    read_steps,
    settling_ns,
    step_time,
    use_device_times,
)
from tests.study.recording import MS, Log, recording
from tests.verify.arms import record_steps


def read_arm_steps(arm_recording: Recording) -> ArmSteps:
    steps = read_steps(arm_recording)
    assert steps is not None
    return steps


def arm_steps(*lengths: float) -> ArmSteps:
    return read_arm_steps(record_steps(lengths))


def add_loader_steps(log: Log, batches: int = 1, **loader: object) -> Log:
    """Let each step of 10 ms take batches of a loader."""
    log.add_fact("loader", 0, ("train.py", 9), batch_size=4, **loader)
    log.add_mark("iter", 100, 110)
    for index in range(40):
        start_ms = 110 + index * 10
        for batch in range(batches):
            log.add_mark("next", start_ms + batch, start_ms + batch + (3 if index == 0 else 1))
        log.add_mark("step", start_ms + 8, start_ms + 10)
    log.end = 600
    return log


# ── Warm-up ─────────────────────────────────────────────────────────────────────────────────────


def test_ten_steps_are_left_out_where_all_are_alike() -> None:
    assert count_warm_up(np.full(100, 10 * MS)) == 10


def test_warm_up_lasts_until_three_medians_agree() -> None:
    lengths = np.concatenate((np.linspace(100, 20, 30), np.full(170, 20))) * MS
    assert count_warm_up(lengths.astype(np.int64)) == 30


def test_warm_up_takes_no_more_than_sixty_steps_or_a_third() -> None:
    rising_lengths = (np.arange(1, 1001) ** 2 * MS).astype(np.int64)
    assert count_warm_up(rising_lengths) == 60
    assert count_warm_up(rising_lengths[:90]) == 30
    assert count_warm_up(rising_lengths[:12]) == 4
    assert count_warm_up(rising_lengths[:3]) == 1


def test_single_long_steps_prolong_no_warm_up() -> None:
    lengths = np.full(100, 10 * MS)
    lengths[[12, 17, 23]] = 900 * MS
    assert count_warm_up(lengths) == 10


# ── The range, and its blocks ───────────────────────────────────────────────────────────────────


def test_the_same_steps_count_in_all_arms() -> None:
    long_arm, short_arm = arm_steps(*[10] * 200), arm_steps(*[5] * 150)
    steady_range = find_steady_range([("A", long_arm), ("B", short_arm)])
    assert steady_range == SteadyRange(10, 150, 10)
    assert steady_range.steps == (12, 151)
    assert (
        len(block_means(long_arm, steady_range)) == len(block_means(short_arm, steady_range)) == 14
    )


def test_the_side_with_the_longest_warm_up_decides_and_no_single_arm_of_it() -> None:
    calm_arm, compiled_arm = (
        arm_steps(*[10] * 200),
        arm_steps(*np.linspace(300, 10, 40), *[10] * 160),
    )
    assert compiled_arm.n_warm_up == 40
    sides = [("A", calm_arm)] * 3
    assert (
        find_steady_range([*sides, ("B", compiled_arm), ("B", compiled_arm), ("B", calm_arm)]).start
        == 40
    )
    assert (
        find_steady_range([*sides, ("B", compiled_arm), ("B", calm_arm), ("B", calm_arm)]).start
        == 10
    )


def test_blocks_hold_whole_periods_of_what_recurs() -> None:
    log = Log()
    log.add_steps(*range(100, 2200, 10))
    for time_ms in range(100, 2200, 250):
        log.add_mark("checkpoint", time_ms + 1, time_ms + 2)
    steps = read_arm_steps(recording(log, ended_ms=2200))
    assert steps.periods == (25,)
    assert find_steady_range([("A", steps)]).block_steps == 25


def test_short_periods_are_put_together_to_ten_steps() -> None:
    log = Log()
    log.add_steps(*range(100, 2200, 10))
    for time_ms in range(100, 2200, 70):
        log.add_mark("logging", time_ms + 1, time_ms + 2)
        log.add_mark("mode", time_ms + 3, value=0)
        log.add_mark("mode", time_ms + 4, value=1)
    steps = read_arm_steps(recording(log, ended_ms=2200))
    assert steps.periods == (7, 7)
    assert find_steady_range([("A", steps)]).block_steps == 14


def test_periods_that_do_not_fit_count_for_nothing() -> None:
    log = Log()
    log.add_steps(*range(100, 500, 10))
    for time_ms in (101, 481):
        log.add_mark("checkpoint", time_ms, time_ms + 1)
    steps = read_arm_steps(recording(log))
    assert steps.periods == (38,)
    assert find_steady_range([("A", steps)]).block_steps == 10


def test_blocks_hold_whole_rounds_of_the_workers() -> None:
    one_a_step = recording(add_loader_steps(Log(), num_workers=4, prefetch_factor=4), ended_ms=600)
    assert read_arm_steps(one_a_step).round_steps == 16
    assert find_steady_range([("A", read_arm_steps(one_a_step))]).block_steps == 16
    four_a_step = recording(
        add_loader_steps(Log(), 4, num_workers=4, prefetch_factor=4), ended_ms=600
    )
    assert read_arm_steps(four_a_step).round_steps == 4
    assert (
        read_arm_steps(recording(add_loader_steps(Log(), num_workers=3), ended_ms=600)).round_steps
        == 6
    )


def test_very_few_steps_are_one_block() -> None:
    steady_range = find_steady_range([("A", arm_steps(10, 12, 14))])
    assert (steady_range.start, steady_range.stop, steady_range.block_steps) == (1, 3, 2)


def test_four_blocks_have_a_median_and_fewer_a_mean() -> None:
    assert step_time(np.array([1.0, 1, 1, 101])) == 1
    assert step_time(np.array([1.0, 1, 100])) == 34


def test_nothing_that_stepped_once_is_measured() -> None:
    log = Log()
    log.add_steps(100)
    assert read_steps(recording(log)) is None
    assert read_steps(recording()) is None


def test_steps_that_were_summed_lie_in_equal_parts() -> None:
    log = Log()
    log.add_steps(100, 110)
    log.add_mark_sum("step", (110, 210), 10)
    log.add_steps(220, 230)
    steps = read_arm_steps(recording(log))
    assert (steps.lengths == 10 * MS).all()
    assert len(steps.ends) == 14


# ── Beside the steps ────────────────────────────────────────────────────────────────────────────


def test_start_and_first_batch_are_told() -> None:
    steps = read_arm_steps(recording(add_loader_steps(Log(), num_workers=0), ended_ms=600))
    assert steps.start_ns == 120 * MS
    assert steps.first_batch_ns == 13 * MS  # with the iterator's start
    assert steps.turn_ns is None
    assert steps.exit_ns is None
    assert steps.samples == 4
    assert steps.epoch is None


def record_turn(persistent: bool) -> Recording:
    """Step for 10 ms; the 20th step has an epoch turn of 60 ms before it."""
    log = add_loader_steps(Log(), num_workers=2, length=80)
    turn_ms = 510
    log.add_mark("next", turn_ms, turn_ms + 2, flags=wire.EXHAUSTED)
    if not persistent:
        log.add_mark("close", turn_ms + 2, turn_ms + 22)
    log.add_mark("iter", turn_ms + 22, turn_ms + 32)
    log.add_mark("next", turn_ms + 32, turn_ms + 61)
    log.add_mark("step", turn_ms + 68, turn_ms + 70)
    for index in range(20):
        log.add_mark("next", 580 + index * 10, 581 + index * 10)
        log.add_mark("step", 588 + index * 10, 590 + index * 10)
    log.add_mark("close", 785, 850)
    log.end = 900
    return recording(log, ended_ms=900)


def test_an_epoch_turn_is_told_and_no_part_of_the_steps() -> None:
    steps = read_arm_steps(record_turn(persistent=False))
    assert steps.turn_ns == (2 + 20 + 10 + 28) * MS  # of the first batch what is unusual
    assert steps.lengths[39] == 10 * MS
    assert (steps.lengths == 10 * MS).all()
    assert steps.epoch == 40
    assert read_arm_steps(record_turn(persistent=True)).turn_ns == (2 + 10 + 28) * MS


def test_an_epoch_that_had_no_end_is_known_by_the_size_of_the_data() -> None:
    steps = read_arm_steps(
        recording(add_loader_steps(Log(), num_workers=0, length=1001), ended_ms=600)
    )
    assert steps.epoch == 251


def test_the_exit_is_from_the_last_step_to_the_end() -> None:
    assert read_arm_steps(record_turn(persistent=False)).exit_ns == 120 * MS
    assert (
        read_arm_steps(recording(add_loader_steps(Log(), num_workers=0), ended_ms=600)).exit_ns
        is None
    )
    log = add_loader_steps(Log(), num_workers=2)
    log.add_mark("close", 515, 560)
    assert read_arm_steps(recording(log, ended_ms=600)).exit_ns == 90 * MS
    log.end = None
    assert read_arm_steps(recording(log, ended_ms=600)).exit_ns is None


def test_an_iterator_without_a_batch_is_a_turn_all_the_same() -> None:
    log = add_loader_steps(Log(), num_workers=0)
    log.add_mark("iter", 515, 520)
    log.add_steps(530)
    assert read_arm_steps(recording(log, ended_ms=600)).turn_ns == 5 * MS


def test_a_loader_of_one_batch_has_no_usual_one() -> None:
    log = Log()
    log.add_fact("loader", 0, None)
    for time_ms in (100, 200, 300):
        log.add_mark("iter", time_ms, time_ms + 10)
        log.add_mark("next", time_ms + 10, time_ms + 30)
        log.add_mark("step", time_ms + 40, time_ms + 50)
    steps = read_arm_steps(recording(log))
    assert steps.turn_ns == 30 * MS
    assert steps.samples is None


def test_samples_are_those_that_were_fetched() -> None:
    log = add_loader_steps(Log(), num_workers=1)
    worker = Log(role="worker", pid=11, worker=0, loader=0, start=100)
    for index in range(3):
        worker.add_fetch(100 + index, 101 + index, samples=6)
    assert read_arm_steps(recording(log, worker, ended_ms=600)).samples == 6


def test_a_loader_that_only_evaluates_feeds_no_steps() -> None:
    log = add_loader_steps(Log(), num_workers=4, prefetch_factor=2)
    log.add_fact("loader", 1, ("train.py", 30), num_workers=16)
    log.add_mark("iter", 511, 512, subject=1)
    for index in range(60):
        log.add_mark("next", 512 + index, 513 + index, subject=1)
    log.add_steps(580)
    assert read_arm_steps(recording(log, ended_ms=600)).round_steps == 8


def test_processors_that_others_took_are_a_share_of_all_while_it_stepped() -> None:
    assert read_arm_steps(record_steps([10] * 20, foreign=0.25)).foreign == pytest.approx(0.25)
    assert read_arm_steps(record_steps([10] * 20)).foreign is None


def test_what_starting_took_beyond_its_steps_is_known() -> None:
    steps = arm_steps(*[30] * 10, *[10] * 90)
    steady_range = find_steady_range([("A", steps)])
    assert settling_ns(steps, steady_range, 10 * MS) == pytest.approx((500 - 10 + 10 * 20) * MS)


def test_steps_without_a_loader_are_rounds_of_one() -> None:
    steps = arm_steps(*[10] * 50)
    assert (steps.round_steps, steps.samples, steps.epoch, steps.first_batch_ns) == (
        1,
        None,
        None,
        None,
    )


def record_device(
    host_ms: list[float], device_ms: list[float], *, n_marked: int | None = None
) -> Recording:
    """Steps whose device ends lie elsewhere than the host's, marked up to one of them."""
    log = Log(end=None)
    now_ms, device_now_ms = 500.0, 0.0
    log.add_mark("step", now_ms - 0.1, now_ms)
    log.add_mark("device-edge", now_ms, now_ms, value=0)
    for number, (length, device_length) in enumerate(zip(host_ms, device_ms, strict=True)):
        now_ms += length
        device_now_ms += device_length
        log.add_mark("step", now_ms - 0.1, now_ms)
        if n_marked is None or number < n_marked:
            log.add_mark("device-edge", now_ms, now_ms, value=round(device_now_ms * 1e6))
    log.end = now_ms
    return recording(log, ended_ms=now_ms)


def test_a_host_that_runs_ahead_is_timed_by_its_device() -> None:
    steps = read_steps(record_device([2.0] * 100, [45.0] * 100))
    assert steps is not None
    assert set(steps.lengths.tolist()) == {2_000_000}
    assert set(use_device_times(steps).lengths.tolist()) == {45_000_000}


def test_a_device_still_at_work_when_the_process_ended_times_nothing() -> None:
    steps = read_steps(record_device([2.0] * 100, [45.0] * 100, n_marked=60))
    assert steps is not None
    assert steps.device_lengths is None
    assert use_device_times(steps) is steps


def test_the_last_unmarked_steps_go_on_as_the_others() -> None:
    steps = read_steps(record_device([2.0] * 100, [45.0] * 100, n_marked=99))
    assert steps is not None
    assert use_device_times(steps).lengths[-1] == 45_000_000
