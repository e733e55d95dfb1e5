"""The loop of a trial, on arms that are never run: order, budget, failures, disturbance, ends."""

import math

import pytest
from msgspec.structs import replace

from gapless.errors import GaplessError, UsageError
from gapless.model.edit import Applicability, Skip
from gapless.model.estimate import Estimate
from gapless.model.recording import ArmObservation, BatchIndices
from gapless.model.trial import Parity, Trial, TrialVerdict
from gapless.verify import lengths
from gapless.verify.arms.results import ArmResult, arm_noise, make_scoreboard
from gapless.verify.arms.steady import read_steps
from gapless.verify.budget import check_budget, format_time
from gapless.verify.plan import conduct
from gapless.verify.specs import ArmRun, ArmSpec, Candidate, Job, TrialSettings
from tests.study.recording import Log, recording
from tests.verify.arms import Machine, candidate, record_steps


def conduct_trial(
    machine: Machine,
    *candidates: Candidate,
    messages: list[str] | None = None,
    job: Job | None = None,
    **changes: object,
) -> Trial:
    settings = TrialSettings("t1", ("python", "train.py"), job=job, clock=machine.clock)
    settings = replace(settings, **changes)  # pyright: ignore[reportArgumentType]
    progress = [] if messages is None else messages
    return conduct(candidates or (candidate(),), settings, machine.run, progress.append)


def jitter(spec: ArmSpec) -> float:
    """Let arms differ by two per cent in an order of their own."""
    return 1 + (spec.index * 7 % 5 - 2) * 0.01


def wide_jitter(spec: ArmSpec) -> float:
    return 1 + (spec.index * 7 % 5 - 2) * 0.025


# ── The ordinary course ─────────────────────────────────────────────────────────────────────────


def test_three_pairs_decide_a_clear_effect() -> None:
    machine = Machine({"A": 20, "B": 10})
    trial = conduct_trial(machine)
    (side,) = trial.sides
    assert machine.sides == "A" + "ABBABA" + "AB"  # the first, three pairs, windows
    assert trial.order == "ABBABA"
    assert side.verdict is TrialVerdict.CONFIRMED
    assert side.speedup is not None
    assert side.speedup.mid == pytest.approx(2.0)
    assert (trial.step_ns, side.step_ns) == (20_000_000, 10_000_000)
    assert trial.noise == pytest.approx(0, abs=1e-9)
    assert [arm.failed for arm in trial.arms[::7]] == ["discarded: the first", "window"]
    assert [spec.takes_window for spec in machine.specs] == [False] * 7 + [True] * 2


def test_edits_are_laid_over_their_own_side_alone() -> None:
    machine, tried_candidate = Machine({"A": 20, "B": 10}), candidate()
    conduct_trial(machine, tried_candidate)
    assert {spec.edits for spec in machine.specs if spec.side == "A"} == {()}
    assert {spec.edits for spec in machine.specs if spec.side == "B"} == {tried_candidate.edits}


def test_all_arms_are_measured_over_the_same_steps() -> None:
    machine = Machine({"A": 20, "B": 10})
    trial = conduct_trial(machine)
    counted_arms = [arm for arm in trial.arms if arm.failed is None]
    assert trial.measured is not None
    first_step, last_step = trial.measured
    assert {arm.steps for arm in counted_arms} == {last_step - first_step + 1}
    assert last_step <= min(spec.stop_step for spec in machine.specs[1:7])
    assert (last_step - first_step + 1) * 20 >= 4000  # ms: at least four seconds of the slower


def test_nothing_is_said_of_equal_sides() -> None:
    (side,) = conduct_trial(Machine({"A": 20, "B": 20})).sides
    assert side.verdict is TrialVerdict.NOTHING


def test_noise_prolongs_a_trial_until_the_budget_is_spent() -> None:
    machine = Machine({"A": 20, "B": 19.5}, slowdown=wide_jitter)
    messages = list[str]()
    trial = conduct_trial(machine, messages=messages)
    assert machine.sides[1:9] == "ABBABAAB"
    assert len(machine.specs) > 15
    assert trial.spent_s <= 240
    assert trial.spent_s > 200
    assert trial.sides[0].verdict is TrialVerdict.UNDECIDED
    assert messages[-1].startswith(f"arm {len(machine.specs)} · at most ")
    assert messages[-1].endswith(" left · window, B, num_workers 0 → 4")


