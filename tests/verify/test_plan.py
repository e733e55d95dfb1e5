"""The loop of a trial, on arms that are never run: order, budget, failures, disturbance, ends."""

from dataclasses import replace

import pytest

from gapless.errors import GaplessError, UsageError
from gapless.model.edit import Applicability, Skip
from gapless.model.interval import Interval
from gapless.model.recording import Drawn, Observed
from gapless.model.trial import Parity, Trial, Verdict
from gapless.verify import lengths
from gapless.verify.budget import forecast, spoken
from gapless.verify.plan import conduct
from gapless.verify.steady import stepped
from gapless.verify.taken import Taken, own_noise, standing
from gapless.verify.wanted import Candidate, Job, Order, Ran, TrialSettings
from tests.study.recording import Log, recording
from tests.verify.arms import Machine, candidate, stepping


def trial(
    machine: Machine,
    *wanted: Candidate,
    said: list[str] | None = None,
    job: Job | None = None,
    **settings: object,
) -> Trial:
    asked = TrialSettings("t1", ("python", "train.py"), job=job, clock=machine.clock)
    asked = replace(asked, **settings)  # pyright: ignore[reportArgumentType]
    told = [] if said is None else said
    return conduct(wanted or (candidate(),), asked, machine.run, told.append)


def jitter(order: Order) -> float:
    """Let arms differ by two per cent in an order of their own."""
    return 1 + (order.order * 7 % 5 - 2) * 0.01


def wide(order: Order) -> float:
    return 1 + (order.order * 7 % 5 - 2) * 0.025


# ── The ordinary course ─────────────────────────────────────────────────────────────────────────


def test_three_pairs_decide_a_clear_effect() -> None:
    machine = Machine({"A": 20, "B": 10})
    found = trial(machine)
    (side,) = found.sides
    assert machine.sides == "A" + "ABBABA" + "AB"  # the first, three pairs, windows
    assert found.order == "ABBABA"
    assert side.verdict is Verdict.CONFIRMED
    assert side.speedup is not None
    assert side.speedup.mid == pytest.approx(2.0)
    assert (found.step_ns, side.step_ns) == (20_000_000, 10_000_000)
    assert found.noise == pytest.approx(0, abs=1e-9)
    assert [one.failed for one in found.arms[::7]] == ["discarded: the first", "window"]
    assert [one.window for one in machine.orders] == [False] * 7 + [True] * 2


def test_edits_are_laid_over_their_own_side_alone() -> None:
    machine, wanted = Machine({"A": 20, "B": 10}), candidate()
    trial(machine, wanted)
    assert {one.edits for one in machine.orders if one.side == "A"} == {()}
    assert {one.edits for one in machine.orders if one.side == "B"} == {wanted.edits}


def test_all_arms_are_measured_over_the_same_steps() -> None:
    machine = Machine({"A": 20, "B": 10})
    found = trial(machine)
    counted = [one for one in found.arms if one.failed is None]
    assert found.measured is not None
    first, last = found.measured
    assert {one.steps for one in counted} == {last - first + 1}
    assert last <= min(one.stop for one in machine.orders[1:7])
    assert (last - first + 1) * 20 >= 4000  # ms: at least four seconds of the slower


def test_nothing_is_said_of_equal_sides() -> None:
    (side,) = trial(Machine({"A": 20, "B": 20})).sides
    assert side.verdict is Verdict.NOTHING


def test_noise_prolongs_a_trial_until_the_budget_is_spent() -> None:
    machine = Machine({"A": 20, "B": 19.5}, slow=wide)
    said = list[str]()
    found = trial(machine, said=said)
    assert machine.sides[1:9] == "ABBABAAB"
    assert len(machine.orders) > 15
    assert found.spent_s <= 240
    assert found.spent_s > 200
    assert found.sides[0].verdict is Verdict.UNDECIDED
    assert said[-1].startswith(f"arm {len(machine.orders)} · at most ")
    assert said[-1].endswith(" left · window, B, num_workers 0 → 4")


