"""Rounds: the order of proposals, what is kept, when it ends, and what an interruption leaves."""

import pytest
from msgspec.structs import replace

from gapless.errors import GaplessError, UsageError
from gapless.model.trial import Parity, TrialVerdict
from gapless.tune import rounds
from gapless.tune.rounds import tune, tuning_of
from tests.tune.fakes import STATE, TRIAL_S, Training

TWO = {"slow-loader": 2.0, "foreach": 1.3}


def test_the_highest_low_end_is_tried_first_and_what_is_not_predicted_last() -> None:
    training = Training(lambda _: {"unknown": None, "small": 1.2, "large": 3.0}, {})
    tune(STATE, training.bench())
    assert training.tried() == ["large", "small", "unknown"]


def test_each_is_tried_on_top_of_what_is_kept_and_predicted_from_a_new_record() -> None:
    def predict(kept: tuple[str, ...]) -> dict[str, float | None]:
        return {"slow-loader": 2.0, "foreach": 1.3} if kept else {"slow-loader": 2.0}

    training = Training(predict, TWO)
    state = tune(STATE, training.bench())
    assert training.calls == [
        ("slow-loader", ()),
        ("record", ("slow-loader",)),
        ("foreach", ("slow-loader",)),
        ("record", ("slow-loader", "foreach")),
        ("proof", ("slow-loader", "foreach")),
    ]
    assert [fix.fix for fix in state.fixes] == ["slow-loader", "foreach"]
    assert state.end == rounds.NOTHING_LEFT
    assert tuning_of(state).speedup is not None


def test_what_does_not_confirm_is_dropped_and_not_tried_again() -> None:
    training = Training(
        lambda kept: {"worse": 2.0, "nothing": 1.0 if kept else 1.5, "good": 1.4},
        {"worse": 0.9, "good": 1.4},
    )
    state = tune(STATE, training.bench())
    assert training.tried() == ["worse", "nothing", "good"]
    assert [attempt.is_kept for attempt in state.tries] == [False, False, True]
    assert [attempt.verdict for attempt in state.tries][:2] == [
        TrialVerdict.WORSE,
        TrialVerdict.NOTHING,
    ]


def test_what_gave_nothing_is_tried_again_once_another_fix_exposes_it() -> None:
    training = Training(
        lambda kept: {"loader": 2.0, "hidden": 1.9 if kept else 2.5}, {"loader": 2.0, "hidden": 1.0}
    )
    tune(STATE, training.bench())
    assert training.tried() == ["hidden", "loader", "hidden"]


def test_what_one_process_left_undecided_is_tried_again_in_fresh_ones() -> None:
    training = Training(lambda _: {**TWO}, TWO, open_at_first=frozenset({"slow-loader"}))
    state = tune(STATE, training.bench())
    assert training.tried() == ["slow-loader", "foreach", "slow-loader"]
    assert training.fresh == ["slow-loader"]
    assert [fix.fix for fix in state.fixes] == ["foreach", "slow-loader"]


def test_losses_that_differ_speak_against_a_fix_that_changes_no_result() -> None:
    training = Training(lambda _: {"wrong": 2.0}, {"wrong": 2.0}, parity=Parity.DIFFERENT)
    state = tune(STATE, training.bench())
    assert not state.fixes
    assert state.tries[0].why.startswith("losses differ")
    assert ("proof", ()) not in training.calls


def test_what_is_predicted_within_the_noise_is_not_tried_but_named() -> None:
    training = Training(lambda _: {"tiny": 1.005}, {})
    state = tune(STATE, training.bench())
    assert training.tried() == []
    assert state.remaining[0].startswith("tiny (tiny on): predicted to gain no more than the noise")


def test_a_proof_that_does_not_confirm_leaves_no_gain() -> None:
    state = tune(STATE, Training(lambda _: {"good": 2.0}, {"good": 2.0}, whole=1.0).bench())
    assert [fix.fix for fix in state.fixes] == ["good"]
    assert tuning_of(state).fixes == ()
    assert tuning_of(state).speedup is None


