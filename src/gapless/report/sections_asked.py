"""Parts of a report by name, as requested by ``--section``."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from gapless.errors import UsageError
from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.report.run.page import (
    group_remarks,
    machine_lines,
    step_sheet,
    text_sections,
    window_lines,
)
from gapless.report.run.sentences import footing as run_footing
from gapless.report.run.unobserved import unobserved_lines
from gapless.report.sections.account import account_sheet
from gapless.report.sections.account_screen import AccountCaption, account_lines
from gapless.report.sections.calls import calls_lines
from gapless.report.sections.causes import replay_lines
from gapless.report.sections.grids import NAMES
from gapless.report.sections.remedies import remedy_screen
from gapless.report.sections.summary import footing, health_lines, rank_lines, steps_lines
from gapless.report.terminal import TableView, section, table_lines
from gapless.report.text.console import Pen

Section = list[Text]
_UNRECORDED: Final = "nothing was recorded of it"
_WHEN_EMPTY: Final = {"hosts": "all that was recorded ran on one"}


def section_screen(study: Study, pen: Pen, view: TableView, names: Sequence[str]) -> Iterator[Text]:
    """Return some parts of the report. Raises ``UsageError`` for an unknown part."""
    available = (
        _run_sections(study, study.recorded, pen) if study.recorded else _trace_sections(study, pen)
    )
    for name in NAMES:
        available[name] = [*available.get(name, []), *table_lines(study, name, pen, view)]
    for name in names:
        if name not in available:
            raise UsageError(f"a report has no section {name!r}; it has: {', '.join(available)}")
        yield from available[name] or [Text(f"{name}: {_WHEN_EMPTY.get(name, _UNRECORDED)}")]


def _run_sections(study: Study, recorded: RecordedRun, pen: Pen) -> dict[str, Section]:
    sheet, found_sections = step_sheet(recorded), dict[str, Section]()
    if sheet is not None and recorded.steps is not None:
        caption = AccountCaption(
            "where a step goes", run_footing(recorded, recorded.steps), group_remarks(recorded)
        )
        found_sections["account"] = list(account_lines(sheet, pen, caption))
    found_sections["causes"] = list(remedy_screen(study, pen))
    for name, lines in text_sections(study, recorded):
        found_sections[name] = list(section(name, lines, pen))
    found_sections["calls"] = list(calls_lines(recorded.calls, pen))
    found_sections["machine"] = list(machine_lines(recorded.machine, pen))
    found_sections["unseen"] = list(section("unseen", list(unobserved_lines(study, recorded)), pen))
    found_sections["windows"] = list(section("windows", window_lines(study, recorded), pen))
    return found_sections


def _trace_sections(study: Study, pen: Pen) -> dict[str, Section]:
    title = "where a step goes" if study.account.steps is not None else "where the time goes"
    caption = AccountCaption(title, footing(study))
    steps = () if study.steps is None else steps_lines(study.steps, study.account)
    return {
        "account": list(account_lines(account_sheet(study.account), pen, caption)),
        "causes": list(remedy_screen(study, pen)),
        "replay": list(section("replay", list(replay_lines(study.diagnosis)), pen)),
        "ranks": list(section("ranks", list(rank_lines(study)), pen)),
        "steps": list(section("steps", list(steps), pen)),
        "health": list(section("health", list(health_lines(study.health)), pen)),
    }
