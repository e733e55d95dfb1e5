"""Each of the first causes is known from a recording that has it, and from some that have not.

``tests/zoo/spoken.json`` keeps what each rule said of each recording: ``benchmarks.spoken``.
"""

import json
from functools import cache
from typing import Any

import pytest

from benchmarks.spoken import OUTCOMES, SPOKEN_PATH, codes_by_outcome, open_study, recordings
from gapless.catalogue.rules import RULES
from tests.jobs.cases import TRUTHS
from tests.zoo import small_faults

# The causes that come first, by the codes of the rules that know them.
FIRST_CAUSES = {
    "loader in the training process": ("G101",),
    "too few workers": ("G102",),
    "too many workers or threads": ("G103", "G113"),
    "prefetch too shallow, heavy-tailed samples": ("G104",),
    "workers restarted each epoch": ("G105",),
    "read-bound": ("G106",),
    "decode-bound": ("G107",),
    "augment-bound": ("G108",),
    "tokenise-bound": ("G109",),
    "collate-bound": ("G110",),
    "hand-over-bound": ("G111",),
    "pageable or blocking copies": ("G301", "G302"),
    "copy not overlapped": ("G303",),
    "sync in the step": ("G305", "G306", "G307", "G308"),
    "preprocessing in the training thread": ("G203",),
    "Python-bound": ("G202",),
    "launch-bound": ("G201",),
    "loops over parameters": ("G204", "G206", "G207"),
    "optimizer not fused": ("G205",),
    "collector": ("G208",),
    "debug switches and profilers left on": ("G209", "G212"),
    "allocator": ("G401", "G402"),
    "fp32 without TF32 or AMP": ("G501", "G502"),
    "NCHW under AMP": ("G504",),
    "unfused attention": ("G505",),
    "elementwise-bound": ("G506",),
    "checkpoint, logging, evaluation in the way": ("G701", "G702", "G703"),
    "evaluation with autograd": ("G704",),
    "throttled, shared or never-used GPU": ("G801", "G802", "G803"),
}


@cache
def kept_outcomes() -> dict[str, Any]:
    return json.loads(SPOKEN_PATH.read_text())


def is_named(codes: tuple[str, ...]) -> bool:
    """Return whether a recording has the cause, and is told so: named, or worth a trial."""
    return any(
        {*outcomes["findings"], *outcomes["to_try"]} & {*codes}
        for outcomes in kept_outcomes().values()
    )


def test_every_recording_was_asked() -> None:
    assert kept_outcomes().keys() == recordings().keys()
    codes = {rule.code for rule in RULES}
    assert all(
        {*outcomes[outcome]} <= codes
        for outcomes in kept_outcomes().values()
        for outcome in OUTCOMES
    )


def test_first_causes_are_named_of_a_recording() -> None:
    assert [name for name, codes in FIRST_CAUSES.items() if not is_named(codes)] == []


@pytest.mark.parametrize("codes", FIRST_CAUSES.values(), ids=FIRST_CAUSES)
def test_first_causes_are_not_named_of_others(codes: tuple[str, ...]) -> None:
    checked = [
        outcomes for outcomes in kept_outcomes().values() if {*codes} - {*outcomes["abstentions"]}
    ]
    assert any(not {*codes} & {*outcomes["findings"], *outcomes["to_try"]} for outcomes in checked)


def test_every_rule_speaks_of_a_recording_or_has_a_small_training() -> None:
    spoken_codes = {
        code
        for outcomes in kept_outcomes().values()
        for outcome in OUTCOMES[:3]
        for code in outcomes[outcome]
    }
    small_codes = small_faults.FAULTS.keys() | small_faults.DEVICE_FAULTS.keys()
    job_codes = {code for truth in TRUTHS.values() for code in truth.codes}
    unheard_codes = {rule.code for rule in RULES} - spoken_codes - small_codes - job_codes
    assert not unheard_codes, "no recording has these: add a training to tests/zoo/small_faults.py"


def test_findings_have_a_remedy_or_the_reason_why_there_is_none() -> None:
    assert [name for name, outcomes in kept_outcomes().items() if outcomes["no_remedy"]] == []


@pytest.mark.slow
def test_what_was_kept_is_what_is_said() -> None:
    name = "clicks-lean-c"
    assert codes_by_outcome(open_study(recordings()[name])) == kept_outcomes()[name]
