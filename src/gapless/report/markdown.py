"""A study as Markdown: for issues and pull requests. Names are whole."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.study import Study
from gapless.report.sections.account import AccountSheet, account_sheet
from gapless.report.sections.causes import cause_lines, harmless_lines, replay_lines, try_lines
from gapless.report.sections.grids import NAMES, table_grid, table_title
from gapless.report.sections.leaves import leaf_lines
from gapless.report.sections.remedies import end_lines, refused_lines, remedy_rows, then_line
from gapless.report.sections.summary import footing, headline, health_lines, rank_lines, steps_lines
from gapless.report.terminal import TableView
from gapless.report.text.text import clean

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|#&~])")
_ANY_WIDTH: Final = 1 << 20


def study_page(study: Study, view: TableView) -> str:
    """Write the report. Raises ``UsageError`` for an unknown sort key."""
    return "\n".join(_lines(study, view)) + "\n"


def _lines(study: Study, view: TableView) -> Iterator[str]:
    sheet = account_sheet(study.account)
    yield f"**{escape(headline(study, sheet))}**"
    yield ""
    yield from account_table(sheet, stepwise=study.account.steps is not None)
    yield ""
    yield f"*{escape(footing(study))}*"
    yield from remedy_lines(study)
    yield from bullets("Ranks", rank_lines(study))
    if study.steps is not None:
        yield from bullets("Steps", steps_lines(study.steps, study.account))
    yield from bullets("Health", health_lines(study.health))
    if study.leaf is not None:
        pieces = (line.plain for line in leaf_lines(study.leaf, _ANY_WIDTH, divisor=sheet.rows))
        yield from ("", "```text", *(line for line in pieces if line), "```")
        return
    yield from tables(study, view)


def tables(study: Study, view: TableView) -> Iterator[str]:
    """Return the tables of a trace's contents. Raises ``UsageError`` for an unknown sort key."""
    for name in NAMES:
        yield from _table(study, name, view)


def remedy_lines(study: Study) -> Iterator[str]:
    """Return causes, what would help, what is harmless, and what this is based on."""
    diagnosis = study.diagnosis
    if diagnosis is None:
        return
    if diagnosis.verdict is not None:
        yield from ("", f"**{escape(clean(diagnosis.verdict.sentence))}.**")
    elif diagnosis.outlook:
        yield from ("", f"**{escape(clean(diagnosis.outlook))}**")
    yield from bullets("What costs time", cause_lines(diagnosis))
    rows = remedy_rows(study)
    if rows:
        yield from ("", "### What would help", "")
        yield "| | change | where | class | predicted step | is worth |"
        yield "|--:|:--|:--|:--|--:|--:|"
        yield from (_row([escape(cell) for cell in row.cells]) for row in rows)
        yield from ("", escape(then_line(study)))
    yield from bullets("Worth trying, without a price", try_lines(diagnosis))
    yield from bullets("Refused", refused_lines(study))
    yield from bullets("Harmless here, or not known", harmless_lines(diagnosis))
    yield from bullets("Replay", (*replay_lines(diagnosis), *end_lines(study)))


def account_table(sheet: AccountSheet, *, stepwise: bool) -> Iterator[str]:
    """Return the account as a table, with its sum."""
    unit = f"{sheet.unit.name} a step" if stepwise else sheet.unit.name
    yield f"| where {'a step' if stepwise else 'the time'} goes | {unit} | % | most of it |"
    yield "|:--|--:|--:|:--|"
    for line in sheet.lines:
        parts = ", ".join(
            f"{leaf_part.name} {sheet.unit.text(leaf_part.digits)}"
            for leaf_part in line.parts[:4]
            if leaf_part.digits
        )
        yield f"| {line.name} | {sheet.unit.text(line.digits)} | {line.percent} | {parts} |"
    yield f"| **sum** | **{sheet.unit.text(sheet.digits)}** | **100.0** | |"


def bullets(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Return a list below a title, nothing if it is empty."""
    items = [f"{'  ' * line.startswith(' ')}- {escape(line.strip())}" for line in lines]
    if items:
        yield from ("", f"### {title}", "", *items)


def _table(study: Study, name: str, view: TableView) -> Iterator[str]:
    grid = table_grid(study, name, view.top, view.sort)
    if not grid.cells:
        return
    suffix = ", a step" if study.account.steps is not None else ""
    yield from ("", f"### {table_title(name).capitalize()}{suffix}", "")
    yield _row(grid.titles)
    yield "|:--|" + "--:|" * (len(grid.titles) - 1)
    for cells in grid.cells:
        yield _row([_code(cells[0]), *(escape(clean(cell)) for cell in cells[1:])])
    if grid.hidden_rows:
        yield from ("", f"{grid.hidden_rows:,} more rows")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Escape what Markdown or HTML would act on."""
    return _SPECIAL.sub(r"\\\1", text)


def _code(name: str) -> str:
    """Quote a name from a trace: in a fence longer than any in it, without what ends a cell."""
    safe = clean(name).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", safe)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{safe}{space}{fence}"
