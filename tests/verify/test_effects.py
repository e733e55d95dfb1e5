"""Edits that took no effect: what is told, and when that refuses a side."""

import pytest
from msgspec.structs import replace

from gapless.model.edit import (
    Applicability,
    Edit,
    Location,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Wrap,
)
from gapless.model.trial import Side, TrialVerdict
from gapless.verify.arms import effects
from gapless.verify.plan import conduct
from gapless.verify.specs import Candidate, TrialSettings
from tests.study.recording import Log, recording
from tests.verify.arms import Machine, candidate

ARGUMENT = SetArgument("torch.optim.SGD", "fused", value=True, where=Location("a.py", 3))
SAVE = Skip("torch.save")
WRAP = Wrap("torch.compile", "compile")


def try_edits(edit_counts: dict[int, int], *edits: Edit, is_ablation: bool = False) -> Side:
    """Try edits that took effect so many times in each arm of theirs."""
    machine = Machine(
        {"A": 20, "B": 10}, edit_counts=lambda spec: edit_counts if spec.side == "B" else {}
    )
    kind = Applicability.ABLATION if is_ablation else Applicability.IDENTICAL
    edited = replace(candidate(), edits=edits, applicability=kind)
    settings = TrialSettings("t1", (), clock=machine.clock, windows=False)
    return conduct((edited,), settings, machine.run, lambda _: None).sides[0]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (ARGUMENT, "the edit took no effect: torch.optim.SGD was never called at a.py:3"),
        (SetGlobal("torch.x", 1), "the edit took no effect: there was no torch.x"),
        (WRAP, "the edit took no effect: there was nothing to do for compile"),
    ],
)
def test_an_edit_that_took_no_effect_is_refused(edit: Edit, why: str) -> None:
    side = try_edits({0: 0}, edit)
    assert (side.verdict, side.why) == (TrialVerdict.REFUSED, why)


def test_a_call_that_was_never_made_leaves_nothing_to_skip_and_that_is_a_result() -> None:
    side = try_edits({0: 0}, SAVE)
    assert side.verdict is TrialVerdict.CONFIRMED
    assert side.why == "took no effect: torch.save was never called"
    assert try_edits({0: 0}, WRAP, is_ablation=True).verdict is TrialVerdict.CONFIRMED


def test_of_several_edits_those_without_effect_are_named() -> None:
    side = try_edits({0: 0, 1: 4}, ARGUMENT, WRAP)
    assert side.verdict is TrialVerdict.CONFIRMED
    assert side.why == "took no effect: torch.optim.SGD was never called at a.py:3"


@pytest.mark.parametrize("edit_counts", [{0: 1}, {}, {0: 3, 1: 0}])
def test_of_what_took_effect_or_was_not_told_of_nothing_is_said(
    edit_counts: dict[int, int],
) -> None:
    side = try_edits(edit_counts, ARGUMENT)  # number 1: what keeps loggers quiet
    assert (side.verdict, side.why) == (TrialVerdict.CONFIRMED, None)


def test_a_variable_of_the_environment_is_not_told_of() -> None:
    assert try_edits({1: 0}, SetEnv("X", "1"), ARGUMENT).verdict is TrialVerdict.CONFIRMED


def test_a_worker_that_an_edit_takes_effect_in_is_enough() -> None:
    logs = [Log(), Log(role="worker", worker=0, loader=0)]
    for log, times in zip(logs, (0, 2), strict=True):
        log.add_fact("edit", 0, None, edit=0, target="x", times=times)
    assert effects.find_idle_edits((WRAP,), [recording(*logs, ended_ms=1)]) == ()


def test_no_more_than_three_are_named() -> None:
    skips = [Skip(f"a{index}") for index in range(5)]
    assert effects.describe_idle_edits(skips).endswith("a2 was never called; and 2 more")


def test_a_candidate_without_edits_is_measured() -> None:
    unedited = Candidate((), "A/A", (), Applicability.IDENTICAL)
    machine = Machine({"A": 20, "B": 20})
    settings = TrialSettings("t1", (), clock=machine.clock, windows=False)
    (side,) = conduct((unedited,), settings, machine.run, lambda _: None).sides
    assert (side.verdict, side.why) == (TrialVerdict.NOTHING, None)


def test_how_far_pixels_are_off_is_said() -> None:
    words = "scaled: the first picture differs by at most 12 of 255, by 0.90 on average"
    edits = (WRAP, Wrap("torch.utils.data.DataLoader", "reduced-decoding"))
    logs = [Log(), Log(role="worker", worker=0, loader=0)]
    logs[0].add_fact("edit", 0, None, edit=1, target="x", new=None, times=0)
    logs[1].add_fact("edit", 0, None, edit=1, target="x", new=words, times=1)
    records = [recording(*logs, ended_ms=1)]
    assert effects.describe_effects(edits, records) == words
    assert effects.describe_effects(edits[:1], records) is None
