"""A recorded run as Markdown: for issues and pull requests."""

from collections.abc import Iterator
from typing import Final

from gapless.model.run import Recorded
from gapless.model.study import Study
from gapless.report.life import life_line
from gapless.report.markdown import account_table, bullets, plain, remedies, tables
from gapless.report.run import figures, laid_out, remarks, sections, window_lines
from gapless.report.run_notable import notable_lines
from gapless.report.run_unseen import unseen_lines
from gapless.report.run_words import footing, headline, place_of
from gapless.report.terminal import Wanted

_TITLES: Final = {"command": "The whole command", "spent": "Energy and cost"}


def page(study: Study, wanted: Wanted) -> str:
    """Write the report of a run. Raises ``UsageError`` for a sort key that is none."""
    recorded = study.recorded
    return "" if recorded is None else "\n".join(_lines(study, recorded, wanted)) + "\n"


def _lines(study: Study, recorded: Recorded, wanted: Wanted) -> Iterator[str]:
    laid = laid_out(recorded)
    yield f"**{plain(headline(study, recorded, laid))}**"
    yield ""
    yield plain(f"{life_line(recorded)} · {place_of(recorded)}")
    for line in notable_lines(recorded):
        yield ""
        yield plain(line)
    if laid is not None and recorded.steps is not None:
        yield ""
        yield from account_table(laid, stepwise=True)
        yield ""
        remark = " ".join(remarks(recorded).values())
        yield f"*{plain(footing(recorded, recorded.steps))}{plain(f' {remark}' if remark else '')}*"
    yield from remedies(study)
    for name, lines in sections(study, recorded):
        if name == "replay":  # it stands with the causes
            continue
        yield from bullets(_TITLES.get(name, name.capitalize()), lines)
    yield from bullets("Machine", (f"{one.title}: {figures(one)}" for one in recorded.machine))
    yield from bullets("Not observed", unseen_lines(study, recorded))
    if recorded.windows or recorded.adopted:
        yield from bullets("Windows", window_lines(study, recorded))
        yield from tables(study, wanted)
