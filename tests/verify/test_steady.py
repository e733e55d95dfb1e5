"""Which steps of an arm count, in which blocks; what comes before, between and after them."""

import numpy as np
import pytest

from gapless import wire
from gapless.model.recording import Recording
from gapless.verify.steady import (
    Range,
    Stepped,
    blocks,
    measured,
    settling_ns,
    step_time,
    stepped,
    timed_on_device,
    warm_up,
)
from tests.study.recording import MS, Log, recording
from tests.verify.arms import stepping


def steps_of(found: Recording) -> Stepped:
    one = stepped(found)
    assert one is not None
    return one


def arm(*lengths: float) -> Stepped:
    return steps_of(stepping(lengths))


def fed(log: Log, batches: int = 1, **loader: object) -> Log:
    """Let each step of 10 ms take batches of a loader."""
    log.fact("loader", 0, ("train.py", 9), batch_size=4, **loader)
    log.mark("iter", 100, 110)
    for at in range(40):
        begun = 110 + at * 10
        for batch in range(batches):
            log.mark("next", begun + batch, begun + batch + (3 if at == 0 else 1))
        log.mark("step", begun + 8, begun + 10)
    log.end = 600
    return log


# ── Warm-up ─────────────────────────────────────────────────────────────────────────────────────


def test_ten_steps_are_left_out_where_all_are_alike() -> None:
    assert warm_up(np.full(100, 10 * MS)) == 10


def test_warm_up_lasts_until_three_medians_agree() -> None:
    lengths = np.concatenate((np.linspace(100, 20, 30), np.full(170, 20))) * MS
    assert warm_up(lengths.astype(np.int64)) == 30


def test_warm_up_takes_no_more_than_sixty_steps_or_a_third() -> None:
    rising = (np.arange(1, 1001) ** 2 * MS).astype(np.int64)
    assert warm_up(rising) == 60
    assert warm_up(rising[:90]) == 30
    assert warm_up(rising[:12]) == 4
    assert warm_up(rising[:3]) == 1


def test_single_long_steps_prolong_no_warm_up() -> None:
    lengths = np.full(100, 10 * MS)
    lengths[[12, 17, 23]] = 900 * MS
    assert warm_up(lengths) == 10


# ── The range, and its blocks ───────────────────────────────────────────────────────────────────


def test_the_same_steps_count_in_all_arms() -> None:
    long, short = arm(*[10] * 200), arm(*[5] * 150)
    chosen = measured([("A", long), ("B", short)])
    assert chosen == Range(10, 150, 10)
    assert chosen.steps == (12, 151)
    assert len(blocks(long, chosen)) == len(blocks(short, chosen)) == 14


def test_the_side_with_the_longest_warm_up_decides_and_no_single_arm_of_it() -> None:
    calm, compiled = arm(*[10] * 200), arm(*np.linspace(300, 10, 40), *[10] * 160)
    assert compiled.warm == 40
    sides = [("A", calm)] * 3
    assert measured([*sides, ("B", compiled), ("B", compiled), ("B", calm)]).first == 40
    assert measured([*sides, ("B", compiled), ("B", calm), ("B", calm)]).first == 10


def test_blocks_hold_whole_periods_of_what_recurs() -> None:
    log = Log()
    log.steps(*range(100, 2200, 10))
    for at in range(100, 2200, 250):
        log.mark("checkpoint", at + 1, at + 2)
    one = steps_of(recording(log, ended=2200))
    assert one.periods == (25,)
    assert measured([("A", one)]).block == 25


def test_short_periods_are_put_together_to_ten_steps() -> None:
    log = Log()
    log.steps(*range(100, 2200, 10))
    for at in range(100, 2200, 70):
        log.mark("logging", at + 1, at + 2)
        log.mark("mode", at + 3, value=0)
        log.mark("mode", at + 4, value=1)
    one = steps_of(recording(log, ended=2200))
    assert one.periods == (7, 7)
    assert measured([("A", one)]).block == 14