def wild_jitter(spec: ArmSpec) -> float:
    return 1 + (spec.index * 7 % 5 - 2) * 0.25


def test_noise_that_hides_any_likely_gain_ends_a_trial() -> None:
    machine = Machine({"A": 20, "B": 19.5}, slowdown=wild_jitter)
    trial = conduct_trial(machine, windows=False)
    assert trial.spent_s < 200
    assert trial.sides[0].verdict is TrialVerdict.UNDECIDED
    ending = f"no more arms of B after {len(trial.order)}: arms of the same command differ"
    assert trial.notes[-1].startswith(ending)


# ── Pairs in turns ──────────────────────────────────────────────────────────────────────────────


def test_arms_in_turns_show_what_a_machine_that_changes_hides() -> None:
    machines = [Machine({"A": 20, "B": 18}, slowdown=wild_jitter) for _ in range(2)]
    apart = conduct_trial(machines[0], windows=False)
    in_turns = conduct_trial(machines[1], windows=False, run_pair=machines[1].run_pair)
    assert apart.sides[0].verdict is TrialVerdict.UNDECIDED
    assert in_turns.order == "ABBABA"
    side = in_turns.sides[0]
    assert side.verdict is TrialVerdict.CONFIRMED
    assert side.speedup is not None
    assert side.speedup.mid == pytest.approx(20 / 18)
    assert in_turns.notes == ("the arms of each pair ran at the same time, and stepped in turns",)
    specs = machines[1].specs[1:]
    assert [spec.has_first_turn for spec in specs] == [True, False] * 3
    assert {spec.stop_step for spec in specs} == {specs[0].turns and specs[0].turns.stop_step}


def test_starts_that_differ_are_the_noise_of_arms_in_turns() -> None:
    machine = Machine({"A": 20, "B": 19.9})

    def run_pair(*specs: ArmSpec) -> tuple[ArmRun, ArmRun]:
        machine.step_ms["B"] = 19.9 * (1 + 0.05 * (-1) ** (specs[0].index // 2))
        return machine.run_pair(*specs)

    trial = conduct_trial(machine, windows=False, run_pair=run_pair)
    assert trial.sides[0].verdict is TrialVerdict.NOTHING  # within 5 %, after many
    assert trial.noise == pytest.approx(0.05 / math.sqrt(len(trial.order) / 2), rel=0.1)
    assert len(trial.order) > 12


def test_what_others_take_is_not_told_of_arms_in_turns() -> None:
    machine = Machine({"A": 20, "B": 10}, foreign=lambda _: 0.5)
    trial = conduct_trial(machine, windows=False, job=Job(1000, 0), run_pair=machine.run_pair)
    assert {arm.foreign for arm in trial.arms[1:]} == {None}  # it is the other arm
    assert trial.sides[0].job is None  # both started at once


def test_a_pair_that_fails_later_costs_no_other() -> None:
    machine = Machine({"A": 20, "B": 19}, slowdown=wild_jitter)
    machine.failure = lambda spec: "boom" if spec.index in {3, 4} and spec.side == "A" else None
    trial = conduct_trial(machine, windows=False, run_pair=machine.run_pair)
    assert {spec.turns is None for spec in machine.specs[1:]} == {False}
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED
    assert [arm.failed for arm in trial.arms[3:5]].count("boom") == 1


def test_what_is_done_now_and_then_is_tried_apart() -> None:
    machine = Machine({"A": 20, "B": 10})
    skipping = replace(candidate(), edits=(Skip("torch.save"),))
    conduct_trial(machine, skipping, windows=False, run_pair=machine.run_pair)
    assert {spec.turns for spec in machine.specs} == {None}


@pytest.mark.parametrize("failing", ["A", "B"])
def test_arms_that_cannot_run_at_the_same_time_run_one_after_the_other(failing: str) -> None:
    machine = Machine({"A": 20, "B": 10})
    machine.failure = lambda spec: "port in use" if spec.turns and spec.side == failing else None
    trial = conduct_trial(machine, windows=False, run_pair=machine.run_pair)
    assert trial.order == "ABBABA"
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED
    assert trial.notes[-1].startswith("arms were run one after the other: two of them could not")


def test_a_side_that_fails_in_turns_is_refused_and_others_go_on() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 10})
    machine.failure = lambda spec: "boom" if spec.side == "C" else None
    candidates = candidate("one"), candidate("two")
    trial = conduct_trial(machine, *candidates, windows=False, run_pair=machine.run_pair)
    verdicts = {side.name: side.verdict for side in trial.sides}
    assert verdicts == {"B": TrialVerdict.CONFIRMED, "C": TrialVerdict.REFUSED}
    assert {spec.turns is None for spec in machine.specs[1:]} == {False}


