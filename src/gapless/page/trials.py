"""Trials and tunings as pages: what was measured, arm by arm, and where a step goes since."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from gapless.model.estimate import Estimate
from gapless.model.leaf import PRINTED
from gapless.model.trial import Side, Trial
from gapless.model.tuning import TriedFix, Tuning, TuningState
from gapless.page.bars import BarPair, pair_bars, step_groups
from gapless.page.document import render_page
from gapless.report.sections.trials import (
    method_text,
    side_remarks,
    trial_headline,
    trial_rows,
    words,
)
from gapless.report.sections.tuning import (
    attempt_cells,
    next_commands,
    tuning_facts,
    tuning_headline,
)
from gapless.report.text.numbers import duration, unit_for
from gapless.report.text.text import clean

_TUNING_HEADS = ("", "each on top of what is kept above it", "predicted", "measured", "")


class TrialRow(Struct, frozen=True):
    """A row of what was tried, and the remarks on it."""

    cells: tuple[str, ...]
    remarks: tuple[str, ...]


def trial_page(trial: Trial) -> str:
    """Return the page of a trial. Raises ``UsageError`` without the libraries that it needs."""
    heads, unedited, *sides = trial_rows(trial)
    rows = [TrialRow((*unedited, ""), ())]
    rows += [
        TrialRow((*cells, words(side.verdict)), tuple(side_remarks(trial, side)))
        for cells, side in zip(sides, trial.sides, strict=True)
    ]
    labels = [(side.name, clean(" + ".join(side.fixes))) for side in trial.sides]
    gains = [
        _gain_column(f"{name} {label}", side.predicted, side.speedup)
        for (name, label), side in zip(labels, trial.sides, strict=True)
    ]
    pairs = list(_account_pairs(trial))
    return render_page(
        "trial",
        {
            "title": clean(shlex.join(trial.command)),
            "head": trial_headline(trial),
            "lines": [method_text(trial)],
            "next": [],
            "heads": (*heads, ""),
            "rows": rows,
            "pairs": pairs,
            "groups": _shown_groups(pairs),
            "arms": bool(_arm_columns([trial])),
            "gains": any(gains),
            "notes": [clean(note) for note in trial.notes],
        },
        {"gains": [gain for gain in gains if gain], "arms": _arm_columns([trial])},
    )


def tuning_page(state: TuningState, tuning: Tuning, path: Path | None) -> str:
    """Return the page of a tuning; ``path`` is the file of what is proven.

    Raises ``UsageError`` without the libraries that it needs.
    """
    proofs = [] if state.proof is None else [state.proof]
    gains = [
        _gain_column(clean(attempt.fix), attempt.predicted, attempt.speedup)
        for attempt in state.tries
    ]
    gains += [
        _gain_column("all that is kept", None, side.speedup)
        for proof in proofs
        for side in proof.sides[:1]
    ]
    pairs = [pair for proof in proofs for pair in _account_pairs(proof)]
    return render_page(
        "trial",
        {
            "title": clean(shlex.join(state.command)),
            "head": tuning_headline(state, tuning),
            "lines": [" · ".join(tuning_facts(state, tuning)), *map(method_text, proofs)],
            "next": next_commands(state, tuning, path),
            "heads": _TUNING_HEADS,
            "rows": [
                _attempt_row(number, attempt) for number, attempt in enumerate(state.tries, 1)
            ],
            "pairs": pairs,
            "groups": _shown_groups(pairs),
            "arms": bool(_arm_columns(proofs)),
            "gains": any(gains),
            "notes": [f"not tried: {clean(reason)}" for reason in state.remaining],
        },
        {"gains": [gain for gain in gains if gain], "arms": _arm_columns(proofs)},
    )


def _attempt_row(number: int, attempt: TriedFix) -> TrialRow:
    remark = f"{clean(attempt.summary)}: {clean(attempt.why)}"
    return TrialRow(attempt_cells(number, attempt), (remark,))


def _account_pairs(trial: Trial) -> Iterator[BarPair]:
    """Yield a step without and with each side's edits, where windows of both were accounted."""
    before_ns = step_groups(trial.account)
    for side in trial.sides:
        after_ns = step_groups(side.account)
        if before_ns and after_ns:
            captions = "a step without, in a window", "with"
            yield pair_bars(_side_label(side), captions, before_ns, after_ns)


def _shown_groups(pairs: Sequence[BarPair]) -> dict[str, str]:
    group_names = {part.group for pair in pairs for part in (*pair.before, *pair.after)}
    return {group: name for group, name in PRINTED.items() if group in group_names}


def _side_label(side: Side) -> str:
    return clean(f"{side.name} {' + '.join(side.fixes)}")


def _gain_column(
    label: str, predicted: Estimate | None, measured: Estimate | None
) -> dict[str, Any]:
    """Return the intervals of one row, what is absent left out; nothing where both are."""
    intervals = {"predicted": predicted, "measured": measured}
    known_sides = {
        name: [estimate.low, estimate.mid, estimate.high]
        for name, estimate in intervals.items()
        if estimate is not None
    }
    return {"label": label, **known_sides} if known_sides else {}


def _arm_columns(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the arms that count, in their order; nothing where none was measured."""
    arms = [
        (arm, arm.step_ns)
        for trial in trials
        for arm in trial.arms
        if arm.failed is None and arm.step_ns is not None
    ]
    if not arms:
        return {}
    unit = unit_for(max(step_ns for _, step_ns in arms))
    return {
        "unit": unit.name,
        "side": [arm.side for arm, _ in arms],
        "order": [arm.order for arm, _ in arms],
        "y": [step_ns / unit.ns for _, step_ns in arms],
        "text": [f"{duration(step_ns)}, {arm.steps} steps" for arm, step_ns in arms],
    }
