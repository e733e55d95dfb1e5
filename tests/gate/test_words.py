"""What a gate prints, and the baseline that it stores."""

import json
import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.gate.baseline import (
    MAX_SESSIONS,
    Baseline,
    BaselineSession,
    MachineKind,
    add_session,
    read_baseline,
    write_baseline,
)
from gapless.gate.budgets import Budget, judge_budgets
from gapless.gate.deciding import GateResult, check_baseline
from gapless.gate.figures import BASE, ArmFigures, LineShare
from gapless.gate.judging import Effect, LeafGrowth
from gapless.gate.lines import GrownLine
from gapless.gate.words import github_of, json_of, markdown_of, text_of

GREEN = GateResult(
    against="git:main (1a2b3c4)",
    revision="9be28e4",
    effect=Effect(-0.01, 0.002, 0.012, 0.01, 0.034),
    is_confirmed=False,
    is_suspected=False,
    growths=(),
    line=None,
    anchor="SGD.step, train.py:20",
    step_ns=(10e6, 10.02e6),
    budgets=(),
    arms=(),
    stored=(),
    confirming_turn=None,
    notes=(),
    took_s=61.0,
)
RED = replace(
    GREEN,
    effect=Effect(0.05, 0.07, 0.09, 0.01, 0.04),
    is_confirmed=True,
    is_suspected=True,
    growths=(LeafGrowth("idle.data.decode", 1e6, 1.7e6), LeafGrowth("step", 9e6, 9e6)),
    line=GrownLine("a,b.py", 12, "load", "decode(x)", 0.7e6, is_new=True),
)
MACHINE = MachineKind("A processor", 8, ("A GPU",), (("torch", "2.13.0"),))
ARM = ArmFigures(
    BASE, 0, (1e6, 1.1e6), {"step": 1e6}, {"data": 0.0}, windowed=False, memory=5,
    lines=(LineShare("train.py", 3, "main", "step()", loads=False, share=0.5, looks=20),),
)  # fmt: skip


def test_a_green_gate_says_what_it_could_have_seen() -> None:
    assert not GREEN.is_red
    assert "gate green: no regression is proven against git:main (1a2b3c4)" in text_of(GREEN)
    assert "the smallest slow-down that would have been seen: 3.4%" in text_of(GREEN)
    notice, _, _ = github_of(GREEN).partition("\n")
    assert notice.startswith("::notice title=Training speed::gate green")
    assert notice.endswith("would have been seen: 3.4%25"), "GitHub's own escape"
    blind = replace(GREEN, effect=Effect(-math.inf, 0.1, math.inf, math.inf, math.inf))
    assert "would have been seen: more than 100% (longer arms see more: --arm)" in text_of(blind)
    values = json.loads(json_of(blind), parse_constant=pytest.fail)
    assert (values["smallest_visible"], values["slowdown"]["mid"]) == (None, 0.1)


def test_a_red_gate_names_leaf_and_line() -> None:
    assert RED.is_red
    text = text_of(RED)
    assert "step 10.00 ms → 10.02 ms; pair by pair +7.0% (+5.0% … +9.0%)" in text
    assert "grew: idle.data.decode (data)" in text
    assert "at a,b.py:12, load: decode(x)" in text
    assert "step (step)" not in text  # it did not grow
    assert github_of(RED).startswith("::error file=a%2Cb.py,line=12,title=Training is slower::")
    assert markdown_of(RED).startswith("**gate red: a step is slower than with git:main")
    values = json.loads(json_of(RED))
    assert (values["verdict"], values["line"]["line"]) == ("red", 12)
    assert [growth["leaf"] for growth in values["grown"]] == ["idle.data.decode"]


def test_a_suspicion_that_was_not_confirmed_is_said() -> None:
    suspected = replace(GREEN, is_suspected=True)
    assert not suspected.is_red
    assert "a second, fresh one did not confirm it" in text_of(suspected)


def test_why_a_slow_down_is_not_proven_is_said() -> None:
    noisy = replace(GREEN, effect=Effect(0.157, 0.409, 0.717, 0.29, 0.73))
    assert "not proven: as much as 29.0% may come of how arms of one side differ" in text_of(noisy)
    assert "not proven" not in text_of(GREEN)


def test_a_broken_budget_is_red_by_itself() -> None:
    budget = Budget("memory", 4.0, "B", "4 B")
    broken = replace(GREEN, against=None, effect=None, budgets=judge_budgets([budget], [ARM, ARM]))
    assert broken.is_red
    assert text_of(broken).startswith("gate red: budget broken: memory")
    assert "::error title=Budget broken::memory ≤ 4 B: 5 B" in github_of(broken)
    assert json.loads(json_of(broken))["budgets"][0]["broken"]


def test_a_baseline_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "gapless-gate.json"
    baseline = Baseline(("python", "train.py"), MACHINE, (BaselineSession("9be28e4", (ARM, ARM)),))
    write_baseline(path, baseline)
    assert read_baseline(path) == baseline
    many = baseline
    for _ in range(MAX_SESSIONS + 2):
        many = add_session(many, BaselineSession("", (ARM,)))
    assert len(many.sessions) == MAX_SESSIONS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no baseline"),
        ("[]", "is no baseline"),
        ("[" * 100_000, "is no baseline"),
        ('{"format": 9}', "by a newer gapless"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "gapless-gate.json"
    with pytest.raises(UsageError, match="--update writes it"):
        read_baseline(path)
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_baseline(path)


def test_times_of_another_machine_are_not_compared() -> None:
    baseline = Baseline(("python", "train.py"), MACHINE, ())
    elsewhere = replace(MACHINE, processors=16)
    with pytest.raises(UsageError, match=r"of another machine .A processor × 8, A GPU; this is"):
        check_baseline(baseline, baseline.command, elsewhere)
    with pytest.raises(UsageError, match="of another command"):
        check_baseline(baseline, ("python", "other.py"), MACHINE)
    newer = replace(MACHINE, versions=(("torch", "2.14.0"),))
    assert check_baseline(baseline, baseline.command, newer) == (
        "the baseline was measured with torch 2.13.0, this is 2.14.0",
    )
