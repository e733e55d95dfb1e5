"""A study as Markdown: for issues and pull requests. Names are whole."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.study import Study
from gapless.report.account import Sheet, sheet
from gapless.report.causes import cause_lines, harmless_lines, replay_lines, try_lines
from gapless.report.checks import check_lines
from gapless.report.grids import NAMES, grid
from gapless.report.leaves import leaf_lines
from gapless.report.names import TITLES
from gapless.report.remedies import end_lines, refused_lines, remedy_rows, then_line
from gapless.report.summary import footing, headline, health_lines, rank_lines, steps_lines
from gapless.report.terminal import Wanted
from gapless.report.text import clean

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|#&~])")
_ANY_WIDTH: Final = 1 << 20


def page(study: Study, wanted: Wanted) -> str:
    """Write the report. Raises ``UsageError`` for a sort key that is none."""
    return "\n".join(_lines(study, wanted)) + "\n"


def _lines(study: Study, wanted: Wanted) -> Iterator[str]:
    laid = sheet(study.account)
    yield f"**{plain(headline(study, laid))}**"
    yield ""
    yield from account_table(laid, stepwise=study.account.steps is not None)
    yield ""
    yield f"*{plain(footing(study))}*"
    yield from remedies(study)
    yield from bullets("Ranks", rank_lines(study))
    if study.steps is not None:
        yield from bullets("Steps", steps_lines(study.steps, study.account))
    yield from bullets("Health", health_lines(study.health))
    if study.leaf is not None:
        pieces = (line.plain for line in leaf_lines(study.leaf, _ANY_WIDTH, per=laid.rows))
        yield from ("", "```text", *(line for line in pieces if line), "```")
        return
    yield from tables(study, wanted)


def tables(study: Study, wanted: Wanted) -> Iterator[str]:
    """Give the tables of what a trace holds. Raises ``UsageError`` for a sort key that is none."""
    for name in NAMES:
        yield from _table(study, name, wanted)


def remedies(study: Study) -> Iterator[str]:
    """Give causes, what would help, what is harmless, and what that rests on."""
    found = study.diagnosis
    if found is None:
        return
    if found.verdict is not None:
        yield from ("", f"**{plain(clean(found.verdict.sentence))}.**")
    elif found.outlook:
        yield from ("", f"**{plain(clean(found.outlook))}**")
    yield from bullets("What costs time", cause_lines(found))
    rows = remedy_rows(study)
    if rows:
        yield from ("", "### What would help", "")
        yield "| | change | where | class | predicted step | is worth |"
        yield "|--:|:--|:--|:--|--:|--:|"
        yield from (_row([plain(cell) for cell in row.cells]) for row in rows)
        yield from ("", plain(then_line(study)))
    yield from bullets("Worth trying, without a price", try_lines(found))
    yield from bullets("Refused", refused_lines(study))
    yield from bullets("Harmless here", harmless_lines(found))
    yield from bullets(
        "Replay", (*replay_lines(found), *check_lines(study.trials), *end_lines(study))
    )


def account_table(laid: Sheet, *, stepwise: bool) -> Iterator[str]:
    """Give the account as a table, with its sum."""
    per = f"{laid.unit.name} a step" if stepwise else laid.unit.name
    yield f"| where {'a step' if stepwise else 'the time'} goes | {per} | % | most of it |"
    yield "|:--|--:|--:|:--|"
    for line in laid.lines:
        parts = ", ".join(
            f"{part.name} {laid.unit.text(part.digits)}" for part in line.parts[:4] if part.digits
        )
        yield f"| {line.name} | {laid.unit.text(line.digits)} | {line.percent} | {parts} |"
    yield f"| **sum** | **{laid.unit.text(laid.digits)}** | **100.0** | |"


def bullets(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Give a list below a title, nothing if it is empty."""
    items = [f"{'  ' * line.startswith(' ')}- {plain(line.strip())}" for line in lines]
    if items:
        yield from ("", f"### {title}", "", *items)


def _table(study: Study, name: str, wanted: Wanted) -> Iterator[str]:
    laid = grid(study, name, wanted.top, wanted.sort)
    if not laid.cells:
        return
    per = ", a step" if study.account.steps is not None else ""
    yield from ("", f"### {TITLES[name].capitalize()}{per}", "")
    yield _row(laid.titles)
    yield "|:--|" + "--:|" * (len(laid.titles) - 1)
    for cells in laid.cells:
        yield _row([_code(cells[0]), *(plain(clean(cell)) for cell in cells[1:])])
    if laid.more:
        yield from ("", f"{laid.more:,} more rows")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Escape what Markdown or HTML would act on."""
    return _SPECIAL.sub(r"\\\1", text)


def _code(name: str) -> str:
    """Quote a name from a trace: in a fence longer than any in it, without what ends a cell."""
    safe = clean(name).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", safe)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{safe}{space}{fence}"