def wild(order: Order) -> float:
    return 1 + (order.order * 7 % 5 - 2) * 0.25


def test_noise_that_hides_any_likely_gain_ends_a_trial_after_four_arms() -> None:
    machine = Machine({"A": 20, "B": 19.5}, slow=wild)
    found = trial(machine, windows=False)
    assert found.order == "ABBA"
    assert found.sides[0].verdict is Verdict.UNDECIDED
    assert found.notes[-1].startswith("no more arms of B after 4: arms of the same command differ")


def test_noise_does_not_end_a_trial_of_a_gain_that_stands_out_of_it() -> None:
    machine = Machine({"A": 20, "B": 4}, slow=wild)
    found = trial(machine, windows=False)
    assert len(found.order) > 4
    assert found.sides[0].verdict is Verdict.CONFIRMED


def test_only_the_sides_that_noise_hides_are_given_up() -> None:
    machine = Machine({"A": 20, "B": 19.5, "C": 4}, slow=wild)
    found = trial(machine, candidate("one"), candidate("two"), windows=False)
    assert found.order.count("B") < found.order.count("C")


def test_several_sides_share_unedited_neighbours_and_go_when_they_are_decided() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 19}, slow=jitter)
    found = trial(machine, candidate("one"), candidate("two"), windows=False)
    assert machine.sides[1:10] == "ABCCBABCA"  # places move on with every second turn
    assert set(machine.sides[10:]) <= {"A", "C"}
    assert {one.name: one.verdict for one in found.sides}["B"] is Verdict.CONFIRMED


def test_many_sides_get_several_unedited_arms_a_turn() -> None:
    assert lengths.turn(0, "BCDEF") == (("A", "B", "C", "D"), ("A", "E", "F"))
    assert lengths.turn(1, "BCDEF") == (("D", "C", "B", "A"), ("F", "E", "A"))
    assert lengths.turn(2, ()) == ()
    assert lengths.names([candidate()] * 27)[-3:] == ("Z", "B2", "C2")


def test_the_first_arm_may_have_been_run_already() -> None:
    machine = Machine({"A": 20, "B": 10})
    first = machine.run(lengths.first(240))
    asked = TrialSettings("t1", (), clock=machine.clock, windows=False)
    found = conduct((candidate(),), asked, machine.run, lambda _: None, first)
    assert machine.sides == "AABBABA"
    assert found.sides[0].verdict is Verdict.CONFIRMED


def test_without_candidates_nothing_is_run() -> None:
    machine = Machine({"A": 20})
    asked = TrialSettings("t1", (), clock=machine.clock)
    found = conduct((), asked, machine.run, lambda _: None)
    assert machine.sides == ""
    assert found.sides == ()
    assert found.noise is None


# ── Lengths and budget ──────────────────────────────────────────────────────────────────────────


def test_arms_are_as_long_as_the_user_wants() -> None:
    machine = Machine({"A": 20, "B": 10})
    trial(machine, steps=77, windows=False)
    assert {one.stop for one in machine.orders} == {77}


def test_workers_of_an_edit_need_three_of_their_rounds() -> None:
    machine = Machine({"A": 100, "B": 50})
    trial(machine, candidate(workers=16))
    assert machine.orders[1].stop >= 3 * 16 * 2


def test_a_budget_too_small_is_told_with_what_would_do() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    with pytest.raises(UsageError, match="two pairs of arms take about 81 s, more than the budget"):
        trial(machine, budget_s=60, windows=False)
    assert machine.sides == "A"


def test_a_budget_that_nobody_asked_for_grows_until_two_pairs_fit() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    said = list[str]()
    found = trial(machine, said=said, budget_s=60, most_s=240, windows=False)
    assert found.order == "ABBABA"
    assert found.sides[0].verdict is Verdict.CONFIRMED
    assert "starts and steps are slow: the budget is now 2 min" in said
    assert 60 < found.spent_s < 120
    assert found.arms[0].failed == "discarded: the first"


