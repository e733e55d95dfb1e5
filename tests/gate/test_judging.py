"""Judging of arms: what is slower, what could have been seen, what grew, and at which line."""

import math
import random
from collections.abc import Sequence

from msgspec.structs import replace

from gapless.gate.figures import (
    BASE,
    NEW,
    ArmFigures,
    LineShare,
    figures_from_json,
    figures_to_json,
)
from gapless.gate.judging import combine, find_growths, judge_against_sessions, judge_pairs
from gapless.gate.lines import find_grown_line

STEP_NS = 10e6


def make_arm(side: str, turn: int, factor: float, dice: random.Random, noise: float) -> ArmFigures:
    run = math.exp(dice.gauss(0, noise))
    blocks = tuple(STEP_NS * factor * run * math.exp(dice.gauss(0, noise)) for _ in range(12))
    return ArmFigures(
        side, turn, blocks, {"step": STEP_NS * factor}, {}, windowed=False, memory=None
    )


def make_set(slowdown: float, seed: int, noise: float = 0.004) -> list[ArmFigures]:
    dice = random.Random(seed)
    return [
        make_arm(side, turn, 1 + slowdown * (side == NEW), dice, noise)
        for turn in range(5)
        for side in (BASE, NEW)
    ]


def test_equal_sides_are_no_regression() -> None:
    effects = [judge_pairs(make_set(0.0, seed)) for seed in range(60)]
    assert not any(effect is None or effect.is_slower for effect in effects)


def test_what_is_as_large_as_the_smallest_visible_effect_is_proven() -> None:
    effects = [judge_pairs(make_set(0.05, seed)) for seed in range(60)]
    visible = [effect for effect in effects if effect is not None and effect.visible <= 0.05]
    assert len(visible) > 40
    assert all(effect.is_slower for effect in visible)
    assert all(effect.low < 0.05 < effect.high for effect in visible[:5])


def make_alternating(slowdown: float, seed: int, noise: float = 0.004) -> list[ArmFigures]:
    """Make pairs on a machine that changes by half in seconds, slower for both sides alike."""
    dice = random.Random(seed)
    arms: list[ArmFigures] = []
    for turn in range(5):
        weather = [math.exp(dice.uniform(0, 0.5)) for _ in range(12)]
        for side in (BASE, NEW):
            run = STEP_NS * (1 + slowdown * (side == NEW)) * math.exp(dice.gauss(0, noise))
            blocks = tuple(run * state * math.exp(dice.gauss(0, noise)) for state in weather)
            arm = ArmFigures(side, turn, blocks, {}, {}, windowed=False, memory=None)
            arms.append(replace(arm, alternates=True))
    return arms


def test_slices_in_turns_see_through_a_machine_that_changes() -> None:
    effects = [judge_pairs(make_alternating(0.05, seed)) for seed in range(60)]
    visible = [effect for effect in effects if effect is not None and effect.visible <= 0.05]
    assert len(visible) > 50
    assert sum(effect.is_slower for effect in visible) >= len(visible) - 2
    apart = [replace(arm, alternates=False) for arm in make_alternating(0.05, 0)]
    coarse = judge_pairs(apart)
    assert coarse is not None
    assert coarse.visible > 0.1


def test_a_pair_that_was_disturbed_as_a_whole_is_left_out() -> None:
    arms = make_alternating(0.0, 1)
    dice = random.Random(5)
    disturbed = [
        replace(arm, blocks=tuple(ns * math.exp(dice.gauss(0.3, 0.5)) for ns in arm.blocks))
        if (arm.turn, arm.side) == (2, NEW)
        else arm
        for arm in arms
    ]
    calm, effect = judge_pairs([arm for arm in arms if arm.turn != 2]), judge_pairs(disturbed)
    assert effect == calm


def test_equal_sides_in_turns_are_no_regression() -> None:
    effects = [judge_pairs(make_alternating(0.0, seed, 0.01)) for seed in range(60)]
    assert not any(effect is None or effect.is_slower for effect in effects)


def test_a_speed_up_is_no_regression() -> None:
    effect = judge_pairs(make_set(-0.2, 1))
    assert effect is not None
    assert effect.high < 0
    assert not effect.is_slower


def test_one_pair_proves_nothing() -> None:
    assert judge_pairs(make_set(0.5, 1)[:2]) is None


def test_two_sets_are_as_coarse_as_the_coarser() -> None:
    fine, coarse = judge_pairs(make_set(0.1, 1)), judge_pairs(make_set(0.1, 2, 0.02))
    assert fine is not None
    assert coarse is not None
    assert combine(fine, coarse, None).visible == coarse.visible > fine.visible


