"""Checks of the replay in words: with a trial, and with the replay of later reports."""

from dataclasses import replace

import pytest

from gapless.model.edit import Applicability
from gapless.model.trial import Agreement, Check, DelayCost, TrialVerdict
from gapless.report.documents.trials import trial_objects
from gapless.report.sections.checks import check_headline, check_line, check_lines
from tests.report.test_trials import FASTER, TRIAL, trial_text

CHECK = Check(
    place="the loader",
    delay_ns=3_000_000,
    most_ns=1_500_000,
    predicted=DelayCost(0.9e6, 1.2e6, 1.44e6),
    family="feed",
    measured=DelayCost(1.1e6, 1.3e6, 1.5e6),
    agreement=Agreement.WITHIN,
)
SIDE = replace(
    FASTER,
    applicability=Applicability.ABLATION,
    verdict=TrialVerdict.WORSE,
    check=CHECK,
    fixes=("delay",),
)
CHECKED = replace(TRIAL, sides=(SIDE,))


def test_what_was_predicted_and_what_was_measured_stand_together() -> None:
    assert check_line(CHECK) == (
        "a delay of 3 ms in the loader was predicted to cost 1.20 ms [0.90 … 1.44] a step, "
        "measured 1.30 ms [1.10 … 1.50]: as predicted"
    )
    assert check_line(replace(CHECK, measured=None)).endswith("; it was not measured")


def test_the_screen_of_a_check_speaks_of_no_gain() -> None:
    text = trial_text(CHECKED)
    assert "the replay holds in the loader" in text
    assert check_line(CHECK)[:60] in text
    assert " within\n" in text
    assert "worse" not in text
    assert "ablation" not in text


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (Agreement.NEAR, "the replay holds in the loader"),
        (Agreement.FAR, "the replay does not hold in the loader"),
        (Agreement.UNDECIDED, "too noisy to check the replay"),
    ],
)
def test_the_headline_is_how_it_went(agreement: Agreement, words: str) -> None:
    assert check_headline([replace(CHECK, agreement=agreement)]) == words


def test_a_refused_delay_is_told_as_one() -> None:
    side = replace(SIDE, verdict=TrialVerdict.REFUSED, why="the edit took no effect")
    text = trial_text(replace(CHECKED, sides=(side,)))
    assert "refused" in text
    assert "the edit took no effect" in text


def test_later_reports_have_the_latest_check_of_each_place() -> None:
    later = replace(SIDE, check=replace(CHECK, agreement=Agreement.FAR))
    never = replace(SIDE, check=replace(CHECK, place="the training thread", measured=None))
    (line,) = check_lines([CHECKED, replace(TRIAL, sides=(later, never, FASTER))])
    assert "not as predicted" in line


def test_json_has_the_check() -> None:
    documents = trial_objects([CHECKED, TRIAL])
    assert [document.check for document in documents] == [CHECK, None, None]