def test_a_budget_grows_only_so_far() -> None:
    machine = Machine({"A": 1000, "B": 500}, start_s=10)
    with pytest.raises(UsageError, match="more than the budget of 60 s"):
        trial(machine, budget_s=60, most_s=100, windows=False)
    assert machine.sides == "A"


def test_a_recorded_run_tells_beforehand_that_a_budget_is_far_too_small() -> None:
    asked = TrialSettings("t1", (), budget_s=60)
    known = stepping([1000.0] * 9, start=20_000)
    with pytest.raises(UsageError, match=r"more than the budget of 60 s: --budget \dm would do"):
        forecast((candidate(),), asked, known)
    forecast((candidate(),), replace(asked, budget_s=120), known)
    forecast((candidate(),), replace(asked, most_s=120), known)
    forecast((), asked, known)
    forecast((candidate(),), asked, recording(Log(), ended=1))  # it never stepped: nothing to say


def test_six_sides_share_a_budget_by_fewer_steps_each() -> None:
    machine = Machine(dict(zip("ABCDEFG", (20, 10, 10, 10, 10, 10, 10), strict=True)), start_s=6)
    found = trial(machine, *(candidate(str(at)) for at in range(6)), budget_s=210, windows=False)
    assert {one.verdict for one in found.sides} == {Verdict.CONFIRMED}
    assert all(one.speedup is not None for one in found.sides)
    assert found.spent_s < 210 + 2 * 8


def test_where_three_pairs_do_not_fit_two_are_run_and_that_is_told() -> None:
    machine = Machine({"A": 20, "B": 10}, start_s=10)
    found = trial(machine, budget_s=63, windows=False)
    assert found.order == "ABBA"
    assert found.sides[0].verdict is Verdict.CONFIRMED
    assert found.notes == ("the budget of 63 s holds 2 pairs of arms: intervals are wide",)


def test_the_last_turn_that_is_needed_is_run_though_arms_took_longer() -> None:
    slower = Machine({"A": 20, "B": 10}, start_s=10, slow=lambda one: 1.9 if one.order else 1.0)
    found = trial(slower, budget_s=110, windows=False)
    assert found.order == "ABBABA"
    assert 110 < found.spent_s < 125


def test_two_pairs_are_enough_where_no_more_are_asked_for() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 15, "D": 19}, start_s=10)
    wanted = (candidate("one"), candidate("two"), candidate("three"))
    found = trial(machine, *wanted, budget_s=120, pairs=2, windows=False)
    assert machine.sides == "A" + "ABCD" + "DCBA"
    assert found.spent_s <= 120
    assert [one.speedup is not None for one in found.sides] == [True] * 3


def test_without_time_for_windows_none_are_taken() -> None:
    machine = Machine({"A": 20, "B": 10}, start_s=10)
    found = trial(machine, budget_s=118)
    assert machine.sides == "AABBABA"
    assert found.notes == ("no time was left for windows: there are no accounts to compare",)


def test_a_first_arm_that_was_slow_has_the_others_planned_anew() -> None:
    cold = Machine({"A": 20, "B": 10}, slow=lambda one: 10.0 if one.order == 0 else 1.0)
    warm = Machine({"A": 20, "B": 10})
    found = trial(cold)
    trial(warm)
    assert cold.sides == "AA" + "ABBABA" + "AB"
    assert found.arms[1].failed == "discarded: the first was slower"
    assert cold.orders[2].stop == warm.orders[1].stop > cold.orders[1].stop


def test_an_edit_that_makes_steps_much_slower_is_cut_short_and_measured() -> None:
    machine = Machine({"A": 20, "B": 400})
    found = trial(machine)
    (side,) = found.sides
    assert side.verdict is Verdict.WORSE
    assert side.speedup is not None
    assert side.speedup.mid == pytest.approx(0.05)
    assert found.measured is not None
    assert found.measured[1] < machine.orders[1].stop


