"""Parts of a report by name, as ``--section`` asks for them."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from gapless.errors import UsageError
from gapless.model.run import Recorded
from gapless.model.study import Study
from gapless.report.account import sheet
from gapless.report.causes import replay_lines
from gapless.report.first import Words, account_lines
from gapless.report.grids import NAMES
from gapless.report.pen import Pen
from gapless.report.remedies import remedy_screen
from gapless.report.run import laid_out, machine_lines, remarks, sections, window_lines
from gapless.report.run_unseen import unseen_lines
from gapless.report.run_words import footing as run_footing
from gapless.report.summary import footing, health_lines, rank_lines, steps_lines
from gapless.report.terminal import Wanted, section, table

Part = list[Text]


def chosen_screen(study: Study, pen: Pen, wanted: Wanted, names: Sequence[str]) -> Iterator[Text]:
    """Give some parts of the report. Raises ``UsageError`` for a part that there is none of."""
    parts = _of_run(study, study.recorded, pen) if study.recorded else _of_trace(study, pen)
    for name in NAMES:
        parts[name] = [*parts.get(name, []), *table(study, name, pen, wanted)]
    for name in names:
        if name not in parts:
            raise UsageError(f"a report has no section {name!r}; it has: {', '.join(parts)}")
        yield from parts[name] or [Text(f"{name}: nothing was recorded of it")]


def _of_run(study: Study, recorded: Recorded, pen: Pen) -> dict[str, Part]:
    laid, found = laid_out(recorded), dict[str, Part]()
    if laid is not None and recorded.steps is not None:
        words = Words("where a step goes", run_footing(recorded, recorded.steps), remarks(recorded))
        found["account"] = list(account_lines(laid, pen, words))
    found["causes"] = list(remedy_screen(study, pen))
    for name, lines in sections(study, recorded):
        found[name] = list(section(name, lines, pen))
    found["machine"] = list(machine_lines(recorded.machine, pen))
    found["unseen"] = list(section("unseen", list(unseen_lines(study, recorded)), pen))
    found["windows"] = list(section("windows", window_lines(study, recorded), pen))
    return found


def _of_trace(study: Study, pen: Pen) -> dict[str, Part]:
    title = "where a step goes" if study.account.steps is not None else "where the time goes"
    words = Words(title, footing(study))
    steps = () if study.steps is None else steps_lines(study.steps, study.account)
    return {
        "account": list(account_lines(sheet(study.account), pen, words)),
        "causes": list(remedy_screen(study, pen)),
        "replay": list(section("replay", list(replay_lines(study.diagnosis)), pen)),
        "ranks": list(section("ranks", list(rank_lines(study)), pen)),
        "steps": list(section("steps", list(steps), pen)),
        "health": list(section("health", list(health_lines(study.health)), pen)),
    }