@pytest.mark.parametrize("changes", [{"steps": 200}, {"budget_s": 20.0}, {"periods": (900,)}])
def test_arms_run_one_after_the_other_where_turns_do_not_fit(changes: dict[str, object]) -> None:
    machine = Machine({"A": 20, "B": 10})
    changes |= {"windows": False, "run_pair": machine.run_pair}
    trial = conduct_trial(machine, messages=None, job=None, **changes)
    assert {spec.turns for spec in machine.specs} == {None}
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED


# ── The end of a trial ──────────────────────────────────────────────────────────────────────────


def test_noise_does_not_end_a_trial_of_a_gain_that_stands_out_of_it() -> None:
    machine = Machine({"A": 20, "B": 4}, slowdown=wild_jitter)
    trial = conduct_trial(machine, windows=False)
    assert len(trial.order) > 4
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED


def test_only_the_sides_that_noise_hides_are_given_up() -> None:
    machine = Machine({"A": 20, "B": 19.5, "C": 8}, slowdown=wild_jitter)
    trial = conduct_trial(machine, candidate("one"), candidate("two"), windows=False)
    assert trial.order.count("B") < trial.order.count("C")


def test_several_sides_share_unedited_neighbours_and_go_when_they_are_decided() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 19}, slowdown=jitter)
    trial = conduct_trial(machine, candidate("one"), candidate("two"), windows=False)
    assert machine.sides[1:10] == "ABCCBABCA"  # places move on with every second turn
    assert set(machine.sides[10:]) <= {"A", "C"}
    assert {side.name: side.verdict for side in trial.sides}["B"] is TrialVerdict.CONFIRMED


def test_many_sides_get_several_unedited_arms_a_turn() -> None:
    assert lengths.order_turn(0, "BCDEF") == (("A", "B", "C", "D"), ("A", "E", "F"))
    assert lengths.order_turn(1, "BCDEF") == (("D", "C", "B", "A"), ("F", "E", "A"))
    assert lengths.order_turn(2, ()) == ()
    assert lengths.name_sides([candidate()] * 27)[-3:] == ("Z", "B2", "C2")


def test_the_first_arm_may_have_been_run_already() -> None:
    machine = Machine({"A": 20, "B": 10})
    first_run = machine.run(lengths.first_arm(240))
    settings = TrialSettings("t1", (), clock=machine.clock, windows=False)
    trial = conduct((candidate(),), settings, machine.run, lambda _: None, first_run)
    assert machine.sides == "AABBABA"
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED


def test_without_candidates_nothing_is_run() -> None:
    machine = Machine({"A": 20})
    settings = TrialSettings("t1", (), clock=machine.clock)
    trial = conduct((), settings, machine.run, lambda _: None)
    assert machine.sides == ""
    assert trial.sides == ()
    assert trial.noise is None


# ── Lengths and budget ──────────────────────────────────────────────────────────────────────────


def test_arms_are_as_long_as_the_user_wants() -> None:
    machine = Machine({"A": 20, "B": 10})
    conduct_trial(machine, steps=77, windows=False)
    assert {spec.stop_step for spec in machine.specs} == {77}


def test_workers_of_an_edit_need_three_of_their_rounds() -> None:
    machine = Machine({"A": 100, "B": 50})
    conduct_trial(machine, candidate(workers=16))
    assert machine.specs[1].stop_step >= 3 * 16 * 2


def test_a_budget_too_small_is_told_with_what_would_do() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    with pytest.raises(UsageError, match="two pairs of arms take about 81 s, more than the budget"):
        conduct_trial(machine, budget_s=60, windows=False)
    assert machine.sides == "A"


def test_a_budget_that_nobody_asked_for_grows_until_two_pairs_fit() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    messages = list[str]()
    trial = conduct_trial(machine, messages=messages, budget_s=60, max_budget_s=240, windows=False)
    assert trial.order == "ABBABA"
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED
    assert "starts and steps are slow: the budget is now 2 min" in messages
    assert 60 < trial.spent_s < 120
    assert trial.arms[0].failed == "discarded: the first"


