"""Pages of trials and tunings: what was measured, accounts to one scale, names as text."""

import pytest
from msgspec.structs import replace

from gapless.model.account import Account
from gapless.model.trial import Trial
from gapless.model.tuning import TuningState
from gapless.page.bars import pair_bars
from gapless.page.trials import trial_page, tuning_page
from gapless.report.sections.trials import trial_headline
from gapless.report.sections.tuning import tuning_headline
from gapless.tune.rounds import tune, tuning_of
from tests.page.reading import Page
from tests.report.test_trials import TRIAL
from tests.report.test_tuning import account
from tests.tune.fakes import STATE, Training

HOSTILE = "</script><img src=x onerror=alert(1)>"


def with_accounts(trial: Trial, before: Account, after: Account) -> Trial:
    sides = tuple(replace(side, account=after) for side in trial.sides)
    return replace(trial, account=before, sides=sides)


def tuned() -> TuningState:
    state = tune(STATE, Training(lambda _: {"loader": 2.0}, {"loader": 2.0}).bench())
    assert state.proof is not None
    proof = with_accounts(state.proof, account(150_000_000), account(15_000_000))
    return replace(state, proof=proof)


def test_a_trial_shows_each_side_with_both_intervals_and_all_arms() -> None:
    page = Page(trial_page(TRIAL))
    assert trial_headline(TRIAL) in page.text
    gains = page.charts["gains"]
    assert [gain.get("measured") for gain in gains] == [
        None if side.speedup is None else [side.speedup.low, side.speedup.mid, side.speedup.high]
        for side in TRIAL.sides
        if side.speedup is not None or side.predicted is not None
    ]
    counted = [arm for arm in TRIAL.arms if arm.failed is None and arm.step_ns is not None]
    assert page.charts["arms"].get("side", []) == [arm.side for arm in counted]


def test_a_trial_without_accounts_shows_none() -> None:
    assert "accounts" not in Page(trial_page(replace(TRIAL, account=None))).ids()


def test_what_was_not_measured_has_no_figure() -> None:
    sides = tuple(replace(side, speedup=None, predicted=None) for side in TRIAL.sides)
    page = Page(trial_page(replace(TRIAL, sides=sides, arms=())))
    assert page.charts == {"gains": [], "arms": {}}
    assert "measured" not in page.ids()


def test_two_steps_are_drawn_to_one_scale() -> None:
    before, after = {"data": 150.0, "compute": 50.0}, {"data": 10.0, "compute": 50.0}
    pair = pair_bars("with it", ("now", "then"), before, after)
    assert sum(part.share for part in pair.before) == pytest.approx(1.0)
    assert sum(part.share for part in pair.after) == pytest.approx(60 / 200)


def test_a_tuning_shows_its_tries_its_proof_and_what_to_do_next() -> None:
    state = tuned()
    page = Page(tuning_page(state, tuning_of(state), None))
    assert tuning_headline(state, tuning_of(state)) in page.text
    assert {"rows", "measured", "accounts"} <= page.ids()
    assert len(page.charts["gains"]) == len(state.tries) + 1
    assert page.charts["gains"][-1]["label"] == "all that is kept"


def test_names_of_a_trial_are_text() -> None:
    sides = tuple(replace(side, fixes=(HOSTILE,), summary=HOSTILE) for side in TRIAL.sides)
    page = Page(trial_page(replace(TRIAL, command=("python", HOSTILE), sides=sides)))
    assert "img" not in {tag for tag, _ in page.elements}
    assert HOSTILE in page.text
    assert page.open == []
