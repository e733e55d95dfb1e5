"""Trials on a terminal: what each edit is worth, measured, with its interval and its verdict."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from rich.text import Text

from gapless.model.edit import Applicability, Wrap
from gapless.model.estimate import Estimate
from gapless.model.trial import (
    FASTER,
    Arm,
    Method,
    Parity,
    Side,
    Trial,
    TrialVerdict,
)
from gapless.report.text.console import Pen, pen_for
from gapless.report.text.numbers import duration, percent, size, span
from gapless.report.text.text import clean, cut_middle, pad
from gapless.report.text.wrap import fold

_PARITY: Final = {
    Parity.IDENTICAL: "losses the same to the bit",
    Parity.WITHIN_SPREAD: "losses within the spread of two unedited arms",
    Parity.DIFFERENT: "losses differ by more than two unedited arms do",
    Parity.NOT_OBSERVED: "losses not observed",
}
_SWITCHED_LOSSES: Final = "losses not compared one by one"
_STYLE: Final = {
    TrialVerdict.CONFIRMED: "green",
    TrialVerdict.LARGER: "green",
    TrialVerdict.SMALLER: "green",
    TrialVerdict.WORSE: "red",
    TrialVerdict.DOES_NOT_FIT: "red",
    TrialVerdict.REFUSED: "red",
}
_VERDICT_CELLS: Final = 12  # cells
_MIN_NAME_CELLS: Final = 20  # cells of a name: below that the last column is dropped
_MIN_CUT_NAME_CELLS: Final = 6  # below that predictions stand below the table
_HEADS: Final = ("", "", "a step", "predicted", "is worth", "a whole job")
_PREDICTED_COLUMN: Final = 3  # which of them
_INDENT: Final = 6
_MIN_RATIO, _MAX_RATIO = 0.01, 100.0  # bounds beyond which say nothing
_GAP_CELLS: Final = 4  # before the letter, and after it


def print_trial(trial: Trial, stream: TextIO | None = None) -> None:
    """Print a trial; by default on stdout."""
    pen = pen_for(stream or sys.stdout)
    pen.write(trial_screen(trial, pen))


def trial_screen(trial: Trial, pen: Pen) -> Iterator[Text]:
    """Return the report of a trial, line by line."""
    yield from fold(trial_headline(trial), pen.width, style="bold")
    yield from fold(method_text(trial), pen.width)
    rows = trial_rows(trial)
    is_narrow = _lacks_room(rows, pen)
    if trial.sides:
        yield from _table(trial, _drop_predictions(rows) if is_narrow else rows, pen)
    for side in trial.sides:
        yield from _side_lines(trial, side, pen, is_narrow=is_narrow)
    for note in trial.notes:
        yield from fold(note, pen.width)


def _side_lines(trial: Trial, side: Side, pen: Pen, *, is_narrow: bool) -> Iterator[Text]:
    """Return the remarks on a side, its letter before the first."""
    remarks = list(side_remarks(trial, side))
    if is_narrow:  # the table has cut the name, and has no predictions
        predicted = "" if side.predicted is None else f": predicted {ratio_text(side.predicted)}"
        remarks.insert(0, fix_names(side) + predicted)
    lines = [text for line in remarks for text in fold(line, pen.width - _INDENT)]
    for index, line in enumerate(lines):
        yield Text.assemble(pad("" if index else f"  {side.name}", _INDENT), line)


def verdict_line(side: Side) -> str:
    """Return what a trial of one combination of edits has shown, in one line."""
    gain = "" if side.speedup is None else f" {ratio_text(side.speedup)}"
    return f"{fix_names(side)}: {words(side.verdict)}{gain}"


def fix_names(side: Side) -> str:
    """Return what was tried, with the value of a single fix's part: ``sample-cache=./kept``."""
    names = clean(" + ".join(side.fixes))
    values = [
        value for edit in side.edits if isinstance(edit, Wrap) for value in edit.options.values()
    ]
    if len(side.fixes) > 1 or len(side.edits) > 1 or len(values) != 1:
        return names
    return f"{names}={clean(str(values[0]))}"


