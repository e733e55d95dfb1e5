"""A study on a terminal: the account first, then ranks, steps, health and tables."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from gapless.model.study import Study
from gapless.report.sections.account import account_sheet
from gapless.report.sections.account_screen import AccountCaption, account_lines
from gapless.report.sections.causes import replay_lines
from gapless.report.sections.columns import lay_out_grid
from gapless.report.sections.grids import NAMES, table_grid, table_title
from gapless.report.sections.leaves import leaf_lines
from gapless.report.sections.remedies import remedy_screen
from gapless.report.sections.summary import footing, headline, health_lines, rank_lines, steps_lines
from gapless.report.text.console import Pen
from gapless.report.text.text import cut_middle, pad
from gapless.report.text.wrap import fold


class TableView(Struct, frozen=True):
    """How much of a study's tables is shown, and in which order."""

    top: int = 10
    sort: str | None = None


def study_screen(study: Study, pen: Pen, view: TableView) -> Iterator[Text]:
    """Return the whole report, line by line. Raises ``UsageError`` for an unknown sort key."""
    sheet = account_sheet(study.account)
    yield from fold(headline(study, sheet), pen.width, style="bold")
    title = "where a step goes" if study.account.steps is not None else "where the time goes"
    yield from account_lines(sheet, pen, AccountCaption(title, footing(study)))
    yield from remedy_screen(study, pen)
    yield from section("replay", list(replay_lines(study.diagnosis)), pen)
    yield from section("ranks", list(rank_lines(study)), pen)
    if study.steps is not None:
        yield from section("steps", list(steps_lines(study.steps, study.account)), pen)
    yield from section("health", list(health_lines(study.health)), pen)
    if study.leaf is not None:
        yield from leaf_lines(study.leaf, pen.width, divisor=sheet.rows)
        return
    yield from tables(study, pen, view)
    yield from _hint(study, pen)


def tables(study: Study, pen: Pen, view: TableView) -> Iterator[Text]:
    """Return the tables of a trace's contents. Raises ``UsageError`` for an unknown sort key."""
    for name in NAMES:
        yield from table_lines(study, name, pen, view)


def section(title: str, lines: Sequence[str], pen: Pen) -> Iterator[Text]:
    """Return a title and the lines that belong to it, folded within the width."""
    for index, line in enumerate(lines):
        for depth, text in enumerate(fold(line, pen.width - 11)):
            head = title if index == depth == 0 else ""
            yield Text.assemble((pad(head, 9), "bold"), ("  " if depth else ""), text)


def table_lines(study: Study, name: str, pen: Pen, view: TableView) -> Iterator[Text]:
    """Return one table, nothing if it is empty."""
    grid = table_grid(study, name, view.top, view.sort)
    if not grid.cells:
        return
    suffix = ", a step" if study.account.steps is not None else ""
    yield Text("")
    yield from lay_out_grid(f"{table_title(name)}{suffix}", grid, pen)
    if grid.hidden_rows:
        yield Text(
            f"  {grid.hidden_rows:,} more (--top {view.top + grid.hidden_rows})", "bright_black"
        )


def _hint(study: Study, pen: Pen) -> Iterator[Text]:
    """Suggest how to look further: into the largest leaf that is not work of the device."""
    idle = {leaf: ns for leaf, ns in study.account.leaves.items() if not leaf.startswith("busy.")}
    if not idle:
        return
    largest = max(idle, key=lambda leaf: idle[leaf])
    yield Text("")
    yield Text(
        cut_middle(f"look closer: gapless open … --leaf {largest}", pen.width), "bright_black"
    )
