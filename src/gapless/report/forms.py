"""One value, the form that was asked for: terminal, Markdown, JSON, CSV."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from gapless.model.comparison import Comparison
from gapless.model.study import Study
from gapless.report.pen import Pen, pen_for

if TYPE_CHECKING:
    from gapless.report.terminal import Wanted


def write_study(study: Study, arguments: Namespace) -> None:
    """Write a study to standard output. Raises ``UsageError`` for an unknown table or key.

    Only the form that was asked for is imported: a trace that is opened again takes little longer.
    """
    from gapless.report.terminal import Wanted

    wanted = Wanted(arguments.top, arguments.sort)
    if arguments.csv is not None:
        from gapless.report import sheet_csv

        sys.stdout.write(sheet_csv.table(study, arguments.csv))
    elif arguments.json:
        from gapless.report import document

        sys.stdout.write(document.study_json(study))
    elif arguments.markdown:
        from gapless.report import markdown, run_markdown

        page = markdown.page if study.recorded is None else run_markdown.page
        sys.stdout.write(page(study, wanted))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(_shown(study, pen, wanted, arguments))


def tell_run(study: Study, arguments: Namespace, stream: TextIO) -> None:
    """Print what was asked for of a run that has just ended; the next command comes last."""
    from gapless.report.terminal import Wanted

    pen = pen_for(stream)
    pen.write(_shown(study, pen, Wanted(), arguments, ended=True))
    if arguments.full or arguments.section:
        from gapless.report.brief import next_line

        pen.write(next_line(study, pen))


def _shown(
    study: Study, pen: Pen, wanted: "Wanted", arguments: Namespace, *, ended: bool = False
) -> Iterator[Text]:
    """Give the first screen, or as much as was asked for."""
    from gapless.report.terminal import Wanted

    sections: list[str] | None = getattr(arguments, "section", None)
    if sections:
        from gapless.report.chosen import chosen_screen

        return chosen_screen(study, pen, wanted, sections)
    tables = wanted != Wanted() or getattr(arguments, "by_shape", False)  # what these are about
    if tables or study.leaf is not None or getattr(arguments, "full", False):
        return _screen(study, pen, wanted)
    from gapless.report.brief import brief_screen

    return brief_screen(study, pen, ended=ended)


def _screen(study: Study, pen: Pen, wanted: "Wanted") -> Iterator[Text]:
    if study.recorded is None or study.leaf is not None:
        from gapless.report.terminal import screen

        return screen(study, pen, wanted)
    from gapless.report.run import run_screen

    return run_screen(study, pen, wanted)


def write_comparison(comparison: Comparison, arguments: Namespace) -> None:
    """Write a comparison to standard output."""
    from gapless.report import changes

    if arguments.json:
        from gapless.report import document

        sys.stdout.write(document.comparison_json(comparison))
        return
    pen = pen_for(sys.stdout, arguments.width)
    pen.write(changes.screen(comparison, pen, arguments.top))