def known(left_s: float = 200, **rest: object) -> lengths.Known:
    """Give what a first arm of 100 steps of 20 ms told."""
    steps = stepped(stepping([20.0] * 99))
    assert steps is not None
    turns = bool(rest.pop("turns", False))
    changed = replace(steps, **rest)  # pyright: ignore[reportArgumentType]
    return lengths.Known(changed, 20e6, 2.0, left_s, turns)


def test_arms_hold_four_periods_of_what_recurs_or_one_if_more_do_not_fit() -> None:
    calm = lengths.length(known(), (candidate(),)).stop
    assert lengths.length(known(periods=(20,)), (candidate(),)).stop == calm
    assert lengths.length(known(periods=(20, 150)), (candidate(),)).stop >= 600
    once = lengths.length(known(periods=(600,)), (candidate(),))
    assert 660 <= once.stop < 700
    assert once.tails == ()
    never = lengths.length(known(periods=(6000,)), (candidate(),))
    assert (never.stop, never.tails) == (calm, (6000,))


def test_what_recurs_too_seldom_is_told() -> None:
    machine = Machine({"A": 20, "B": 10})
    first = machine.run(lengths.first(240))
    assert first.recording is not None
    log = Log()
    log.steps(*range(1000, 21000, 20))
    for at in (1001, 20001):
        log.mark("checkpoint", at, at + 1)
    asked = TrialSettings("t1", (), clock=machine.clock, budget_s=60)
    seldom = Ran(recording(log, ended=21000), 0)
    found = conduct((candidate(),), asked, machine.run, lambda _: None, seldom)
    stop = machine.orders[-1].stop
    assert found.notes[0].startswith("what recurs every 950 steps lies beyond the ")
    assert stop < 950


def test_arms_reach_over_an_epoch_turn_where_the_job_has_some_and_one_is_near() -> None:
    wanted, calm = (candidate(),), lengths.length(known(), (candidate(),)).stop
    assert lengths.length(known(epoch=calm + 50, turns=True), wanted).stop == calm + 52
    assert lengths.length(known(epoch=calm + 50), wanted).stop == calm
    assert lengths.length(known(epoch=3 * calm, turns=True), wanted).stop == calm
    assert lengths.length(known(epoch=None, turns=True), wanted).stop == calm


def test_steps_of_more_samples_are_compared_by_the_sample() -> None:
    steps = stepped(stepping([20.0] * 99))
    assert steps is not None
    arms = list[Taken]()
    for turn in range(3):
        for side, samples in (("A", 8.0), ("B", 16.0), ("C", 8.05), ("D", None)):
            order = Order(side, len(arms), (), 100, 10)
            one = replace(steps, samples=samples)
            arms.append(Taken(order, turn, Ran(None, 0), one, None, 4.0))
    found = standing(arms)
    expected = {"B": 2.0, "C": 1.0, "D": 1.0}
    for side, ratio in expected.items():
        speedup = found.speedup(side)
        assert speedup is not None
        assert speedup.mid == pytest.approx(ratio)


def test_of_an_arm_that_was_not_measured_there_are_no_blocks() -> None:
    broken = Taken(Order("B", 0, (), 1, 1), 0, Ran(None, 1, "x"), None, "x", 1.0)
    assert len(standing([broken]).blocks(broken)) == 0
    assert own_noise(standing([broken]), broken) is None


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────────


def test_out_of_memory_once_does_not_fit() -> None:
    machine = Machine({"A": 20}, failed=lambda one: "out of memory" if one.side == "B" else None)
    found = trial(machine)
    assert machine.sides.count("B") == 1
    (side,) = found.sides
    assert (side.verdict, side.why) == (Verdict.DOES_NOT_FIT, "out of memory")
    assert (side.speedup, side.step_ns, side.job) == (None, None, None)


