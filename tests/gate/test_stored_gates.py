"""Gates that were measured once are judged as they were: no patch release turns a build red."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gapless.gate.figures import ArmFigures, figures_from_json
from gapless.gate.judging import Effect, combine, judge_against_sessions, judge_pairs

GATES = sorted((Path(__file__).parents[1] / "data/gate").glob("*.json"))


def judge(arms: Sequence[ArmFigures], stored: Sequence[ArmFigures]) -> Effect:
    effect = (
        judge_against_sessions(
            [[arm.step_ns for arm in stored if not arm.windowed]], [arm.step_ns for arm in arms]
        )
        if stored
        else judge_pairs(arms)
    )
    assert effect is not None
    return effect


def rejudge(gate: dict[str, Any]) -> tuple[str, float]:
    """Return the verdict of a stored gate, and the smallest slow-down that it could have seen."""
    arms, stored = ([figures_from_json(arm) for arm in gate[name]] for name in ("arms", "stored"))
    counted = [arm for arm in arms if not arm.windowed]
    confirming = gate["confirming_turn"]
    first = [arm for arm in counted if confirming is None or arm.turn < confirming]
    effect = judge(first, stored)
    if not effect.is_slower:
        return "green", effect.visible
    second = judge([arm for arm in counted if arm not in first], stored)
    both = combine(effect, second, judge(counted, stored))
    return "red" if second.is_slower else "green", both.visible


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_a_stored_gate_is_judged_as_it_was(path: Path) -> None:
    gate = json.loads(path.read_text(encoding="utf-8"))
    verdict, visible = rejudge(gate)
    assert verdict == gate["verdict"]
    assert visible == pytest.approx(gate["visible"], rel=0.05)
