"""Edits that took no effect: what is told, and when that refuses a side."""

from dataclasses import replace

import pytest

from gapless.model.edit import (
    Applicability,
    Edit,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Where,
    Wrap,
)
from gapless.model.trial import Side, Verdict
from gapless.verify import effects
from gapless.verify.plan import conduct
from gapless.verify.wanted import Candidate, TrialSettings
from tests.study.recording import Log, recording
from tests.verify.arms import Machine, candidate

ARGUMENT = SetArgument("torch.optim.SGD", "fused", value=True, where=Where("a.py", 3))
SAVE = Skip("torch.save")
WRAP = Wrap("torch.compile", "compile")


def side(met: dict[int, int], *edits: Edit, trial: bool = False) -> Side:
    """Try edits that took effect so many times in each arm of theirs."""
    machine = Machine({"A": 20, "B": 10}, met=lambda one: met if one.side == "B" else {})
    kind = Applicability.TRIAL if trial else Applicability.SAME
    wanted = replace(candidate(), edits=edits, applicability=kind)
    asked = TrialSettings("t1", (), clock=machine.clock, windows=False)
    return conduct((wanted,), asked, machine.run, lambda _: None).sides[0]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (ARGUMENT, "the edit took no effect: torch.optim.SGD was never called at a.py:3"),
        (SetGlobal("torch.x", 1), "the edit took no effect: there was no torch.x"),
        (WRAP, "the edit took no effect: there was nothing to do for compile"),
    ],
)
def test_an_edit_that_took_no_effect_is_refused(edit: Edit, why: str) -> None:
    found = side({0: 0}, edit)
    assert (found.verdict, found.why) == (Verdict.REFUSED, why)


def test_a_call_that_was_never_made_leaves_nothing_to_skip_and_that_is_a_result() -> None:
    found = side({0: 0}, SAVE)
    assert found.verdict is Verdict.CONFIRMED
    assert found.why == "took no effect: torch.save was never called"
    assert side({0: 0}, WRAP, trial=True).verdict is Verdict.CONFIRMED


def test_of_several_edits_those_without_effect_are_named() -> None:
    found = side({0: 0, 1: 4}, ARGUMENT, WRAP)
    assert found.verdict is Verdict.CONFIRMED
    assert found.why == "took no effect: torch.optim.SGD was never called at a.py:3"


@pytest.mark.parametrize("met", [{0: 1}, {}, {0: 3, 1: 0}])
def test_of_what_took_effect_or_was_not_told_of_nothing_is_said(met: dict[int, int]) -> None:
    found = side(met, ARGUMENT)  # number 1: what keeps loggers quiet
    assert (found.verdict, found.why) == (Verdict.CONFIRMED, None)


def test_a_variable_of_the_environment_is_not_told_of() -> None:
    assert side({1: 0}, SetEnv("X", "1"), ARGUMENT).verdict is Verdict.CONFIRMED


def test_a_worker_that_an_edit_takes_effect_in_is_enough() -> None:
    logs = [Log(), Log(role="worker", worker=0, loader=0)]
    for log, times in zip(logs, (0, 2), strict=True):
        log.fact("edit", 0, None, edit=0, target="x", times=times)
    assert effects.idle((WRAP,), [recording(*logs, ended=1)]) == ()


def test_no_more_than_three_are_named() -> None:
    many = [Skip(f"a{at}") for at in range(5)]
    assert effects.told(many).endswith("a2 was never called; and 2 more")


def test_a_candidate_without_edits_is_measured() -> None:
    wanted = Candidate((), "A/A", (), Applicability.SAME)
    machine = Machine({"A": 20, "B": 20})
    asked = TrialSettings("t1", (), clock=machine.clock, windows=False)
    (found,) = conduct((wanted,), asked, machine.run, lambda _: None).sides
    assert (found.verdict, found.why) == (Verdict.NOTHING, None)
