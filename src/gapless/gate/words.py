"""The result of a gate in words: text, Markdown, annotations of GitHub, JSON."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gapless.gate.budgets import MEMORY, SHARE, BudgetResult
from gapless.gate.deciding import GateResult, name_group
from gapless.gate.figures import ArmFigures, figures_to_json
from gapless.gate.judging import Effect, LeafGrowth
from gapless.gate.lines import GrownLine
from gapless.report.text.numbers import duration, size
from gapless.verify.arms import compare

_MAX_VISIBLE: Final = 1.0  # a slow-down beyond which the figure says nothing
_MAX_GROWTHS: Final = 4
_MIN_GROWTH: Final = 0.05  # of the largest, for another leaf to be named
_COLUMNS: Final = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))


def text_of(result: GateResult) -> str:
    """Return the result as plain text."""
    return "\n".join(_lines(result))


def markdown_of(result: GateResult) -> str:
    """Return the result as Markdown, as for a step summary."""
    head, *others = _lines(result)
    items = [f"- {line.strip()}" for line in others if line.strip()]
    return "\n".join([f"**{head}**", "", *items])


def github_of(result: GateResult) -> str:
    """Return the result as annotations of GitHub, the text behind them."""
    return "\n".join((*_annotations(result), text_of(result)))


def json_of(result: GateResult) -> str:
    """Return the result as one JSON object (docs/json.md)."""
    effect = result.effect
    line = result.line
    values: dict[str, Any] = {
        "gate": 1,
        "verdict": "red" if result.is_red else "green",
        "against": result.against,
        "revision": result.revision or None,
        "regression": result.is_confirmed,
        "suspected": result.is_suspected,
        "slowdown": None
        if effect is None
        else {name: _finite(getattr(effect, name)) for name in ("low", "mid", "high")},
        "smallest_visible": None if effect is None else _finite(effect.visible),
        "step_ns": {"base": result.step_ns[0], "new": result.step_ns[1]},
        "grown": [_growth_values(growth) for growth in result.growths if growth.delta_ns > 0],
        "line": None if line is None else _line_values(line),
        "budgets": [_budget_values(budget) for budget in result.budgets],
        "arms": len(result.arms),
        "seconds": round(result.took_s, 1),
        "notes": list(result.notes),
    }
    return json.dumps(values, indent=1, ensure_ascii=False)


def _finite(value: float) -> float | None:
    """Return a number as JSON has it: nothing for what is not known (one pair has no interval)."""
    return value if math.isfinite(value) else None


def measured_json(result: GateResult) -> str:
    """Return what each arm measured, a line for each, by which the verdict can be judged again."""
    head = {
        "verdict": "red" if result.is_red else "green",
        "visible": None if result.effect is None else result.effect.visible,
        "against": result.against,
        "confirming_turn": result.confirming_turn,
    }
    parts = [
        f"{json.dumps(name)}: [\n{_arm_lines(arms)}\n]"
        for name, arms in (("stored", result.stored), ("arms", result.arms))
    ]
    return f"{json.dumps(head)[:-1]}, {', '.join(parts)}}}\n"


def _arm_lines(arms: Sequence[ArmFigures]) -> str:
    return ",\n".join(json.dumps(figures_to_json(arm)) for arm in arms)


FORMATS: Final[Mapping[str, Callable[[GateResult], str]]] = {
    "text": text_of,
    "markdown": markdown_of,
    "github": github_of,
}


def _lines(result: GateResult) -> Iterator[str]:
    yield _headline(result)
    if result.effect is not None:
        yield from _effect_lines(result, result.effect)
    for growth in _select_growths(result):
        yield f"  grew: {_growth_text(growth)}"
    if result.line is not None:
        yield f"  at {_line_text(result.line)}"
    elif result.is_confirmed:
        yield f"  no line of source stands out (a step ends at {result.anchor})"
    for budget in result.budgets:
        yield f"  budget: {_budget_text(budget)}"
    yield from (f"  note: {note}" for note in result.notes)
    yield f"  {len(result.arms)} arms in {result.took_s:.0f} s"


def _headline(result: GateResult) -> str:
    reasons = [f"a step is slower than with {result.against}"] * result.is_confirmed
    reasons += [
        f"budget broken: {budget.budget.name}" for budget in result.budgets if budget.is_broken
    ]
    if reasons:
        return f"gate red: {'; '.join(reasons)}"
    if result.against is None:
        return "gate green: no budget is proven broken"
    return f"gate green: no regression is proven against {result.against}"


def _effect_lines(result: GateResult, effect: Effect) -> Iterator[str]:
    base_ns, new_ns = result.step_ns
    if base_ns is not None and new_ns is not None:
        basis_words = ":" if result.stored else "; pair by pair"  # not the ratio of the two means
        yield (
            f"  step {duration(base_ns)} → {duration(new_ns)}{basis_words} {effect.mid:+.1%} "
            f"({effect.low:+.1%} … {effect.high:+.1%})"
        )
    yield f"  {_visible_text(effect)}"
    if compare.MIN_EFFECT < effect.low <= effect.bar:
        yield f"  not proven: as much as {effect.bar:.1%} may come of how arms of one side differ"
    if result.is_suspected and not result.is_confirmed:
        yield "  a first set of arms was slower; a second, fresh one did not confirm it"


def _visible_text(effect: Effect) -> str:
    words = "the smallest slow-down that would have been seen:"
    if effect.visible <= _MAX_VISIBLE:
        return f"{words} {effect.visible:.1%}"
    return f"{words} more than {_MAX_VISIBLE:.0%} (longer arms see more: --arm)"


def _select_growths(result: GateResult) -> list[LeafGrowth]:
    growths = result.growths[:_MAX_GROWTHS]
    least = _MIN_GROWTH * growths[0].delta_ns if growths else 0.0
    return [growth for growth in growths if growth.delta_ns > max(0.0, least)]


def _growth_text(growth: LeafGrowth) -> str:
    group = name_group(growth.leaf)
    return (
        f"{growth.leaf} ({group}) {duration(growth.base_ns)} → {duration(growth.new_ns)} a step, "
        f"+{duration(growth.delta_ns)}"
    )


def _line_text(line: GrownLine) -> str:
    code = f": {line.text}" if line.text else ""
    return f"{line.file}:{line.line}, {line.function}{code} (+{duration(line.delta_ns)} a step)"


def _budget_text(result: BudgetResult) -> str:
    budget = result.budget
    if result.mid is None:
        return f"{budget.name} ≤ {budget.text}: not observed"
    values = [_amount(result, value) for value in (result.low, result.mid, result.high)]
    interval = f" ({values[0]} … {values[2]})" if result.low is not None else ""
    verdict = "broken" if result.is_broken else "kept" if result.is_kept else "not decided"
    return f"{budget.name} ≤ {budget.text}: {values[1]}{interval}, {verdict}"


def _amount(result: BudgetResult, value: float | None) -> str:
    if value is None:
        return "?"
    if result.budget.unit == SHARE:
        return f"{value:.1%}"
    return size(value) if result.budget.name == MEMORY else duration(value)


def _annotations(result: GateResult) -> Iterator[str]:
    if result.is_confirmed and result.effect is not None:
        effect, line = result.effect, result.line
        property_words = (
            "" if line is None else f"file={_escape_property(line.file)},line={line.line},"
        )
        largest = f"; {_growth_text(result.growths[0])}" if result.growths else ""
        text = (
            f"a step takes {effect.mid:+.1%} ({effect.low:+.1%} … {effect.high:+.1%}) "
            f"against {result.against}{largest}"
        )
        yield f"::error {property_words}title=Training is slower::{_escape(text)}"
    for budget in result.budgets:
        if budget.is_broken:
            yield f"::error title=Budget broken::{_escape(_budget_text(budget))}"
    if not result.is_red:
        effect_words = "" if result.effect is None else f"; {_visible_text(result.effect)}"
        yield f"::notice title=Training speed::{_escape(_headline(result) + effect_words)}"


def _escape(text: str) -> str:
    for sign, code in _COLUMNS:
        text = text.replace(sign, code)
    return text


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _growth_values(growth: LeafGrowth) -> dict[str, Any]:
    return {
        "leaf": growth.leaf,
        "group": name_group(growth.leaf),
        "base_ns": growth.base_ns,
        "new_ns": growth.new_ns,
    }


def _line_values(line: GrownLine) -> dict[str, Any]:
    return {
        "file": line.file,
        "line": line.line,
        "function": line.function,
        "text": line.text,
        "delta_ns": line.delta_ns,
        "new": line.is_new,
    }


def _budget_values(result: BudgetResult) -> dict[str, Any]:
    return {
        "name": result.budget.name,
        "budget": result.budget.text,
        "low": result.low,
        "mid": result.mid,
        "high": result.high,
        "broken": result.is_broken,
    }