def test_two_failures_refuse_a_side_and_the_others_go_on() -> None:
    machine = Machine(
        {"A": 20, "C": 10},
        failed=lambda one: f"KeyError: {one.order}" if one.side == "B" else None,
    )
    found = trial(machine, candidate("bad"), candidate("good"), windows=False)
    bad, good = found.sides
    assert (bad.verdict, bad.why) == (Verdict.REFUSED, "KeyError: 3")
    assert good.verdict is Verdict.CONFIRMED
    assert machine.sides == "AABBCCACA"


def test_one_failure_is_made_up_for() -> None:
    machine = Machine({"A": 20, "B": 10}, failed=lambda one: "oops" if one.order == 2 else None)
    found = trial(machine, windows=False)
    assert machine.sides == "AABBBABA"
    assert found.sides[0].verdict is Verdict.CONFIRMED
    assert found.arms[2].failed == "oops"


def test_an_arm_of_one_step_is_a_failure() -> None:
    machine = Machine({"A": 20, "B": 10}, slow=lambda one: 1e7 if one.side == "B" else 1.0)
    (side,) = trial(machine, budget_s=1e9, windows=False).sides
    assert (side.verdict, side.why) == (Verdict.REFUSED, "it made no two steps")


def test_a_training_that_fails_unedited_is_told_at_once() -> None:
    machine = Machine({}, failed=lambda _: "ModuleNotFoundError: No module named 'x'")
    with pytest.raises(GaplessError, match="could not be measured: ModuleNotFoundError: No module"):
        trial(machine)
    assert machine.sides == "A"


def test_unedited_arms_that_fail_later_end_the_trial() -> None:
    machine = Machine(
        {"A": 20, "B": 10}, failed=lambda one: "boom" if one.side == "A" and one.order else None
    )
    found = trial(machine)
    assert machine.sides == "AAA"
    assert found.notes == ("unedited arms failed: boom",)


def test_disturbed_arms_are_repeated_once() -> None:
    machine = Machine({"A": 20, "B": 10}, foreign=lambda one: 0.5 if one.order == 2 else 0.01)
    found = trial(machine, windows=False)
    assert machine.sides == "AABBBABA"
    assert found.arms[2].failed == "disturbed: others took 50% of the processors"
    assert found.arms[2].foreign == pytest.approx(0.5)
    assert found.notes == ()


def test_on_a_machine_that_is_always_busy_arms_are_soon_no_longer_repeated() -> None:
    machine = Machine({"A": 20, "B": 10}, foreign=lambda _: 0.3)
    found = trial(machine, windows=False)
    assert machine.sides == "A" + "AABBBB" + "ABA"
    assert found.order == "ABBABA"
    assert found.notes == (
        "in 6 of the 6 arms that count others took 30% of the processors or less",
    )


def test_disturbed_arms_are_not_repeated_at_the_cost_of_pairs() -> None:
    machine = Machine({"A": 20, "B": 10, "C": 10}, start_s=10, foreign=lambda _: 0.6)
    found = trial(machine, candidate("one"), candidate("two"), budget_s=90, pairs=2, windows=False)
    assert found.order == "ABCCBA"
    assert found.sides[0].speedup is not None


