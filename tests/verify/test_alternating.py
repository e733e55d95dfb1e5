"""Arms that step in turns: how their steps are cut, what of a pair counts, whether both fit."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless import wire
from gapless.model.recording import Samples
from gapless.verify.arms import room
from gapless.verify.arms.alternating import plan_turns, slice_means
from gapless.verify.arms.steady import ArmSteps, read_steps
from gapless.verify.specs import TurnPlan
from tests.study.recording import Log, recording

MS = 1_000_000


def make_steps(count: int, step_ms: float = 5.0, **changes: object) -> ArmSteps:
    lengths = np.full(count, round(step_ms * MS), np.int64)
    steps = ArmSteps(
        lengths=lengths,
        ends=np.cumsum(np.concatenate(([0], lengths))),
        n_warm_up=10,
        round_steps=1,
        periods=(),
        samples=None,
        epoch=None,
        start_ns=0,
        first_batch_ns=None,
        turn_ns=None,
        turns_ns=np.zeros(count, np.int64),
        exit_ns=None,
        foreign=None,
    )
    return replace(steps, **changes)  # type: ignore[arg-type]


def test_slices_are_short_even_in_number_and_within_the_arm() -> None:
    turns = plan_turns(make_steps(811))
    assert turns is not None
    assert (turns.start, turns.slices, turns.slice_steps, turns.settling) == (11, 28, 27, 3)
    assert turns.stop_step <= 812


def test_slices_hold_whole_rounds_and_periods_where_these_fit() -> None:
    turns = plan_turns(make_steps(811, periods=(20, 500)))
    assert turns is not None
    assert (turns.slice_steps, turns.settling) == (22, 2)


def test_a_slice_grows_to_hold_a_period_of_which_four_fit() -> None:
    turns = plan_turns(make_steps(811, periods=(150,)))
    assert turns is not None
    assert (turns.slices, turns.slice_steps - turns.settling) == (4, 150)


def test_what_counts_of_each_slice_is_whole_rounds_of_the_workers() -> None:
    times = np.where(np.arange(811) % 16 == 0, 100, 1) * MS  # a round of batches comes at once
    for phase in range(16):
        turns = plan_turns(make_steps(811, round_steps=16), grains=(8,))
        assert turns is not None
        means = slice_means(np.roll(times, phase), turns)
        assert means is not None
        assert means.tolist() == pytest.approx([float(times[:16].mean())] * turns.slices)


def test_few_long_steps_are_not_cut() -> None:
    assert plan_turns(make_steps(45, 100.0)) is None
    turns = plan_turns(make_steps(55, 100.0))
    assert turns is not None
    assert (turns.slices, turns.slice_steps) == (4, 10)


def test_steps_after_a_pause_do_not_count() -> None:
    lengths = np.array([9, 9, 9, 50, 1, 1, 1, 70, 2, 2, 2], np.int64)
    means = slice_means(lengths, TurnPlan(start=4, slice_steps=4, slices=2, settling=1))
    assert means is not None
    assert means.tolist() == [1.0, 2.0]
    assert slice_means(lengths, TurnPlan(start=4, slice_steps=4, slices=4, settling=1)) is None


def test_what_another_arm_took_is_not_in_the_steps() -> None:
    log = Log(end=None)
    now = 0.0
    for number in range(20):
        now += 10.0
        log.add_mark("step", now - 1.0, now)
        if number == 12:
            log.add_mark("observer", now, now + 500.0, value=wire.OBSERVER_TURN)
            now += 500.0
    steps = read_steps(recording(log))
    assert steps is not None
    assert steps.lengths.tolist() == [10 * MS] * 19


GIB = 2.0**30


def test_two_arms_need_the_memory_of_two() -> None:
    taken = {"process.7.rss": (GIB, 4 * GIB), "process.8.rss": (GIB,)}
    free = {"memory.available": (20 * GIB, 15 * GIB)}
    assert room.explain_lack(make_samples(taken | free)) is None
    tight = {"memory.available": (20 * GIB, 5 * GIB)}
    assert "5.0 GiB" in str(room.explain_lack(make_samples(taken | tight)))
    group = {"memory.group_used": (6 * GIB,), "memory.group_limit": (8 * GIB,)}
    assert room.explain_lack(make_samples(taken | free | group)) is not None


def test_two_arms_need_the_devices_memory_of_two() -> None:
    host = {"process.7.rss": (GIB,), "memory.available": (20 * GIB,)}
    total = {"gpu0.memory_total": (80 * GIB,)}
    small = {"gpu0.memory_used": (10 * GIB, 40 * GIB)}
    large = {"gpu0.memory_used": (10 * GIB, 50 * GIB)}
    assert room.explain_lack(make_samples(host | total | small)) is None
    assert "GPU" in str(room.explain_lack(make_samples(host | total | large)))


def test_where_nothing_was_sampled_arms_run_apart() -> None:
    assert room.explain_lack(make_samples({})) is not None


def make_samples(series: dict[str, tuple[float, ...]]) -> Samples:
    columns = {name: (np.arange(len(v)), v) for name, v in series.items()}
    return Samples(columns, ())