def words(verdict: TrialVerdict) -> str:
    """Return a verdict in words."""
    return verdict.value.replace("-", " ")


def ratio_text(estimate: Estimate) -> str:
    """Format a ratio with its interval, with enough digits that the bounds differ."""
    digits = 3 if estimate.high - estimate.low < 0.02 else 2  # noqa: PLR2004 - a hundredth is printed
    low = "< 0.01" if estimate.low < _MIN_RATIO else f"{estimate.low:.{digits}f}"
    high = (
        "> 100"
        if estimate.high > _MAX_RATIO and estimate.mid < _MAX_RATIO / 2
        else f"{estimate.high:.{digits}f}"
    )
    return f"{estimate.mid:.{digits}f}× [{low} … {high}]"


def trial_headline(trial: Trial) -> str:
    """Describe in one line what was tried, and the best of it."""
    command = cut_middle(clean(" ".join(trial.command)), 60)
    better_sides = [side for side in trial.sides if side.verdict in FASTER and side.speedup]
    if not better_sides:
        return f"gapless try · {command} · nothing tried is proven to help"
    fixes = [side for side in better_sides if not _is_ceiling(side)]
    best = max(fixes or better_sides, key=lambda side: side.speedup.mid if side.speedup else 0.0)
    if _is_ceiling(best) and best.speedup is not None:
        ceilings = clean(" + ".join(best.fixes))
        return f"gapless try · {command} · ceiling ({ceilings}): at most {ratio_text(best.speedup)}"
    return f"gapless try · {command} · {verdict_line(best)}"


def _is_ceiling(side: Side) -> bool:
    return side.applicability is Applicability.ABLATION


def method_text(trial: Trial) -> str:
    """Describe how it was measured: arms, steps, time, noise."""
    counted_arms = [arm for arm in trial.arms if arm.failed is None]
    parts = [f"{len(counted_arms)} arms ({trial.order})"]
    if trial.measured is not None:
        first_step, last_step = trial.measured
        parts.append(f"steps {first_step} to {last_step} of each")
    parts.append(f"{span(trial.spent_s * 1e9)} in all")
    noise_text = "> 100 %" if (trial.noise or 0.0) > 1 else f"± {percent(trial.noise or 0.0)}"
    noise = "not known" if trial.noise is None else noise_text
    parts.append(f"A/A noise {noise}")
    parts.append(f"page cache {trial.cache}")
    n_left_out = len(trial.arms) - len(counted_arms)
    if n_left_out:
        parts.append(f"{n_left_out} more did not count")
    return " · ".join(parts)


def _table(trial: Trial, rows: Sequence[tuple[str, ...]], pen: Pen) -> Iterator[Text]:
    """Return a row for the unedited arms and each side; narrow terminals omit the whole job."""
    widths = _column_widths(rows)
    if _name_room(widths, pen) < min(_MIN_NAME_CELLS, widths[1]):
        widths = widths[:-1]
    widths[1] = max(1, min(widths[1], _name_room(widths, pen)))
    table_width = sum(widths) + _GAP_CELLS + 2 * len(widths[2:])
    for index, row in enumerate(rows[:2]):
        yield Text(table_row(row, widths), style="" if index else "bright_black")
    for side, row in zip(trial.sides, rows[2:], strict=True):
        verdict_text = (words(side.verdict), _STYLE.get(side.verdict, "yellow"))
        yield Text.assemble(pad(table_row(row, widths), table_width), "  ", verdict_text)


def trial_rows(trial: Trial) -> list[tuple[str, ...]]:
    """Return the heads, the unedited arms, then a row for each side, without its verdict."""
    unedited = "" if trial.step_ns is None else duration(trial.step_ns)
    rows = [_HEADS, ("A", "unedited", unedited, "", "", ""), *map(_cells, trial.sides)]
    if all(side.predicted is None for side in trial.sides):
        rows = _drop_predictions(rows)
    return rows