def test_a_budget_grows_only_so_far() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    with pytest.raises(UsageError, match="more than the budget of 60 s"):
        conduct_trial(machine, budget_s=60, max_budget_s=100, windows=False)
    assert machine.sides == "A"


def test_a_recorded_run_tells_beforehand_that_a_budget_is_far_too_small() -> None:
    settings = TrialSettings("t1", (), budget_s=60)
    recorded_run = record_steps([1000.0] * 9, start=20_000)
    with pytest.raises(UsageError, match=r"more than the budget of 60 s: --budget \dm would do"):
        check_budget((candidate(),), settings, recorded_run)
    check_budget((candidate(),), replace(settings, budget_s=120), recorded_run)
    check_budget((candidate(),), replace(settings, max_budget_s=120), recorded_run)
    check_budget((), settings, recorded_run)
    check_budget(
        (candidate(),), settings, recording(Log(), ended_ms=1)
    )  # it never stepped: nothing to say


def test_six_sides_share_a_budget_by_fewer_steps_each() -> None:
    machine = Machine(dict(zip("ABCDEFG", (20, 10, 10, 10, 10, 10, 10), strict=True)), start_s=6)
    trial = conduct_trial(
        machine, *(candidate(str(index)) for index in range(6)), budget_s=210, windows=False
    )
    assert {side.verdict for side in trial.sides} == {TrialVerdict.CONFIRMED}
    assert all(side.speedup is not None for side in trial.sides)
    assert trial.spent_s < 210 + 2 * 8


def test_where_three_pairs_do_not_fit_two_are_run_and_that_is_told() -> None:
    machine = Machine({"A": 20, "B": 10}, start_s=10)
    trial = conduct_trial(machine, budget_s=63, windows=False)
    assert trial.order == "ABBA"
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED
    assert trial.notes == ("the budget of 63 s holds 2 pairs of arms: intervals are wide",)


def test_the_last_turn_that_is_needed_is_run_though_arms_took_longer() -> None:
    slow_machine = Machine(
        {"A": 20, "B": 10}, start_s=10, slowdown=lambda spec: 1.9 if spec.index else 1.0
    )
    trial = conduct_trial(slow_machine, budget_s=110, windows=False)
    assert trial.order == "ABBABA"
    assert 110 < trial.spent_s < 125


def test_two_pairs_are_enough_where_no_more_are_asked_for() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 15, "D": 19}, start_s=10)
    candidates = (candidate("one"), candidate("two"), candidate("three"))
    trial = conduct_trial(machine, *candidates, budget_s=120, pairs=2, windows=False)
    assert machine.sides == "A" + "ABCD" + "DCBA"
    assert trial.spent_s <= 120
    assert [side.speedup is not None for side in trial.sides] == [True] * 3


def test_without_time_for_windows_none_are_taken() -> None:
    machine = Machine({"A": 20, "B": 10}, start_s=10)
    trial = conduct_trial(machine, budget_s=118)
    assert machine.sides == "AABBABA"
    assert trial.notes == ("no time was left for windows: there are no accounts to compare",)


def test_a_first_arm_that_was_slow_has_the_others_planned_anew() -> None:
    cold_machine = Machine(
        {"A": 20, "B": 10}, slowdown=lambda spec: 10.0 if spec.index == 0 else 1.0
    )
    warm_machine = Machine({"A": 20, "B": 10})
    trial = conduct_trial(cold_machine)
    conduct_trial(warm_machine)
    assert cold_machine.sides == "AA" + "ABBABA" + "AB"
    assert trial.arms[1].failed == "discarded: the first was slower"
    assert (
        cold_machine.specs[2].stop_step
        == warm_machine.specs[1].stop_step
        > cold_machine.specs[1].stop_step
    )


def test_an_edit_that_makes_steps_much_slower_is_cut_short_and_measured() -> None:
    machine = Machine({"A": 20, "B": 400})
    trial = conduct_trial(machine)
    (side,) = trial.sides
    assert side.verdict is TrialVerdict.WORSE
    assert side.speedup is not None
    assert side.speedup.mid == pytest.approx(0.05)
    assert trial.measured is not None
    assert trial.measured[1] < machine.specs[1].stop_step


