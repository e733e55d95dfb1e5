"""The first screen: why a step takes so long, where it goes, three causes, the one next command."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from gapless.model.study import Study
from gapless.report.run.notable import notable_lines
from gapless.report.run.page import run_screen, step_sheet
from gapless.report.run.sentences import headline as run_headline
from gapless.report.run.sentences import spent_lines
from gapless.report.sections.account import AccountSheet, account_sheet
from gapless.report.sections.account_screen import STYLES
from gapless.report.sections.causes import why_line
from gapless.report.sections.next_command import CauseRow, cause_rows, next_step, proven_lines
from gapless.report.sections.run_status import life_line
from gapless.report.sections.summary import headline
from gapless.report.terminal import TableView, study_screen
from gapless.report.text.console import Pen, bar
from gapless.report.text.text import clean, pad
from gapless.report.text.wrap import fold

_MAX_GROUPS: Final = 4  # of the account
_MIN_GROUP_SHARE: Final = 0.02  # of a step: a smaller group is part of "all else"
_BAR_CELLS: Final = 28
_MAX_NOTES: Final = 2
_MAX_DETAIL_LINES: Final = 2  # lines of evidence for the first cause
_MAX_SELDOM_LINES: Final = 3  # of what was seen too seldom to price: what it is, what to do
_DIM: Final = "bright_black"
_RUN_SECTIONS: Final = "loaders | steps | machine | replay"
_TRACE_SECTIONS: Final = "kernels | operators | steps"
_CLAUSE_ENDS: Final = re.compile(r"(?<=[.;])(?<!e\.g\.)(?<!i\.e\.) |,? or (?=\w)| (?=\()")
_MIN_WHOLE_SHARE: Final = 0.5  # of the lines that fit: what is whole must fill so much of them
_HEADS: Final = ("cause", "step gets", "with (gapless try …)")


def brief_screen(study: Study, pen: Pen, *, has_ended: bool = False) -> Iterator[Text]:
    """Return the first screen; without steps, the whole report, which is short.

    ``has_ended``: the run has just ended, so that what was run is known, and the next command is
    the last line.
    """
    recorded = study.recorded
    sheet = account_sheet(study.account) if recorded is None else step_sheet(recorded)
    if sheet is None or study.diagnosis is None or study.diagnosis.verdict is None:
        yield from (
            study_screen(study, pen, TableView()) if recorded is None else run_screen(study, pen)
        )
        return
    yield from fold(head_text(study, sheet), pen.width)
    rows = cause_rows(study)
    yield from fold(why_text(study), pen.width, "bold")
    for line in proven_lines(study):
        yield from fold(line, pen.width, "bold")
    yield from _account(study, sheet, pen)
    yield from _causes(rows, pen)
    if not has_ended:
        yield from next_line(study, pen)
    yield from _note_lines(study, pen, has_ended=has_ended)
    if has_ended:
        yield from next_line(study, pen)


def why_text(study: Study) -> str:
    """State why a step takes so long, or what is left to gain; empty if that is not known."""
    diagnosis = study.diagnosis
    if diagnosis is None or diagnosis.verdict is None:
        return ""
    if diagnosis.outlook is not None and not cause_rows(study):
        return f"{clean(diagnosis.outlook)}."
    return why_line(diagnosis.verdict)


def head_text(study: Study, sheet: AccountSheet) -> str:
    """Describe in one line what was run, how long a step is, and on what."""
    if study.recorded is None:
        return headline(study, sheet)
    return run_headline(study, study.recorded, sheet, with_busy=False)


def _account(study: Study, sheet: AccountSheet, pen: Pen) -> Iterator[Text]:
    """Return the largest groups and the sum of the others."""
    recorded = study.recorded
    steps = recorded.steps if recorded is not None else None
    basis = "" if steps is None else f" (mean of {steps.regular:,} steps)"
    title = "where a step goes" if study.account.steps or steps else "where the time goes"
    yield Text.assemble((title, "bold"), (basis, _DIM))
    groups = [line for line in sheet.lines if line.digits and line.share >= _MIN_GROUP_SHARE][
        :_MAX_GROUPS
    ]
    name_width = max(cell_len(line.name) for line in (*groups, *sheet.lines[:1]))
    figure_width = max(len(sheet.unit.text(sheet.digits)), 6)
    bar_width = min(_BAR_CELLS, pen.width - name_width - figure_width - 18)
    for line in groups:
        text = Text(
            _figures(line.name, line.digits, line.percent, (name_width, figure_width), sheet)
        )
        if bar_width > 0:
            text.append("  ")
            text.append(bar(min(1.0, line.share), bar_width, pen.signs), STYLES[line.group])
        yield text
    remaining = sheet.digits - sum(line.digits for line in groups)
    if remaining > 0:
        percent = f"{max(0.0, 100 - sum(float(line.percent) for line in groups)):.1f}"
        yield Text(_figures("all else", remaining, percent, (name_width, figure_width), sheet))


def _figures(
    name: str, digits: int, percent: str, widths: tuple[int, int], sheet: AccountSheet
) -> str:
    value = f"{sheet.unit.text(digits):>{widths[1]}} {sheet.unit.name} {percent:>5} %"
    return f"  {pad(name, widths[0])}  {value}"


def _causes(rows: Sequence[CauseRow], pen: Pen) -> Iterator[Text]:
    """Return a row for each cause, on two lines if it is too long; with details."""
    if not rows:
        return
    table = [_HEADS, *((row.label, row.gain, row.way) for row in rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(2)]
    fits = max(cell_len(_row_text(row, widths)) for row in table) <= pen.width
    yield Text(_row_text(_HEADS, widths) if fits else "what costs time", "bold")
    for index, (label, gain, way) in enumerate(table[1:]):
        if fits:
            yield Text(_row_text((label, gain, way), widths, f"{index + 1}"))
        else:
            yield from _hang_lines(f"{index + 1}  {label}", pen)
            yield from _hang_lines(f"   {gain}  {way}", pen)
        row = rows[index]
        if row.is_seldom:
            yield from _detail(row.detail, pen, _MAX_SELDOM_LINES)
        elif row.detail and index == 0:
            yield from _detail(row.detail, pen, _MAX_DETAIL_LINES)


def _detail(text: str, pen: Pen, max_lines: int) -> Iterator[Text]:
    """Return a few lines of what is known about a cause; omissions are marked."""
    width = pen.width - 7
    lines = fold(text, width, _DIM)
    is_cut = len(lines) > max_lines
    if is_cut:
        fitting = " ".join(line.plain for line in lines[:max_lines])
        lines = fold(whole_clauses(fitting), width, _DIM)
    for line in lines:
        yield Text.assemble("     ", line, (" …" if is_cut and line is lines[-1] else "", _DIM))


def whole_clauses(text: str) -> str:
    """Return the start of a text up to its last clause that is whole, if that is most of it."""
    ends = [
        match.start()
        for match in _CLAUSE_ENDS.finditer(text)
        if text.count("(", 0, match.start()) == text.count(")", 0, match.start())
    ]
    end = max(ends, default=0)
    return text[:end].rstrip(";") if end >= _MIN_WHOLE_SHARE * len(text) else text


def _row_text(row: Sequence[str], widths: Sequence[int], number: str = "") -> str:
    cells = [pad(row[0], widths[0]), pad(row[1], widths[1]), row[2]]
    return f"  {pad(number, 1)}  {'  '.join(cells)}".rstrip() if number else _head_text(cells)


def _head_text(cells: Sequence[str]) -> str:
    return f"{cells[0]}       {'  '.join(cells[1:])}"


def _hang_lines(line: str, pen: Pen) -> Iterator[Text]:
    for index, text in enumerate(fold(line.strip(), pen.width - 5)):
        yield Text("  " if index == 0 and line[0] != " " else "     ") + text


def next_line(study: Study, pen: Pen) -> Iterator[Text]:
    """Return the one next command, and what it does if there is room."""
    command, why = next_step(study)
    text = f"next: {command}"
    if cell_len(text) + 3 + cell_len(why) <= pen.width:
        yield Text.assemble((text, "bold"), f"   {why}")
    else:
        yield from fold(text, pen.width, "bold")


def _note_lines(study: Study, pen: Pen, *, has_ended: bool) -> Iterator[Text]:
    """Return caveats, which run it is, and where the rest is."""
    recorded = study.recorded
    for line in list(notable_lines(study))[:_MAX_NOTES]:
        yield from fold(f"note: {line}", pen.width, _DIM)
    for line in spent_lines(recorded) if recorded is not None and recorded.cost else ():
        yield from fold(f"note: {line}", pen.width, _DIM)
    if recorded is not None and not has_ended:
        name = PurePath(recorded.life.path).name
        yield from fold(f"{life_line(recorded)} · {clean(name)}", pen.width, _DIM)
    command = "gapless report" if recorded is not None else "gapless open …"
    sections = _RUN_SECTIONS if recorded is not None else _TRACE_SECTIONS
    yield from fold(f"more: {command} --full or --section {sections}", pen.width, _DIM)
