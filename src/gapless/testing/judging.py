"""Judge what a test took: which budgets it broke, in sentences."""

from collections.abc import Iterator

from msgspec import Struct

from gapless.errors import GaplessError
from gapless.gate.budgets import SHARE, STEP, Budget
from gapless.model.leaf import GROUPS
from gapless.report.text.numbers import duration
from gapless.testing.limits import Limits
from gapless.testing.measuring import BlockFigures
from gapless.testing.stored import StoredStep


class LimitResult(Struct, frozen=True):
    """One limit, what was measured of it, and whether it is broken."""

    text: str  # "step 21.3 ms (20.9 to 21.8 ms), at most 20 ms"
    is_broken: bool


def judge_block(
    limits: Limits, figures: BlockFigures, stored: StoredStep | None
) -> tuple[LimitResult, ...]:
    """Judge every limit. Raises ``GaplessError`` where one cannot be measured."""
    return tuple(_judge_limits(limits, figures, stored))


def _judge_limits(
    limits: Limits, figures: BlockFigures, stored: StoredStep | None
) -> Iterator[LimitResult]:
    for budget in limits.budgets:
        yield _judge_step(budget, figures) if budget.name == STEP else _judge_part(budget, figures)
    if limits.syncs is not None:
        yield _judge_syncs(limits.syncs, figures)
    if limits.slower is not None:
        yield _judge_slower(limits.slower, figures, stored)


def _judge_step(budget: Budget, figures: BlockFigures) -> LimitResult:
    return LimitResult(
        f"{_step_text(figures)}, at most {budget.text}", figures.low_ns > budget.limit
    )


def _judge_part(budget: Budget, figures: BlockFigures) -> LimitResult:
    """Judge a leaf or a group by what it took of the steps: one value, without an interval."""
    arm = figures.arm
    charges = arm.groups if budget.name in GROUPS else arm.leaves
    total_ns = sum(arm.leaves.values())
    ns = charges.get(budget.name, 0.0)
    if not total_ns or (budget.name != "data" and not arm.windowed):
        raise GaplessError(
            f"{budget.name} was not measured: no window of the profiler fitted into the block; "
            "let the test train longer"
        )
    value = ns / total_ns if budget.unit == SHARE else ns
    value_words = f"{value:.1%}".replace("%", " %") if budget.unit == SHARE else duration(round(ns))
    return LimitResult(
        f"{budget.name} {value_words} of a step, at most {budget.text}", value > budget.limit
    )


def _judge_syncs(limit: float, figures: BlockFigures) -> LimitResult:
    if figures.syncs is None:
        raise GaplessError(
            "syncs were not measured: no window of the profiler saw a device at work, and on the "
            "processor alone nothing synchronises"
        )
    return LimitResult(
        f"{figures.syncs:.3g} synchronisations a step, at most {limit:.3g}", figures.syncs > limit
    )


def _judge_slower(slower: float, figures: BlockFigures, stored: StoredStep | None) -> LimitResult:
    """Judge by both intervals: slower is proven where they lie apart by more than allowed."""
    if stored is None:
        text = f"{_step_text(figures)}; no baseline (pytest --gapless-update)"
        return LimitResult(text, is_broken=False)
    if not stored.machine.is_like(figures.machine):
        text = f"{_step_text(figures)}; not compared: the baseline is of "
        return LimitResult(text + stored.machine.describe(), is_broken=False)
    ratio = figures.step_ns / stored.step_ns - 1
    sign = "+" if ratio >= 0 else "−"
    return LimitResult(
        f"{_step_text(figures)}, {sign}{abs(ratio):.1%} on the baseline of "
        f"{duration(stored.step_ns)}, at most +{slower:.0%}".replace("%", " %"),
        figures.low_ns > (1 + slower) * stored.high_ns,
    )


def _step_text(figures: BlockFigures) -> str:
    low, high = duration(figures.low_ns), duration(figures.high_ns)
    return f"step {duration(figures.step_ns)} ({low} to {high})"