def length_inputs(left_s: float = 200, **changes: object) -> lengths.LengthInputs:
    """Return what a first arm of 100 steps of 20 ms told."""
    steps = read_steps(record_steps([20.0] * 99))
    assert steps is not None
    has_turns = bool(changes.pop("turns", False))
    changed_steps = replace(steps, **changes)  # pyright: ignore[reportArgumentType]
    return lengths.LengthInputs(changed_steps, 20e6, 2.0, left_s, has_turns)


def test_arms_hold_four_periods_of_what_recurs_or_one_if_more_do_not_fit() -> None:
    calm_stop = lengths.plan_length(length_inputs(), (candidate(),)).stop_step
    assert lengths.plan_length(length_inputs(periods=(20,)), (candidate(),)).stop_step == calm_stop
    assert lengths.plan_length(length_inputs(periods=(20, 150)), (candidate(),)).stop_step >= 600
    long_period = lengths.plan_length(length_inputs(periods=(600,)), (candidate(),))
    assert 660 <= long_period.stop_step < 700
    assert long_period.uncovered_periods == ()
    too_long_period = lengths.plan_length(length_inputs(periods=(6000,)), (candidate(),))
    assert (too_long_period.stop_step, too_long_period.uncovered_periods) == (calm_stop, (6000,))


def test_what_recurs_too_seldom_is_told() -> None:
    machine = Machine({"A": 20, "B": 10})
    first_run = machine.run(lengths.first_arm(240))
    assert first_run.recording is not None
    log = Log()
    log.add_steps(*range(1000, 21000, 20))
    for time_ms in (1001, 20001):
        log.add_mark("checkpoint", time_ms, time_ms + 1)
    settings = TrialSettings("t1", (), clock=machine.clock, budget_s=60, run_pair=machine.run_pair)
    seldom_run = ArmRun(recording(log, ended_ms=21000), 0)
    trial = conduct((candidate(),), settings, machine.run, lambda _: None, seldom_run)
    stop = machine.specs[-1].stop_step
    assert trial.notes[0].startswith("what recurs every 950 steps lies beyond the ")
    assert stop < 950
    assert machine.specs[-1].turns is None  # the median of slices would not see it


def test_arms_reach_over_an_epoch_turn_where_the_job_has_some_and_one_is_near() -> None:
    candidates, calm_stop = (
        (candidate(),),
        lengths.plan_length(length_inputs(), (candidate(),)).stop_step,
    )
    assert (
        lengths.plan_length(length_inputs(epoch=calm_stop + 50, turns=True), candidates).stop_step
        == calm_stop + 52
    )
    assert (
        lengths.plan_length(length_inputs(epoch=calm_stop + 50), candidates).stop_step == calm_stop
    )
    assert (
        lengths.plan_length(length_inputs(epoch=3 * calm_stop, turns=True), candidates).stop_step
        == calm_stop
    )
    assert (
        lengths.plan_length(length_inputs(epoch=None, turns=True), candidates).stop_step
        == calm_stop
    )


def test_steps_of_more_samples_are_compared_by_the_sample() -> None:
    steps = read_steps(record_steps([20.0] * 99))
    assert steps is not None
    arms = list[ArmResult]()
    for turn in range(3):
        for side, samples in (("A", 8.0), ("B", 16.0), ("C", 8.05), ("D", None)):
            spec = ArmSpec(side, len(arms), (), 100, 10)
            arm_steps = replace(steps, samples=samples)
            arms.append(ArmResult(spec, turn, ArmRun(None, 0), arm_steps, None, 4.0))
    scoreboard = make_scoreboard(arms)
    expected = {"B": 2.0, "C": 1.0, "D": 1.0}
    for side, ratio in expected.items():
        speedup = scoreboard.speedup(side)
        assert speedup is not None
        assert speedup.mid == pytest.approx(ratio)


def test_of_an_arm_that_was_not_measured_there_are_no_blocks() -> None:
    failed_arm = ArmResult(ArmSpec("B", 0, (), 1, 1), 0, ArmRun(None, 1, "x"), None, "x", 1.0)
    assert len(make_scoreboard([failed_arm]).block_means(failed_arm)) == 0
    assert arm_noise(make_scoreboard([failed_arm]), failed_arm) is None


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────────