def _drop_predictions(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [(*row[:_PREDICTED_COLUMN], *row[_PREDICTED_COLUMN + 1 :]) for row in rows]


def _lacks_room(rows: Sequence[tuple[str, ...]], pen: Pen) -> bool:
    """Return whether names would have hardly a cell, even without the whole job."""
    has_predictions = rows[0][_PREDICTED_COLUMN] == _HEADS[_PREDICTED_COLUMN]
    room = _name_room(_column_widths(rows)[:-1], pen)
    return has_predictions and room < _MIN_CUT_NAME_CELLS


def _column_widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _name_room(widths: Sequence[int], pen: Pen) -> int:
    figures = sum(width + 2 for width in widths[2:])
    return pen.width - figures - widths[0] - _GAP_CELLS - 2 - _VERDICT_CELLS


def _cells(side: Side) -> tuple[str, ...]:
    return (
        side.name,
        fix_names(side),
        "" if side.step_ns is None else duration(side.step_ns),
        "" if side.predicted is None else ratio_text(side.predicted),
        "" if side.speedup is None else ratio_text(side.speedup),
        "" if side.job is None else ratio_text(side.job),
    )


def table_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row of a table: an index, a name that may be cut, figures to the right."""
    name = pad(cut_middle(cells[1], widths[1]), widths[1])
    figures = "  ".join(
        pad(cell, width, right=True) for cell, width in zip(cells[2:], widths[2:], strict=False)
    )
    return f"  {pad(cells[0], widths[0])}  {name}  {figures}".rstrip()


def side_remarks(trial: Trial, side: Side) -> Iterator[str]:
    """Describe what else is known about a side: kind, reason, parity, changes, costs."""
    if side.summary:
        yield clean(side.summary)
    if side.why is not None:
        yield clean(side.why)
    if side.verdict is TrialVerdict.REFUSED or side.speedup is None:
        return
    remarks = ["an ablation: the most that could be gained, no fix"]
    if not _is_ceiling(side):
        is_switched = side.method is Method.IN_PROCESS
        losses = _SWITCHED_LOSSES if is_switched else _PARITY[side.parity]
        remarks = [f"class: {side.applicability.value}", losses]
    remarks += _method_remarks(trial, side)
    if side.parity_note is not None and side.parity is not Parity.IDENTICAL:
        remarks.append(clean(side.parity_note))
    if side.data is not None:
        remarks.append(f"data: {clean(side.data)}")
    yield " · ".join(remarks)
    costs = list(_costs(trial, side))
    if costs:
        yield " · ".join(costs)


def _method_remarks(trial: Trial, side: Side) -> Iterator[str]:
    if side.method is Method.IN_PROCESS:
        noise = "not known" if side.noise is None else f"± {percent(side.noise)}"
        n_blocks = sum(arm.side == side.name for arm in trial.arms)
        yield f"{side.method.value}: {n_blocks} blocks, A/A noise {noise}"
    if side.memory_peaks is not None:
        unedited, edited = map(size, side.memory_peaks)
        yield f"peak memory {edited}, unedited {unedited}"


def _costs(trial: Trial, side: Side) -> Iterator[str]:
    """Describe what the edit costs or saves once, per epoch and at the end, if considerable."""
    unedited = [arm for arm in trial.arms if arm.side == "A" and arm.failed is None]
    for name, now in (
        ("first batch", side.first_batch_ns),
        ("epoch turn", side.turn_ns),
        ("exit", side.exit_ns),
    ):
        before = _median([_once_ns(arm, name) for arm in unedited])
        if now is None or before is None or side.step_ns is None:
            continue
        if abs(now - before) > side.step_ns:  # less than a step does not matter in a job
            yield f"{name} {span(before)} → {span(now)}"


def _once_ns(arm: Arm, name: str) -> int | None:
    fields = {"first batch": arm.first_batch_ns, "epoch turn": arm.turn_ns, "exit": arm.exit_ns}
    return fields[name]


def _median(values: Sequence[int | None]) -> int | None:
    known_values = sorted(value for value in values if value is not None)
    return known_values[len(known_values) // 2] if known_values else None
