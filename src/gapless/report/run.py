"""A recorded run on a terminal: where a step goes, then steps, command, ranks, loaders, machine."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from rich.text import Text

from gapless.model.run import Recorded, Series
from gapless.model.study import Study
from gapless.report.account import Sheet, sheet
from gapless.report.causes import first_lines, replay_lines
from gapless.report.checks import check_lines
from gapless.report.first import Words, account_lines
from gapless.report.functions import function_lines
from gapless.report.life import life_line
from gapless.report.numbers import count
from gapless.report.pen import Pen, pen_for, spark
from gapless.report.remedies import remedy_screen
from gapless.report.run_footprint import footprint_sections
from gapless.report.run_loaders import AT_HOME, at_home, loader_lines
from gapless.report.run_notable import notable_lines, optimizer_lines, shares_of
from gapless.report.run_ranks import rank_lines
from gapless.report.run_unseen import saving_lines, unseen_lines
from gapless.report.run_words import (
    command_lines,
    footing,
    headline,
    line_lines,
    place_of,
    spent_lines,
    steps_lines,
)
from gapless.report.summary import health_lines
from gapless.report.terminal import Wanted, section, tables
from gapless.report.text import clean, pad, shorten
from gapless.report.trials import verdict_line
from gapless.report.wrap import fold

_NAME: Final = 22  # cells of a series' name
_INDENT: Final = 11


def print_run(study: Study, stream: TextIO | None = None) -> None:
    """Print the whole report of a run, without tables; by default on stderr."""
    pen = pen_for(stream or sys.stderr)
    pen.write(run_screen(study, pen))


def early_line(study: Study) -> str:
    """Give the first verdict in one line: the headline, and the largest part of a step."""
    recorded = study.recorded
    if recorded is None:
        return ""
    laid = laid_out(recorded)
    line = headline(study, recorded, laid)
    if laid is None or not laid.lines:
        return line
    largest = laid.lines[0]
    return f"{line} · so far a step is mostly {largest.name}: {largest.percent} %"


def laid_out(recorded: Recorded) -> Sheet | None:
    """Lay the account of a step out; ``None`` where there are no two steps."""
    return None if recorded.account is None else sheet(recorded.account.account)


def run_screen(study: Study, pen: Pen, wanted: Wanted | None = None) -> Iterator[Text]:
    """Give the whole report, line by line; with ``wanted`` the tables of the windows, too."""
    recorded = study.recorded
    if recorded is None:
        return
    laid = laid_out(recorded)
    yield from fold(headline(study, recorded, laid), pen.width, style="bold")
    yield from fold(life_line(recorded), pen.width)
    yield from fold(place_of(recorded), pen.width)
    for line in () if study.diagnosis is None else first_lines(study.diagnosis):
        yield from fold(line, pen.width, style="bold")
    for line in notable_lines(recorded):
        yield from fold(line, pen.width)
    if laid is not None and recorded.steps is not None:
        words = Words("where a step goes", footing(recorded, recorded.steps), remarks(recorded))
        yield from account_lines(laid, pen, words)
    yield from remedy_screen(study, pen)
    for name, lines in sections(study, recorded):
        yield from section(name, lines, pen)
    yield from machine_lines(recorded.machine, pen)
    yield from section("not seen", list(unseen_lines(study, recorded)), pen)
    if (recorded.windows or recorded.adopted) and wanted is not None:
        yield from section("windows", window_lines(study, recorded), pen)
        yield from tables(study, pen, wanted)


def sections(study: Study, recorded: Recorded) -> Iterator[tuple[str, Sequence[str]]]:
    """Give the parts of the report that are sentences, with their titles."""
    if recorded.steps is not None:
        yield "steps", [*steps_lines(recorded, recorded.steps), *optimizer_lines(recorded)]
    yield "replay", [*replay_lines(study.diagnosis), *check_lines(study.trials)]
    yield "command", list(command_lines(recorded))
    yield "ranks", list(rank_lines(study, recorded))
    yield "loaders", list(loader_lines(recorded))
    yield "lines", [*line_lines(recorded), *function_lines(study)]
    yield from footprint_sections(recorded.footprint)
    yield "spent", list(spent_lines(recorded))
    yield (
        "tried",
        [
            verdict_line(side)
            for trial in study.trials
            for side in trial.sides
            if side.check is None  # those stand with the replay
        ],
    )


def window_lines(study: Study, recorded: Recorded) -> Sequence[str]:
    """Say how far the windows can be trusted."""
    return [*health_lines(study.health), *saving_lines(recorded)]


def remarks(recorded: Recorded) -> dict[str, str]:
    """Say beside waiting for data where it is loaded, and for which of several loaders it was."""
    used = [one for one in recorded.loaders if one.waits]
    home = [AT_HOME] if used and all(map(at_home, used)) else []
    told = "; ".join([*home, *filter(None, [shares_of(recorded.loaders)])])
    return {"data": f"({told})"} if told else {}


def machine_lines(every: Sequence[Series], pen: Pen) -> Iterator[Text]:
    """Draw the sampled series, from the start of the command to its end."""
    name = min(_NAME, max((len(one.title) for one in every), default=0))
    room = pen.width - _INDENT - name - 30
    for at, one in enumerate(every):
        top = one.ceiling or one.high
        drawn = f"{spark(one.points, top, room, pen.signs)}  " if room > 8 else ""  # noqa: PLR2004
        text = f"{pad(shorten(clean(one.title), name), name)}  {drawn}{figures(one)}"
        yield Text.assemble((pad("machine" if at == 0 else "", 9), "bold"), text)


def figures(one: Series) -> str:
    """Give mean and range of a series, with its unit."""
    return f"{_figure(one.mean)} {one.unit} ({_figure(one.low)} to {_figure(one.high)})"


def _figure(value: float) -> str:
    return count(round(value)) if abs(value) >= 10 else f"{value:.3g}"  # noqa: PLR2004