def test_an_arm_whose_steps_vary_far_more_is_repeated() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        shape=lambda one, at: 1 + (0.8 * (at // 10 % 2) if one.order == 6 else 0.0),
    )
    found = trial(machine, windows=False)
    assert machine.sides[:8] == "AABBABAA"
    assert found.arms[6].failed is not None
    assert "its steps vary more" in found.arms[6].failed


def test_without_time_a_disturbed_arm_counts() -> None:
    machine = Machine(
        {"A": 20, "B": 10}, start_s=10, foreign=lambda one: 0.5 if one.order == 6 else None
    )
    found = trial(machine, budget_s=112, windows=False)
    assert found.order == "ABBABA"
    assert found.notes == (
        "in 1 of the 6 arms that count others took 50% of the processors or less",
    )


def test_interrupted_it_judges_what_was_measured() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(order: Order) -> Ran:
        if order.order == 5:
            raise KeyboardInterrupt
        return machine.run(order)

    asked = TrialSettings("t1", (), clock=machine.clock)
    found = conduct((candidate(),), asked, run, lambda _: None)
    assert found.order == "ABBA"
    assert found.notes == ("interrupted: judged by what had been measured until then",)
    assert found.sides[0].speedup is not None
    assert found.sides[0].verdict is Verdict.CONFIRMED


def test_interrupted_after_one_pair_it_prints_the_steps_and_no_interval() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(order: Order) -> Ran:
        if order.order == 3:
            raise KeyboardInterrupt
        return machine.run(order)

    asked = TrialSettings("t1", (), clock=machine.clock)
    found = conduct((candidate(),), asked, run, lambda _: None)
    (side,) = found.sides
    assert (found.step_ns, side.step_ns) == (20_000_000, 10_000_000)
    assert side.speedup is None
    assert side.verdict is Verdict.UNDECIDED
    assert side.why == "1 pair of arms: no interval"


def test_interrupted_before_anything_can_be_compared_it_ends_at_once() -> None:
    machine = Machine({"A": 20, "B": 10})

    def run(order: Order) -> Ran:
        if order.order == 2:
            raise KeyboardInterrupt
        return machine.run(order)

    with pytest.raises(KeyboardInterrupt):
        conduct((candidate(),), TrialSettings("t1", (), clock=machine.clock), run, lambda _: None)


# ── What comes out beside the step ──────────────────────────────────────────────────────────────


def test_a_whole_job_gains_less_than_a_step() -> None:
    (side,) = trial(Machine({"A": 20, "B": 10}, start_s=10), job=Job(1000, 0)).sides
    assert side.job is not None
    assert side.job.mid == pytest.approx((10 + 20) / (10 + 10), rel=0.01)


def test_a_job_with_epoch_turns_that_were_not_seen_is_not_known() -> None:
    (side,) = trial(Machine({"A": 20, "B": 10}), job=Job(1000, 4)).sides
    assert side.job is None


def test_a_prediction_is_held_against_the_result() -> None:
    wanted = replace(candidate(), predicted=Interval(3, 4, 5))
    (side,) = trial(Machine({"A": 20, "B": 10}), wanted).sides
    assert side.verdict is Verdict.SMALLER
    assert side.predicted == wanted.predicted


def told(*checksums: str, distinct: int | None = None) -> Observed:
    count = len(checksums) * 4
    drawn = [
        Drawn(0, one, 4, count if distinct is None else min(distinct, count)) for one in checksums
    ]
    return Observed((1.0, 0.5), scaled=False, indices={0: tuple(drawn)}, samples={})


def test_an_edit_that_repeats_samples_is_refused_however_fast() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        trial=lambda one: told("a", "a", distinct=4) if one.side == "B" else told("a", "b"),
    )
    (side,) = trial(machine).sides
    assert (side.verdict, side.why) == (Verdict.REFUSED, "each sample came 2.0 times")
    assert side.speedup is not None


def test_the_same_losses_and_samples_are_told() -> None:
    (side,) = trial(Machine({"A": 20, "B": 10}, trial=lambda _: told("a", "b"))).sides
    assert (side.parity, side.data) == (Parity.SAME, "same")


def test_an_ablation_may_train_on_what_it_likes() -> None:
    machine = Machine(
        {"A": 20, "B": 10},
        trial=lambda one: told("a", "a", distinct=4) if one.side == "B" else told("a", "b"),
    )
    cached = Candidate(("cached-batch",), "one batch", (Skip("x"),), Applicability.TRIAL)
    (side,) = trial(machine, cached).sides
    assert (side.verdict, side.parity, side.data) == (
        Verdict.CONFIRMED,
        Parity.NOT_OBSERVED,
        None,
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "1 min 30 s"), (120, "2 min"), (-3, "0 s")],
)
def test_times_are_spoken(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
