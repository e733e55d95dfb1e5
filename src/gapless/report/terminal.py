"""A study on a terminal: the account first, then ranks, steps, health and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from gapless.model.study import Study
from gapless.report.account import sheet
from gapless.report.causes import replay_lines
from gapless.report.columns import lay_out
from gapless.report.first import Words, account_lines
from gapless.report.grids import NAMES, grid
from gapless.report.leaves import leaf_lines
from gapless.report.names import TITLES
from gapless.report.pen import Pen
from gapless.report.remedies import remedy_screen
from gapless.report.summary import footing, headline, health_lines, rank_lines, steps_lines
from gapless.report.text import pad, shorten
from gapless.report.wrap import fold


@dataclass(frozen=True)
class Wanted:
    """How much of a study's tables is shown, and in which order."""

    top: int = 10
    sort: str | None = None


def screen(study: Study, pen: Pen, wanted: Wanted) -> Iterator[Text]:
    """Give the whole report, line by line. Raises ``UsageError`` for a sort key that is none."""
    laid = sheet(study.account)
    yield from fold(headline(study, laid), pen.width, style="bold")
    title = "where a step goes" if study.account.steps is not None else "where the time goes"
    yield from account_lines(laid, pen, Words(title, footing(study)))
    yield from remedy_screen(study, pen)
    yield from section("replay", list(replay_lines(study.diagnosis)), pen)
    yield from section("ranks", list(rank_lines(study)), pen)
    if study.steps is not None:
        yield from section("steps", list(steps_lines(study.steps, study.account)), pen)
    yield from section("health", list(health_lines(study.health)), pen)
    if study.leaf is not None:
        yield from leaf_lines(study.leaf, pen.width, per=laid.rows)
        return
    yield from tables(study, pen, wanted)
    yield from _hint(study, pen)


def tables(study: Study, pen: Pen, wanted: Wanted) -> Iterator[Text]:
    """Give the tables of what a trace holds. Raises ``UsageError`` for a sort key that is none."""
    for name in NAMES:
        yield from table(study, name, pen, wanted)


def section(title: str, lines: Sequence[str], pen: Pen) -> Iterator[Text]:
    """Give a title and the lines that belong to it, folded within the width."""
    for at, line in enumerate(lines):
        for deep, text in enumerate(fold(line, pen.width - 11)):
            head = title if at == deep == 0 else ""
            yield Text.assemble((pad(head, 9), "bold"), ("  " if deep else ""), text)


def table(study: Study, name: str, pen: Pen, wanted: Wanted) -> Iterator[Text]:
    """Give one table, nothing if it is empty."""
    laid = grid(study, name, wanted.top, wanted.sort)
    if not laid.cells:
        return
    per = ", a step" if study.account.steps is not None else ""
    yield Text("")
    yield from lay_out(f"{TITLES[name]}{per}", laid, pen)
    if laid.more:
        yield Text(f"  {laid.more:,} more (--top {wanted.top + laid.more})", "bright_black")


def _hint(study: Study, pen: Pen) -> Iterator[Text]:
    """Say how to look further: into the largest leaf that is no work of the device."""
    idle = {leaf: ns for leaf, ns in study.account.leaves.items() if not leaf.startswith("busy.")}
    if not idle:
        return
    largest = max(idle, key=lambda leaf: idle[leaf])
    yield Text("")
    yield Text(shorten(f"look closer: gapless open … --leaf {largest}", pen.width), "bright_black")