def test_periods_that_do_not_fit_count_for_nothing() -> None:
    log = Log()
    log.steps(*range(100, 500, 10))
    for at in (101, 481):
        log.mark("checkpoint", at, at + 1)
    one = steps_of(recording(log))
    assert one.periods == (38,)
    assert measured([("A", one)]).block == 10


def test_blocks_hold_whole_rounds_of_the_workers() -> None:
    found = recording(fed(Log(), num_workers=4, prefetch_factor=4), ended=600)
    assert steps_of(found).round == 16
    assert measured([("A", steps_of(found))]).block == 16
    several = recording(fed(Log(), 4, num_workers=4, prefetch_factor=4), ended=600)
    assert steps_of(several).round == 4
    assert steps_of(recording(fed(Log(), num_workers=3), ended=600)).round == 6


def test_very_few_steps_are_one_block() -> None:
    chosen = measured([("A", arm(10, 12, 14))])
    assert (chosen.first, chosen.last, chosen.block) == (1, 3, 2)


def test_four_blocks_have_a_median_and_fewer_a_mean() -> None:
    assert step_time(np.array([1.0, 1, 1, 101])) == 1
    assert step_time(np.array([1.0, 1, 100])) == 34


def test_nothing_that_stepped_once_is_measured() -> None:
    log = Log()
    log.steps(100)
    assert stepped(recording(log)) is None
    assert stepped(recording()) is None


def test_steps_that_were_summed_lie_in_equal_parts() -> None:
    log = Log()
    log.steps(100, 110)
    log.summed("step", (110, 210), 10)
    log.steps(220, 230)
    one = steps_of(recording(log))
    assert (one.lengths == 10 * MS).all()
    assert len(one.ends) == 14


# ── Beside the steps ────────────────────────────────────────────────────────────────────────────


def test_start_and_first_batch_are_told() -> None:
    one = steps_of(recording(fed(Log(), num_workers=0), ended=600))
    assert one.start_ns == 120 * MS
    assert one.first_batch_ns == 13 * MS  # with the iterator's start
    assert one.turn_ns is None
    assert one.exit_ns is None
    assert one.samples == 4
    assert one.epoch is None


def turning(persistent: bool) -> Recording:
    """Step for 10 ms; the 20th step has an epoch turn of 60 ms before it."""
    log = fed(Log(), num_workers=2, length=80)
    begun = 510
    log.mark("next", begun, begun + 2, flags=wire.EXHAUSTED)
    if not persistent:
        log.mark("close", begun + 2, begun + 22)
    log.mark("iter", begun + 22, begun + 32)
    log.mark("next", begun + 32, begun + 61)
    log.mark("step", begun + 68, begun + 70)
    for at in range(20):
        log.mark("next", 580 + at * 10, 581 + at * 10)
        log.mark("step", 588 + at * 10, 590 + at * 10)
    log.mark("close", 785, 850)
    log.end = 900
    return recording(log, ended=900)


def test_an_epoch_turn_is_told_and_no_part_of_the_steps() -> None:
    one = steps_of(turning(persistent=False))
    assert one.turn_ns == (2 + 20 + 10 + 28) * MS  # of the first batch what is unusual
    assert one.lengths[39] == 10 * MS
    assert (one.lengths == 10 * MS).all()
    assert one.epoch == 40
    assert steps_of(turning(persistent=True)).turn_ns == (2 + 10 + 28) * MS


def test_an_epoch_that_had_no_end_is_known_by_the_size_of_the_data() -> None:
    one = steps_of(recording(fed(Log(), num_workers=0, length=1001), ended=600))
    assert one.epoch == 251


def test_the_exit_is_from_the_last_step_to_the_end() -> None:
    assert steps_of(turning(persistent=False)).exit_ns == 120 * MS
    assert steps_of(recording(fed(Log(), num_workers=0), ended=600)).exit_ns is None
    log = fed(Log(), num_workers=2)
    log.mark("close", 515, 560)
    assert steps_of(recording(log, ended=600)).exit_ns == 90 * MS
    log.end = None
    assert steps_of(recording(log, ended=600)).exit_ns is None


