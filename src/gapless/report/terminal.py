"""A study on a terminal: the account first, then steps, health and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from gapless.model.study import Study
from gapless.report.account import Line, Part, Sheet, sheet
from gapless.report.columns import lay_out
from gapless.report.grids import NAMES, grid
from gapless.report.leaves import leaf_lines
from gapless.report.names import TITLES
from gapless.report.pen import Pen, bar
from gapless.report.summary import footing, headline, health_lines, rank_lines, steps_lines
from gapless.report.text import pad, shorten
from gapless.report.wrap import fold

_BAR: Final = 28
_STYLES: Final = {
    "compute": "green",
    "copy": "cyan",
    "communication": "blue",
    "data": "red",
    "host": "yellow",
    "sync": "magenta",
    "runtime": "yellow",
    "io": "yellow",
    "unknown": "bright_black",
    "observer": "bright_black",
}


@dataclass(frozen=True)
class Wanted:
    """Which part of a study is shown: rows of a table, and their order."""

    top: int = 10
    sort: str | None = None


def screen(study: Study, pen: Pen, wanted: Wanted) -> Iterator[Text]:
    """Give the whole report, line by line. Raises ``UsageError`` for a sort key that is none."""
    laid = sheet(study.account)
    yield from fold(headline(study, laid), pen.width, style="bold")
    yield from account_lines(study, laid, pen)
    yield from _section("ranks", list(rank_lines(study)), pen)
    if study.steps is not None:
        yield from _section("steps", list(steps_lines(study.steps, study.account)), pen)
    yield from _section("health", list(health_lines(study.health)), pen)
    if study.leaf is not None:
        yield from leaf_lines(study.leaf, pen, per=laid.rows)
        return
    for name in NAMES:
        yield from table_lines(study, name, pen, wanted)
    yield from _hint(study, pen)


def account_lines(study: Study, laid: Sheet, pen: Pen) -> Iterator[Text]:
    """Give the account with bars and its visible sum."""
    yield Text(
        "where a step goes" if study.account.steps is not None else "where the time goes", "bold"
    )
    wide = max(len(line.name) for line in laid.lines)
    figures = max(len(laid.unit.text(laid.digits)), 6)
    room = min(_BAR, pen.width - wide - figures - 18)
    for line in laid.lines:
        text = Text(f"  {pad(line.name, wide)}  ")
        text.append(
            f"{laid.unit.text(line.digits):>{figures}} {laid.unit.name} {line.percent:>5} %"
        )
        if room > 0 and line.share:
            text.append("  ")
            text.append(bar(line.share, room, pen.signs), _STYLES[line.group])
        yield text
        yield from _parts(line, laid, pen)
    total = f"{laid.unit.text(laid.digits):>{figures}} {laid.unit.name} 100.0 %"
    yield Text(" " * (wide + 4) + pen.signs.rule * len(total), "bright_black")
    first, *more = fold(f"({footing(study, laid)})", max(pen.width - wide - len(total) - 7, 20))
    yield Text.assemble(" " * (wide + 4), (total, "bold"), "   ", first)
    yield from (Text(" " * (wide + len(total) + 7)) + line for line in more)


def _parts(line: Line, laid: Sheet, pen: Pen) -> Iterator[Text]:
    """Give a group's parts on one line, the largest first; what does not fit is summed up."""
    visible = [part for part in line.parts if part.digits]
    if not visible:
        return
    for kept in range(len(visible), 0, -1):
        rest = visible[kept:]
        texts = [_part(part, laid) for part in visible[:kept]]
        if rest:
            texts.append(f"{len(rest)} more {laid.unit.text(sum(part.digits for part in rest))}")
        text = "     " + " · ".join(texts)
        if len(text) <= pen.width or kept == 1:
            yield Text(text, "bright_black")
            return


def _part(part: Part, laid: Sheet) -> str:
    return f"{part.name} {laid.unit.text(part.digits)}"


def _section(title: str, lines: Sequence[str], pen: Pen) -> Iterator[Text]:
    """Give a title and the lines that belong to it, folded within the width."""
    for at, line in enumerate(lines):
        for deep, text in enumerate(fold(line, pen.width - 9)):
            head = title if at == deep == 0 else ""
            yield Text.assemble((pad(head, 9), "bold"), ("  " if deep else ""), text)


def table_lines(study: Study, name: str, pen: Pen, wanted: Wanted) -> Iterator[Text]:
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
