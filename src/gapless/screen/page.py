"""A moment as one page of lines."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text

from gapless.live.view import LiveView
from gapless.report.text.console import Pen
from gapless.report.text.text import clean
from gapless.screen.loader_lines import loader_lines
from gapless.screen.machine_lines import machine_lines
from gapless.screen.process_lines import process_lines
from gapless.screen.run_lines import Histories, run_lines

NO_HISTORY: Final[Histories] = {}
Sections = Mapping[str, list[Text]]


def page_sections(
    view: LiveView, pen: Pen, histories: Histories = NO_HISTORY, order: str = "cpu"
) -> Sections:
    """Return the lines of each part of the page: run, data, machine, processes (in this order)."""
    sections = _sections(view, pen, histories, order)
    for lines in sections.values():
        for line in lines:
            line.truncate(pen.width, overflow="ellipsis")
    return sections


def _sections(view: LiveView, pen: Pen, histories: Histories, order: str) -> Sections:
    run = view.run
    if run is None:
        head = Text.assemble(
            ("gapless watch", "bold"), f" · {clean(view.host)} · no run is watched: the machine"
        )
        return {
            "run": [head],
            "machine": list(machine_lines(view, pen, histories)),
            "processes": list(process_lines(view.processes, pen, order)),
        }
    return {
        "run": list(run_lines(run, pen, histories)),
        "data": list(loader_lines(run.loaders, pen)),
        "machine": list(machine_lines(view, pen, histories)),
    }


def page_lines(view: LiveView, pen: Pen) -> Iterator[Text]:
    """Return the whole page, as ``--once`` prints it."""
    sections = page_sections(view, pen)
    for index, lines in enumerate(lines for lines in sections.values() if lines):
        if index:
            yield Text()
        yield from lines
