"""The first screen: why a step takes so long, where it goes, three causes, the one next command."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from gapless.model.study import Study
from gapless.report.account import Sheet, sheet
from gapless.report.causes import why_line
from gapless.report.first import STYLES
from gapless.report.life import life_line
from gapless.report.onward import Row, next_step, proven_lines, rows_of
from gapless.report.pen import Pen, bar
from gapless.report.run import laid_out, run_screen
from gapless.report.run_notable import notable_lines
from gapless.report.run_words import headline as run_headline
from gapless.report.run_words import spent_lines
from gapless.report.summary import headline
from gapless.report.terminal import Wanted, screen
from gapless.report.text import clean, pad
from gapless.report.wrap import fold

_GROUPS: Final = 4  # of the account
_LEAST: Final = 0.02  # of a step: a smaller group is among "all else"
_BAR: Final = 28
_NOTES: Final = 2
_DETAIL: Final = 2  # lines of what was seen of the first cause
_DIM: Final = "bright_black"
_PARTS: Final = "loaders | steps | machine | replay"
_TRACE_PARTS: Final = "kernels | operators | steps"
_HEADS: Final = ("cause", "step gets", "with (gapless try …)")


def brief_screen(study: Study, pen: Pen, *, ended: bool = False) -> Iterator[Text]:
    """Give the first screen; of what has no steps, the whole report: that is short.

    ``ended``: the run has just ended, so that nobody has to be told what was run, and the next
    command is the last line.
    """
    recorded = study.recorded
    laid = sheet(study.account) if recorded is None else laid_out(recorded)
    if laid is None or study.diagnosis is None or study.diagnosis.verdict is None:
        yield from screen(study, pen, Wanted()) if recorded is None else run_screen(study, pen)
        return
    yield from fold(_head(study, laid), pen.width)
    rows = rows_of(study)
    why = why_line(study.diagnosis.verdict)
    if not rows and study.diagnosis.outlook is not None:
        why = f"{clean(study.diagnosis.outlook)}."
    yield from fold(why, pen.width, "bold")
    for line in proven_lines(study):
        yield from fold(line, pen.width, "bold")
    yield from _account(study, laid, pen)
    yield from _causes(rows, pen)
    if not ended:
        yield from next_line(study, pen)
    yield from _beside(study, pen, ended=ended)
    if ended:
        yield from next_line(study, pen)


def _head(study: Study, laid: Sheet) -> str:
    if study.recorded is None:
        return headline(study, laid)
    return run_headline(study, study.recorded, laid, busy=False)


def _account(study: Study, laid: Sheet, pen: Pen) -> Iterator[Text]:
    """Give the largest groups and the sum of the others."""
    recorded = study.recorded
    steps = recorded.steps if recorded is not None else None
    rests = "" if steps is None else f" (mean of {steps.regular:,} steps)"
    title = "where a step goes" if study.account.steps or steps else "where the time goes"
    yield Text.assemble((title, "bold"), (rests, _DIM))
    large = [one for one in laid.lines if one.digits and one.share >= _LEAST][:_GROUPS]
    wide = max(cell_len(one.name) for one in (*large, *laid.lines[:1]))
    figures = max(len(laid.unit.text(laid.digits)), 6)
    room = min(_BAR, pen.width - wide - figures - 18)
    for one in large:
        text = Text(_figures(one.name, one.digits, one.percent, (wide, figures), laid))
        if room > 0:
            text.append("  ")
            text.append(bar(min(1.0, one.share), room, pen.signs), STYLES[one.group])
        yield text
    rest = laid.digits - sum(one.digits for one in large)
    if rest > 0:
        percent = f"{max(0.0, 100 - sum(float(one.percent) for one in large)):.1f}"
        yield Text(_figures("all else", rest, percent, (wide, figures), laid))


def _figures(name: str, digits: int, percent: str, widths: tuple[int, int], laid: Sheet) -> str:
    value = f"{laid.unit.text(digits):>{widths[1]}} {laid.unit.name} {percent:>5} %"
    return f"  {pad(name, widths[0])}  {value}"


def _causes(rows: Sequence[Row], pen: Pen) -> Iterator[Text]:
    """Give a row for each cause, on two lines where it is too long; below the first what it is."""
    if not rows:
        return
    table = [_HEADS, *((one.label, one.gain, one.way) for one in rows)]
    widths = [max(cell_len(row[at]) for row in table) for at in range(2)]
    wide = max(cell_len(_laid(row, widths)) for row in table) <= pen.width
    yield Text(_laid(_HEADS, widths) if wide else "what costs time", "bold")
    for at, (label, gain, way) in enumerate(table[1:]):
        if wide:
            yield Text(_laid((label, gain, way), widths, f"{at + 1}"))
        else:
            yield from _hung(f"{at + 1}  {label}", pen)
            yield from _hung(f"   {gain}  {way}", pen)
        if at == 0 and rows[0].detail:
            yield from _detail(rows[0].detail, pen)


def _detail(text: str, pen: Pen) -> Iterator[Text]:
    """Give a few lines of what is known of a cause; what is left out is marked."""
    lines = fold(text, pen.width - 7, _DIM)
    for at, line in enumerate(lines[:_DETAIL]):
        cut = at + 1 == _DETAIL < len(lines)
        yield Text.assemble("     ", line, (" …" if cut else "", _DIM))


def _laid(row: Sequence[str], widths: Sequence[int], number: str = "") -> str:
    cells = [pad(row[0], widths[0]), pad(row[1], widths[1]), row[2]]
    return f"  {pad(number, 1)}  {'  '.join(cells)}".rstrip() if number else _head_of(cells)


def _head_of(cells: Sequence[str]) -> str:
    return f"{cells[0]}       {'  '.join(cells[1:])}"


def _hung(line: str, pen: Pen) -> Iterator[Text]:
    for at, text in enumerate(fold(line.strip(), pen.width - 5)):
        yield Text("  " if at == 0 and line[0] != " " else "     ") + text


def next_line(study: Study, pen: Pen) -> Iterator[Text]:
    """Give the one next command, and what it does where there is room."""
    command, why = next_step(study)
    text = f"next: {command}"
    if cell_len(text) + 3 + cell_len(why) <= pen.width:
        yield Text.assemble((text, "bold"), f"   {why}")
    else:
        yield from fold(text, pen.width, "bold")


def _beside(study: Study, pen: Pen, *, ended: bool) -> Iterator[Text]:
    """Say what to be careful with, which run it is, and where the rest stands."""
    recorded = study.recorded
    for line in [] if recorded is None else list(notable_lines(recorded))[:_NOTES]:
        yield from fold(f"note: {line}", pen.width, _DIM)
    for line in spent_lines(recorded) if recorded is not None and recorded.cost else ():
        yield from fold(f"note: {line}", pen.width, _DIM)
    if recorded is not None and not ended:
        name = PurePath(recorded.life.path).name
        yield from fold(f"{life_line(recorded)} · {clean(name)}", pen.width, _DIM)
    again = "gapless report" if recorded is not None else "gapless open …"
    parts = _PARTS if recorded is not None else _TRACE_PARTS
    yield from fold(f"more: {again} --full or --section {parts}", pen.width, _DIM)
