"""A recorded run as Markdown: for issues and pull requests."""

from collections.abc import Iterator
from typing import Final

from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.report.markdown import account_table, bullets, escape, remedy_lines, tables
from gapless.report.run.notable import notable_lines
from gapless.report.run.page import figures, group_remarks, step_sheet, text_sections, window_lines
from gapless.report.run.sentences import footing, headline, run_folder
from gapless.report.run.unobserved import unobserved_lines
from gapless.report.sections.run_status import life_line
from gapless.report.terminal import TableView

_TITLES: Final = {"command": "The whole command", "spent": "Energy and cost"}


def run_page(study: Study, view: TableView) -> str:
    """Write the report of a run. Raises ``UsageError`` for an unknown sort key."""
    recorded = study.recorded
    return "" if recorded is None else "\n".join(_lines(study, recorded, view)) + "\n"


def _lines(study: Study, recorded: RecordedRun, view: TableView) -> Iterator[str]:
    sheet = step_sheet(recorded)
    yield f"**{escape(headline(study, recorded, sheet))}**"
    yield ""
    yield escape(f"{life_line(recorded)} · {run_folder(recorded)}")
    for line in notable_lines(study):
        yield ""
        yield escape(line)
    if sheet is not None and recorded.steps is not None:
        yield ""
        yield from account_table(sheet, stepwise=True)
        yield ""
        remarks = "".join(f" {remark}" for remark in group_remarks(recorded).values())
        yield f"*{escape(footing(recorded, recorded.steps))}{escape(remarks)}*"
    yield from remedy_lines(study)
    for name, lines in text_sections(study, recorded):
        if name == "replay":  # it is shown with the causes
            continue
        yield from bullets(_TITLES.get(name, name.capitalize()), lines)
    yield from bullets(
        "Machine", (f"{series.title}: {figures(series)}" for series in recorded.machine)
    )
    yield from bullets("Not observed", unobserved_lines(study, recorded))
    if recorded.windows or recorded.adopted:
        yield from bullets("Windows", window_lines(study, recorded))
        yield from tables(study, view)