def test_out_of_memory_once_does_not_fit() -> None:
    machine = Machine({"A": 20}, failure=lambda spec: "out of memory" if spec.side == "B" else None)
    trial = conduct_trial(machine)
    assert machine.sides.count("B") == 1
    (side,) = trial.sides
    assert (side.verdict, side.why) == (TrialVerdict.DOES_NOT_FIT, "out of memory")
    assert (side.speedup, side.step_ns, side.job) == (None, None, None)


def test_two_failures_refuse_a_side_and_the_others_go_on() -> None:
    machine = Machine(
        {"A": 20, "C": 10},
        failure=lambda spec: f"KeyError: {spec.index}" if spec.side == "B" else None,
    )
    trial = conduct_trial(machine, candidate("bad"), candidate("good"), windows=False)
    bad_side, good_side = trial.sides
    assert (bad_side.verdict, bad_side.why) == (TrialVerdict.REFUSED, "KeyError: 3")
    assert good_side.verdict is TrialVerdict.CONFIRMED
    assert machine.sides == "AABBCCACA"


def test_one_failure_is_made_up_for() -> None:
    machine = Machine({"A": 20, "B": 10}, failure=lambda spec: "oops" if spec.index == 2 else None)
    trial = conduct_trial(machine, windows=False)
    assert machine.sides == "AABBBABA"
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED
    assert trial.arms[2].failed == "oops"


def test_an_arm_of_one_step_is_a_failure() -> None:
    machine = Machine({"A": 20, "B": 10}, slowdown=lambda spec: 1e7 if spec.side == "B" else 1.0)
    (side,) = conduct_trial(machine, budget_s=1e9, windows=False).sides
    assert (side.verdict, side.why) == (TrialVerdict.REFUSED, "it made no two steps")


def test_a_training_that_fails_unedited_is_told_at_once() -> None:
    machine = Machine({}, failure=lambda _: "ModuleNotFoundError: No module named 'x'")
    with pytest.raises(GaplessError, match="could not be measured: ModuleNotFoundError: No module"):
        conduct_trial(machine)
    assert machine.sides == "A"


def test_unedited_arms_that_fail_later_end_the_trial() -> None:
    machine = Machine(
        {"A": 20, "B": 10}, failure=lambda spec: "boom" if spec.side == "A" and spec.index else None
    )
    trial = conduct_trial(machine)
    assert machine.sides == "AAA"
    assert trial.notes == ("unedited arms failed: boom",)


def test_disturbed_arms_are_repeated_once() -> None:
    machine = Machine({"A": 20, "B": 10}, foreign=lambda spec: 0.5 if spec.index == 2 else 0.01)
    trial = conduct_trial(machine, windows=False)
    assert machine.sides == "AABBBABA"
    assert trial.arms[2].failed == "disturbed: others took 50% of the processors"
    assert trial.arms[2].foreign == pytest.approx(0.5)
    assert trial.notes == ()


def test_on_a_machine_that_is_always_busy_arms_are_soon_no_longer_repeated() -> None:
    machine = Machine({"A": 20, "B": 10}, foreign=lambda _: 0.3)
    trial = conduct_trial(machine, windows=False)
    assert machine.sides == "A" + "AABBBB" + "ABA"
    assert trial.order == "ABBABA"
    assert trial.notes == (
        "in 6 of the 6 arms that count others took 30% of the processors or less",
    )


def test_disturbed_arms_are_not_repeated_at_the_cost_of_pairs() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 10}, start_s=10, foreign=lambda _: 0.6)
    trial = conduct_trial(
        machine, candidate("one"), candidate("two"), budget_s=90, pairs=2, windows=False
    )
    assert trial.order == "ABCCBA"
    assert trial.sides[0].speedup is not None