def test_an_iterator_without_a_batch_is_a_turn_all_the_same() -> None:
    log = fed(Log(), num_workers=0)
    log.mark("iter", 515, 520)
    log.steps(530)
    assert steps_of(recording(log, ended=600)).turn_ns == 5 * MS


def test_a_loader_of_one_batch_has_no_usual_one() -> None:
    log = Log()
    log.fact("loader", 0, None)
    for at in (100, 200, 300):
        log.mark("iter", at, at + 10)
        log.mark("next", at + 10, at + 30)
        log.mark("step", at + 40, at + 50)
    one = steps_of(recording(log))
    assert one.turn_ns == 30 * MS
    assert one.samples is None


def test_samples_are_those_that_were_fetched() -> None:
    log = fed(Log(), num_workers=1)
    worker = Log(role="worker", pid=11, worker=0, loader=0, start=100)
    for at in range(3):
        worker.fetch(100 + at, 101 + at, samples=6)
    assert steps_of(recording(log, worker, ended=600)).samples == 6


def test_a_loader_that_only_evaluates_feeds_no_steps() -> None:
    log = fed(Log(), num_workers=4, prefetch_factor=2)
    log.fact("loader", 1, ("train.py", 30), num_workers=16)
    log.mark("iter", 511, 512, subject=1)
    for at in range(60):
        log.mark("next", 512 + at, 513 + at, subject=1)
    log.steps(580)
    assert steps_of(recording(log, ended=600)).round == 8


def test_processors_that_others_took_are_a_share_of_all_while_it_stepped() -> None:
    assert steps_of(stepping([10] * 20, foreign=0.25)).foreign == pytest.approx(0.25)
    assert steps_of(stepping([10] * 20)).foreign is None


def test_what_starting_took_beyond_its_steps_is_known() -> None:
    one = arm(*[30] * 10, *[10] * 90)
    chosen = measured([("A", one)])
    assert settling_ns(one, chosen, 10 * MS) == pytest.approx((500 - 10 + 10 * 20) * MS)


def test_steps_without_a_loader_are_rounds_of_one() -> None:
    one = arm(*[10] * 50)
    assert (one.round, one.samples, one.epoch, one.first_batch_ns) == (1, None, None, None)


def on_device(host: list[float], device: list[float], *, marked: int | None = None) -> Recording:
    """Steps whose device ends lie elsewhere than the host's, marked up to one of them."""
    log = Log(end=None)
    at, begun = 500.0, 0.0
    log.mark("step", at - 0.1, at)
    log.mark("device-edge", at, at, value=0)
    for number, (length, took) in enumerate(zip(host, device, strict=True)):
        at += length
        begun += took
        log.mark("step", at - 0.1, at)
        if marked is None or number < marked:
            log.mark("device-edge", at, at, value=round(begun * 1e6))
    log.end = at
    return recording(log, ended=at)


def test_a_host_that_runs_ahead_is_timed_by_its_device() -> None:
    steps = stepped(on_device([2.0] * 100, [45.0] * 100))
    assert steps is not None
    assert set(steps.lengths.tolist()) == {2_000_000}
    assert set(timed_on_device(steps).lengths.tolist()) == {45_000_000}


def test_a_device_still_at_work_when_the_process_ended_times_nothing() -> None:
    steps = stepped(on_device([2.0] * 100, [45.0] * 100, marked=60))
    assert steps is not None
    assert steps.device_lengths is None
    assert timed_on_device(steps) is steps


def test_the_last_unmarked_steps_go_on_as_the_others() -> None:
    steps = stepped(on_device([2.0] * 100, [45.0] * 100, marked=99))
    assert steps is not None
    assert timed_on_device(steps).lengths[-1] == 45_000_000