def draw_times(count: int, factor: float, dice: random.Random, noise: float) -> Sequence[float]:
    return [STEP_NS * factor * math.exp(dice.gauss(0, noise)) for _ in range(count)]


def test_the_days_of_a_machine_are_no_regression() -> None:
    dice = random.Random(3)
    reds = 0
    for _ in range(200):
        days = [math.exp(dice.gauss(0, 0.01)) for _ in range(5)]
        sessions = [draw_times(5, day, dice, 0.004) for day in days[:4]]
        effect = judge_against_sessions(sessions, draw_times(5, days[4], dice, 0.004))
        reds += effect is None or effect.is_slower
    assert reds <= 2


def test_a_single_session_sees_less_than_three() -> None:
    dice = random.Random(4)
    sessions = [draw_times(5, 1.0, dice, 0.002) for _ in range(4)]
    new = draw_times(5, 1.2, dice, 0.002)
    few, many = judge_against_sessions(sessions[:1], new), judge_against_sessions(sessions, new)
    assert few is not None
    assert many is not None
    assert few.is_slower
    assert few.visible > many.visible


def test_a_baseline_without_spread_judges_nothing() -> None:
    assert judge_against_sessions([], [STEP_NS, STEP_NS]) is None
    assert judge_against_sessions([[STEP_NS]], [STEP_NS]) is None


def with_account(side: str, leaves: dict[str, float], *, windowed: bool) -> ArmFigures:
    return ArmFigures(side, 0, (STEP_NS,), leaves, {}, windowed=windowed, memory=None)


def test_windows_split_what_grew_in_the_step_itself() -> None:
    arms = [
        with_account(BASE, {"step": 8e6, "idle.data.decode": 2e6}, windowed=False),
        with_account(NEW, {"step": 9e6, "idle.data.decode": 2.1e6}, windowed=False),
    ]
    assert find_growths(arms)[0].leaf == "step"
    arms += [
        with_account(BASE, {"busy.math": 5e6, "busy.optimizer": 3e6}, windowed=True),
        with_account(
            NEW, {"busy.math": 5e6, "busy.optimizer": 4e6, "idle.data.decode": 9e6}, windowed=True
        ),
    ]
    growths = find_growths(arms)
    assert [growth.leaf for growth in growths] == [
        "busy.optimizer",
        "idle.data.decode",
        "busy.math",
    ]
    assert growths[0].delta_ns == 1e6
    assert growths[1].delta_ns == 0.1e6  # what is noted without a window comes from more arms


def test_what_recording_takes_is_no_growth() -> None:
    arms = [
        with_account(BASE, {"idle.profiler": 1e6, "busy.math": 1e6}, windowed=True),
        with_account(NEW, {"idle.profiler": 5e6, "busy.math": 2e6}, windowed=True),
        with_account(BASE, {"step": 2e6, "observer": 1e6}, windowed=False),
        with_account(NEW, {"step": 3e6, "observer": 9e6}, windowed=False),
    ]
    assert [growth.leaf for growth in find_growths(arms)] == ["busy.math"]


def line(number: int, text: str, share: float, *, loads: bool = False) -> LineShare:
    return LineShare("train.py", number, "main", text, loads, share, 200)


def lined(side: str, *lines: LineShare) -> ArmFigures:
    return ArmFigures(side, 0, (STEP_NS,), {}, {}, windowed=False, memory=None, lines=lines)


def test_a_new_line_stands_out_although_others_moved() -> None:
    arms = [
        lined(BASE, line(20, "loss.backward()", 0.7), line(22, "optimizer.step()", 0.3)),
        lined(
            NEW,
            line(21, "loss.backward()", 0.66),
            line(23, "optimizer.step()", 0.26),
            line(20, "check(x)", 0.08),
        ),
    ]
    grown = find_grown_line(arms, loads=False, growth_ns=0.08 * STEP_NS)
    assert grown is not None
    assert (grown.line, grown.text, grown.is_new) == (20, "check(x)", True)
    assert find_grown_line(arms, loads=True, growth_ns=0.08 * STEP_NS) is None


def test_looks_that_differ_by_chance_name_no_line() -> None:
    arms = [lined(BASE, line(20, "step()", 0.50)), lined(NEW, line(20, "step()", 0.53))]
    assert find_grown_line(arms, loads=False, growth_ns=0.05 * STEP_NS) is None


def test_an_arm_survives_json() -> None:
    arm = lined(NEW, line(20, "loss.backward()", 0.7))
    assert figures_from_json(figures_to_json(arm)) == arm
