"""A recorded run on a terminal: where a step goes, then steps, command, ranks, loaders, machine."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from rich.text import Text

from gapless.model.edit import short_path
from gapless.model.run import RecordedRun, Series
from gapless.model.study import Study
from gapless.model.tables import Line
from gapless.report.run.footprint import footprint_sections
from gapless.report.run.loaders import IN_TRAINING, loader_lines, loads_in_training
from gapless.report.run.nodes import node_lines
from gapless.report.run.notable import notable_lines, optimizer_lines, wait_shares_text
from gapless.report.run.ranks import host_lines, rank_lines
from gapless.report.run.sentences import (
    command_lines,
    footing,
    headline,
    line_lines,
    run_folder,
    spent_lines,
    steps_lines,
)
from gapless.report.run.unobserved import saving_lines, unobserved_lines
from gapless.report.sections.account import AccountSheet, account_sheet
from gapless.report.sections.account_screen import AccountCaption, account_lines
from gapless.report.sections.causes import first_lines, replay_lines
from gapless.report.sections.remedies import remedy_screen
from gapless.report.sections.run_status import life_line
from gapless.report.sections.summary import health_lines
from gapless.report.sections.trials import verdict_line
from gapless.report.terminal import TableView, section, tables
from gapless.report.text.console import Pen, pen_for, spark
from gapless.report.text.numbers import count, percent
from gapless.report.text.text import clean, cut_middle, pad
from gapless.report.text.wrap import fold

_MAX_FUNCTIONS: Final = 4
_MIN_WINDOW_SHARE: Final = 0.05  # of the window
_MAX_WINDOW_SHARE: Final = 0.95  # a function with more is the loop itself, or all that it calls


_MAX_NAME_CELLS: Final = 22  # cells of a series' name
_MIN_SPARK_CELLS: Final = 8  # up to that a series has no drawing
_INDENT: Final = 11


def print_run(study: Study, stream: TextIO | None = None) -> None:
    """Print the whole report of a run, without tables; by default on stderr."""
    pen = pen_for(stream or sys.stderr)
    pen.write(run_screen(study, pen))


def early_line(study: Study) -> str:
    """Return the first verdict in one line: the headline, and the largest part of a step."""
    recorded = study.recorded
    if recorded is None:
        return ""
    sheet = step_sheet(recorded)
    line = headline(study, recorded, sheet)
    if sheet is None or not sheet.lines:
        return line
    largest = sheet.lines[0]
    return f"{line} · so far a step is mostly {largest.name}: {largest.percent} %"


def step_sheet(recorded: RecordedRun) -> AccountSheet | None:
    """Lay out the account of a step; ``None`` without two steps."""
    return None if recorded.account is None else account_sheet(recorded.account.account)


def run_screen(study: Study, pen: Pen, view: TableView | None = None) -> Iterator[Text]:
    """Return the whole report, line by line; with a ``view`` the tables of the windows, too."""
    recorded = study.recorded
    if recorded is None:
        return
    sheet = step_sheet(recorded)
    yield from fold(headline(study, recorded, sheet), pen.width, style="bold")
    yield from fold(life_line(recorded), pen.width)
    yield from fold(run_folder(recorded), pen.width)
    for line in () if study.diagnosis is None else first_lines(study.diagnosis):
        yield from fold(line, pen.width, style="bold")
    for line in notable_lines(study):
        yield from fold(line, pen.width)
    if sheet is not None and recorded.steps is not None:
        caption = AccountCaption(
            "where a step goes", footing(recorded, recorded.steps), group_remarks(recorded)
        )
        yield from account_lines(sheet, pen, caption)
    yield from remedy_screen(study, pen)
    for name, lines in text_sections(study, recorded):
        yield from section(name, lines, pen)
    yield from machine_lines(recorded.machine, pen)
    yield from section("not seen", list(unobserved_lines(study, recorded)), pen)
    if (recorded.windows or recorded.adopted) and view is not None:
        yield from section("windows", window_lines(study, recorded), pen)
        yield from tables(study, pen, view)


def text_sections(study: Study, recorded: RecordedRun) -> Iterator[tuple[str, Sequence[str]]]:
    """Return the parts of the report that are sentences, with their titles."""
    if recorded.steps is not None:
        yield "steps", [*steps_lines(recorded, recorded.steps), *optimizer_lines(recorded)]
    yield "replay", list(replay_lines(study.diagnosis))
    yield "command", list(command_lines(recorded))
    yield "nodes", list(node_lines(recorded))
    yield "hosts", list(host_lines(study, recorded))
    yield "ranks", list(rank_lines(study, recorded))
    yield "loaders", list(loader_lines(recorded))
    yield "lines", [*line_lines(recorded), *function_lines(study)]
    yield from footprint_sections(recorded.footprint)
    yield "spent", list(spent_lines(recorded))
    yield (
        "tried",
        [verdict_line(side) for trial in study.trials for side in trial.sides],
    )


def window_lines(study: Study, recorded: RecordedRun) -> Sequence[str]:
    """Describe how far the windows can be trusted."""
    return [*health_lines(study.health), *saving_lines(recorded)]


def group_remarks(recorded: RecordedRun) -> dict[str, str]:
    """Remark on waiting for data: where it is loaded, and which of several loaders it was for."""
    used_loaders = [loader for loader in recorded.loaders if loader.waits]
    loading_remark = (
        [IN_TRAINING] if used_loaders and all(map(loads_in_training, used_loaders)) else []
    )
    remark = "; ".join([*loading_remark, *filter(None, [wait_shares_text(recorded.loaders)])])
    return {"data": f"({remark})"} if remark else {}


def machine_lines(series_list: Sequence[Series], pen: Pen) -> Iterator[Text]:
    """Draw the sampled series, from the start of the command to its end."""
    width = min(_MAX_NAME_CELLS, max((len(series.title) for series in series_list), default=0))
    spark_width = pen.width - _INDENT - width - 30
    for index, series in enumerate(series_list):
        top = series.ceiling or series.high
        has_room = spark_width > _MIN_SPARK_CELLS
        drawing = f"{spark(series.points, top, spark_width, pen.signs)}  " if has_room else ""
        text = f"{pad(cut_middle(clean(series.title), width), width)}  {drawing}{figures(series)}"
        yield Text.assemble((pad("machine" if index == 0 else "", 9), "bold"), text)


def figures(series: Series) -> str:
    """Return mean and range of a series, with its unit."""
    return f"{_figure(series.mean)} {series.unit} ({_figure(series.low)} to {_figure(series.high)})"


def _figure(value: float) -> str:
    return count(round(value)) if abs(value) >= 10 else f"{value:.3g}"  # noqa: PLR2004


def function_lines(study: Study) -> Iterator[str]:
    """Return the functions that hold most of the window with stacks, what they call included."""
    user_functions = {(site.file, site.line, site.function) for site in study.sites}
    longest_ns = max((line.host_total_ns for line in study.tables.lines), default=0)
    lines = [
        line
        for line in study.tables.lines
        if (line.file, line.line, line.function) in user_functions
        and line.calls
        and _MIN_WINDOW_SHARE * longest_ns <= line.host_total_ns <= _MAX_WINDOW_SHARE * longest_ns
    ]
    lines.sort(key=lambda line: (-line.host_total_ns, line.file, line.line))
    if lines:
        functions = " · ".join(
            f"{_function_ref(line)} {percent(line.host_total_ns / longest_ns)}"
            for line in lines[:_MAX_FUNCTIONS]
        )
        yield (
            f"your functions, with what they call, as a profiler of Python saw a step: {functions}"
        )


def _function_ref(line: Line) -> str:
    return f"{clean(short_path(line.file))}:{line.line} {clean(line.function)}"
