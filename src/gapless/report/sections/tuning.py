"""The screen of a tuning: what was tried and kept, a step before and after, what it is worth."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from rich.text import Text

from gapless.model.account import Account
from gapless.model.rounding import apportion
from gapless.model.trial import Trial
from gapless.model.tuning import TriedFix, Tuning, TuningState
from gapless.report.sections.account import ALWAYS, account_sheet
from gapless.report.sections.trials import ratio_text, table_row
from gapless.report.text.console import Pen, pen_for
from gapless.report.text.numbers import duration, percent, shares, span
from gapless.report.text.text import clean, cut_middle
from gapless.report.text.wrap import fold

_MAX_REMAINING: Final = 6  # proposals that were not tried
_INDENT: Final = 5
_HEADS: Final = ("", "tried on what is kept above", "predicted", "measured", "")
_MIN_NAME_CELLS: Final = 32  # a longer one is cut
_ACCOUNTS: Final = "where a step goes"
_DIM: Final = "bright_black"


def print_tuning(
    state: TuningState, tuning: Tuning, path: Path | None, stream: TextIO | None = None
) -> None:
    """Print a tuning; ``path`` is the file of what is proven. By default on stdout."""
    pen = pen_for(stream or sys.stdout)
    pen.write(tuning_screen(state, tuning, path, pen))


def tuning_screen(
    state: TuningState, tuning: Tuning, path: Path | None, pen: Pen
) -> Iterator[Text]:
    """Return the screen line by line."""
    yield from fold(tuning_headline(state, tuning), pen.width, style="bold")
    yield from fold(" · ".join(tuning_facts(state, tuning)), pen.width)
    if state.tries:
        yield from _attempt_lines(state.tries, pen)
    if state.proof is not None:
        yield from _proof_lines(state.proof, pen)
    if state.remaining:
        yield Text("not tried", "bold")
        for reason in state.remaining[:_MAX_REMAINING]:
            yield from _hang(clean(reason), pen, 2)
        if len(state.remaining) > _MAX_REMAINING:
            yield Text(f"  and {len(state.remaining) - _MAX_REMAINING} more (--json)", _DIM)
    yield from _next_lines(state, tuning, path, pen)


def tuning_headline(state: TuningState, tuning: Tuning) -> str:
    """Describe in one line what was tuned, and what is proven of it."""
    head = f"gapless tune · {cut_middle(clean(shlex.join(state.command)), 60)}"
    fixes = f"{len(state.fixes)} fix{'' if len(state.fixes) == 1 else 'es'}"
    if tuning.speedup is not None:
        return f"{head} · {ratio_text(tuning.speedup)} with {fixes}, proven"
    if not state.tries:
        return f"{head} · nothing was tried"
    if not state.fixes:
        return f"{head} · nothing tried is proven to help"
    if state.proof is None:
        return f"{head} · {fixes} kept, their total gain not proven"
    measured = state.proof.sides[0].speedup
    gain = "" if measured is None else f": together {ratio_text(measured)}"
    return f"{head} · no gain: the final proof does not confirm {fixes}{gain}"


def tuning_facts(state: TuningState, tuning: Tuning) -> Iterator[str]:
    """Yield a step before and after, how many fixes were tried, how long it took."""
    if tuning.before_ns is not None and tuning.after_ns is not None:
        yield f"a step {duration(tuning.before_ns)} before, {duration(tuning.after_ns)} after"
    n_kept = sum(attempt.is_kept for attempt in state.tries)
    yield f"{len(state.tries)} tried, {n_kept} kept"
    yield f"{span(state.spent_s * 1e9)} in all"
    if state.end is not None:
        yield clean(state.end)


def _attempt_lines(tries: Sequence[TriedFix], pen: Pen) -> Iterator[Text]:
    """Return a row for each fix that was tried, and below it what it sets and why it was kept."""
    rows = [_HEADS, *(attempt_cells(number, attempt) for number, attempt in enumerate(tries, 1))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    room = pen.width - sum(width + 2 for width in (widths[0], *widths[2:])) - 4
    if room < min(_MIN_NAME_CELLS, max(len(row[1]) for row in rows[1:])):
        yield from _narrow_lines(tries, pen)
        return
    widths[1] = min(widths[1], room)
    yield Text(table_row(rows[0], widths), _DIM)
    for row, attempt in zip(rows[1:], tries, strict=True):
        line = Text(table_row(row[:-1], widths))
        yield line.append(f"  {row[-1]}", "green" if attempt.is_kept else "yellow")
        yield from _hang(f"{clean(attempt.summary)}: {clean(attempt.why)}", pen, _INDENT)


def _narrow_lines(tries: Sequence[TriedFix], pen: Pen) -> Iterator[Text]:
    """Return the same where a row has no room for its columns: a line below the name."""
    yield Text("tried on what is kept above", _DIM)
    for number, attempt in enumerate(tries, 1):
        index, name, predicted, measured, end = attempt_cells(number, attempt)
        style = "green" if attempt.is_kept else "yellow"
        yield Text(f"  {index}  {cut_middle(name, max(1, pen.width - _INDENT))}")
        words = [end]
        words.append(predicted if attempt.predicted is None else f"predicted {predicted}")
        words.append(measured if attempt.speedup is None else f"measured {measured}")
        for line in fold(" · ".join(words), pen.width - _INDENT):
            yield Text(" " * _INDENT + line.plain, style)
        yield from _hang(f"{clean(attempt.summary)}: {clean(attempt.why)}", pen, _INDENT)


def attempt_cells(number: int, attempt: TriedFix) -> tuple[str, ...]:
    """Return a fix that was tried as a row: predicted, measured, kept or dropped."""
    return (
        str(number),
        f"{clean(attempt.fix)} ({attempt.applicability.value})",
        "not predicted" if attempt.predicted is None else ratio_text(attempt.predicted),
        "not measured" if attempt.speedup is None else ratio_text(attempt.speedup),
        "kept" if attempt.is_kept else "dropped",
    )


def _proof_lines(proof: Trial, pen: Pen) -> Iterator[Text]:
    """Return how the whole was measured, and both accounts side by side."""
    side = proof.sides[0]
    gain = "no interval" if side.speedup is None else ratio_text(side.speedup)
    parts = [f"final proof, all that is kept against the untouched command: {gain}"]
    if side.job is not None:
        parts.append(f"a whole job {ratio_text(side.job)}")
    n_arms = sum(arm.failed is None for arm in proof.arms)
    parts.append(f"{n_arms} fresh processes in turns ({proof.order})")
    if proof.noise is not None:
        parts.append(f"A/A noise ± {percent(proof.noise)}")
    if side.why is not None:
        parts.append(clean(side.why))
    yield from fold(" · ".join(parts), pen.width)
    if proof.account is not None and side.account is not None:
        yield from _account_lines(proof.account, side.account)


def _account_lines(before: Account, after: Account) -> Iterator[Text]:
    """Return the groups of two accounts in columns that visibly sum; steps of one window each."""
    sheets = account_sheet(before), account_sheet(after)
    unit = sheets[0].unit
    totals = [unit.digits(account.wall_ns / sheet.rows)
              for account, sheet in zip((before, after), sheets, strict=True)]  # fmt: skip
    names = {line.group: line.name for sheet in sheets for line in sheet.lines}
    groups = [*(group for group in names if group not in ALWAYS), *ALWAYS]
    columns = [
        _account_column(account, groups, total)
        for account, total in zip((before, after), totals, strict=True)
    ]
    width = max(map(len, names.values()), default=0)
    width = max(width, len(_ACCOUNTS))
    yield Text(f"  {_ACCOUNTS:{width}}  {'before':>18}  {'after':>18}", _DIM)
    for index, group in enumerate(groups):
        cells = [
            f"{unit.text(digits[index])} {unit.name} {texts[index]:>5} %"
            for digits, texts in columns
        ]
        yield Text(f"  {names.get(group, group):{width}}  {cells[0]:>18}  {cells[1]:>18}")
    total_cells = [f"{unit.text(total)} {unit.name} 100.0 %" for total in totals]
    yield Text(f"  {'in all':{width}}  {total_cells[0]:>18}  {total_cells[1]:>18}", "bold")


def _account_column(
    account: Account, groups: Sequence[str], total: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    sizes = [account.groups.get(group, 0) for group in groups]
    return apportion(sizes, total), shares(sizes)


def next_commands(state: TuningState, tuning: Tuning, path: Path | None) -> list[tuple[str, str]]:
    """Return what to type next, each with its purpose; ``path``: the file of what is proven."""
    command = shlex.join(state.command)
    if tuning.fixes and path is not None:
        commands = [
            (
                f"gapless run --with {shlex.quote(str(path))} {command}",
                "applies it, source as it is",
            ),
            ("gapless fix", "shows it as a patch of the source; --apply writes it"),
        ]
    else:
        commands = [("gapless report", "where the time goes, and what could help by hand")]
    if state.end is not None and ("budget" in state.end or "interrupted" in state.end):
        commands.append(("gapless tune --resume", "goes on from here"))
    return commands


def _next_lines(state: TuningState, tuning: Tuning, path: Path | None, pen: Pen) -> Iterator[Text]:
    commands = next_commands(state, tuning, path)
    for index, (text, purpose) in enumerate(commands):
        yield from _hang(f"{'next:' if not index else '     '} {clean(text)}   {purpose}", pen, 0)


def _hang(line: str, pen: Pen, indent: int) -> Iterator[Text]:
    for folded in fold(line, pen.width - indent):
        yield Text(" " * indent) + folded