def test_an_arm_whose_steps_vary_far_more_is_repeated() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        step_factor=lambda spec, step: 1 + (0.8 * (step // 10 % 2) if spec.index == 6 else 0.0),
    )
    trial = conduct_trial(machine, windows=False)
    assert machine.sides[:8] == "AABBABAA"
    assert trial.arms[6].failed is not None
    assert "its steps vary more" in trial.arms[6].failed


def test_without_time_a_disturbed_arm_counts() -> None:
    machine = Machine(
        {"A": 20, "B": 10}, start_s=10, foreign=lambda spec: 0.5 if spec.index == 6 else None
    )
    trial = conduct_trial(machine, budget_s=112, windows=False)
    assert trial.order == "ABBABA"
    assert trial.notes == (
        "in 1 of the 6 arms that count others took 50% of the processors or less",
    )


def test_interrupted_it_judges_what_was_measured() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(spec: ArmSpec) -> ArmRun:
        if spec.index == 5:
            raise KeyboardInterrupt
        return machine.run(spec)

    settings = TrialSettings("t1", (), clock=machine.clock)
    trial = conduct((candidate(),), settings, run, lambda _: None)
    assert trial.order == "ABBA"
    assert trial.notes == ("interrupted: judged by what had been measured until then",)
    assert trial.sides[0].speedup is not None
    assert trial.sides[0].verdict is TrialVerdict.CONFIRMED


def test_interrupted_after_one_pair_it_prints_the_steps_and_no_interval() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(spec: ArmSpec) -> ArmRun:
        if spec.index == 3:
            raise KeyboardInterrupt
        return machine.run(spec)

    settings = TrialSettings("t1", (), clock=machine.clock)
    trial = conduct((candidate(),), settings, run, lambda _: None)
    (side,) = trial.sides
    assert (trial.step_ns, side.step_ns) == (20_000_000, 10_000_000)
    assert side.speedup is None
    assert side.verdict is TrialVerdict.UNDECIDED
    assert side.why == "1 pair of arms: no interval"


def test_interrupted_before_anything_can_be_compared_it_ends_at_once() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(spec: ArmSpec) -> ArmRun:
        if spec.index == 2:
            raise KeyboardInterrupt
        return machine.run(spec)

    with pytest.raises(KeyboardInterrupt):
        conduct((candidate(),), TrialSettings("t1", (), clock=machine.clock), run, lambda _: None)


# ── What comes out beside the step ──────────────────────────────────────────────────────────────


def test_a_whole_job_gains_less_than_a_step() -> None:
    (side,) = conduct_trial(Machine({"A": 20, "B": 10}, start_s=10), job=Job(1000, 0)).sides
    assert side.job is not None
    assert side.job.mid == pytest.approx((10 + 20) / (10 + 10), rel=0.01)


def test_a_job_with_epoch_turns_that_were_not_seen_is_not_known() -> None:
    (side,) = conduct_trial(Machine({"A": 20, "B": 10}), job=Job(1000, 4)).sides
    assert side.job is None


def test_a_prediction_is_held_against_the_result() -> None:
    tried_candidate = replace(candidate(), predicted=Estimate(3, 4, 5))
    (side,) = conduct_trial(Machine({"A": 20, "B": 10}), tried_candidate).sides
    assert side.verdict is TrialVerdict.SMALLER
    assert side.predicted == tried_candidate.predicted


def observe_batches(*checksums: str, distinct: int | None = None) -> ArmObservation:
    count = len(checksums) * 4
    indices = [
        BatchIndices(0, checksum, 4, count if distinct is None else min(distinct, count))
        for checksum in checksums
    ]
    return ArmObservation((1.0, 0.5), scaled=False, indices={0: tuple(indices)}, samples={})


def test_an_edit_that_repeats_samples_is_refused_however_fast() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        observation=lambda spec: (
            observe_batches("a", "a", distinct=4) if spec.side == "B" else observe_batches("a", "b")
        ),
    )
    (side,) = conduct_trial(machine).sides
    assert (side.verdict, side.why) == (TrialVerdict.REFUSED, "each sample came 2.0 times")
    assert side.speedup is not None


def test_the_same_losses_and_samples_are_told() -> None:
    (side,) = conduct_trial(
        Machine({"A": 20, "B": 10}, observation=lambda _: observe_batches("a", "b"))
    ).sides
    assert (side.parity, side.data) == (Parity.IDENTICAL, "same")


def test_an_ablation_may_train_on_what_it_likes() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        observation=lambda spec: (
            observe_batches("a", "a", distinct=4) if spec.side == "B" else observe_batches("a", "b")
        ),
    )
    ablation = Candidate(("cached-batch",), "one batch", (Skip("x"),), Applicability.ABLATION)
    (side,) = conduct_trial(machine, ablation).sides
    assert (side.verdict, side.parity, side.data) == (
        TrialVerdict.CONFIRMED,
        Parity.NOT_OBSERVED,
        None,
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "1 min 30 s"), (120, "2 min"), (-3, "0 s")],
)
def test_times_are_spoken(seconds: float, text: str) -> None:
    assert format_time(seconds) == text