def test_a_spent_budget_leaves_time_for_the_proof_and_names_what_is_left() -> None:
    training = Training(lambda _: {"a": 2.0, "b": 1.9, "c": 1.8}, {"a": 2.0, "b": 1.5, "c": 1.5})
    state = tune(STATE, training.bench(), 3.2 * TRIAL_S)
    assert training.tried() == ["a", "b"]
    assert training.calls[-1][0] == "proof"
    assert state.end == rounds.BUDGET_SPENT
    assert training.now <= 3.5 * TRIAL_S


def test_a_budget_that_holds_no_trial_is_an_error_that_names_one_that_would_do() -> None:
    training = Training(lambda _: {"a": 2.0}, {"a": 2.0}, needed_s=100)
    with pytest.raises(UsageError, match=r"holds no trial: .* --budget 6m would do"):
        tune(STATE, training.bench(), 60)


@pytest.mark.parametrize("call", ["b", "record", "proof"])
def test_an_interruption_keeps_what_is_proven_and_the_next_one_goes_on(call: str) -> None:
    def predict(_: tuple[str, ...]) -> dict[str, float | None]:
        return {"a": 2.0, "b": 1.5}

    training = Training(predict, {"a": 2.0, "b": 1.5}, interrupt=lambda name: name == call)
    state = tune(STATE, training.bench())
    assert state.end == rounds.INTERRUPTED
    assert state.fixes[0].fix == "a"
    assert tuning_of(state).fixes == state.fixes
    assert tuning_of(state).speedup is None
    assert training.saved[-1] == state
    resumed = Training(predict, {"a": 2.0, "b": 1.5})
    finished = tune(state, resumed.bench())
    assert "a" not in resumed.tried()
    assert [fix.fix for fix in finished.fixes] == ["a", "b"]
    assert finished.end == rounds.NOTHING_LEFT
    assert finished.spent_s == pytest.approx(state.spent_s + resumed.now)


def test_a_proof_stays_until_another_fix_is_kept() -> None:
    proven = tune(STATE, Training(lambda _: {"a": 2.0}, {"a": 2.0}).bench())
    idle = Training(lambda _: {"a": 2.0}, {"a": 2.0})
    assert tuning_of(tune(proven, idle.bench(), 1.0)) == tuning_of(proven)
    assert not idle.calls, "nothing is left to try, and nothing to prove"
    more = Training(lambda _: {"a": 2.0, "b": 1.5}, {"a": 2.0, "b": 1.5}, whole=3.0)
    speedup = tuning_of(tune(proven, more.bench())).speedup
    assert speedup is not None
    assert speedup.mid == 3.0
    cut = Training(
        lambda _: {"a": 2.0, "b": 1.5}, {"b": 1.5}, interrupt=lambda name: name == "proof"
    )
    assert tuning_of(tune(proven, cut.bench())).speedup is None, "of another whole"


def test_after_a_kill_any_saved_state_can_be_gone_on_with() -> None:
    training = Training(lambda _: dict(TWO), TWO)
    whole = tune(STATE, training.bench())
    for state in training.saved:
        resumed = tune(state, Training(lambda _: dict(TWO), TWO).bench())
        assert resumed.fixes == whole.fixes
        assert tuning_of(resumed) == tuning_of(whole)


def test_a_record_with_what_is_kept_that_fails_ends_the_rounds_not_the_proof() -> None:
    training = Training(lambda _: dict(TWO), TWO)

    def fail(_: object) -> str:
        raise GaplessError("no steps")

    state = tune(STATE, replace(training.bench(), record=fail))
    assert [fix.fix for fix in state.fixes] == ["slow-loader"]
    assert state.proof is not None
    assert "could not be recorded: no steps" in (state.end or "")


@pytest.mark.parametrize(("cut", "tried"), [("foreach", 1), ("proof", 2)])
def test_a_trial_that_is_cut_short_speaks_against_nothing(cut: str, tried: int) -> None:
    gains = {"slow-loader": 2.0, "foreach": 1.0 if cut == "foreach" else 1.3}
    training = Training(lambda _: dict(TWO), gains, whole=1.0, cut=cut)
    state = tune(STATE, training.bench())
    assert (state.end, state.proof) == (rounds.INTERRUPTED, None)
    assert len(state.tries) == tried
    assert tuning_of(state).fixes == state.fixes != ()
