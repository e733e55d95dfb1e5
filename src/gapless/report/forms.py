"""One value in the requested form: terminal, Markdown, JSON, CSV."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from gapless.model.comparison import Comparison
from gapless.model.study import Study
from gapless.report.text.console import Pen, pen_for

if TYPE_CHECKING:
    from gapless.report.terminal import TableView


def write_study(study: Study, arguments: Namespace) -> None:
    """Write a study to standard output. Raises ``UsageError`` for an unknown table or key.

    Only the requested form is imported, so that opening a cached trace stays fast.
    """
    from gapless.report.terminal import TableView

    view = TableView(arguments.top, arguments.sort)
    if arguments.csv is not None:
        from gapless.report import sheet_csv

        sys.stdout.write(sheet_csv.table_csv(study, arguments.csv))
    elif arguments.json:
        from gapless.report.documents import document

        sys.stdout.write(document.study_json(study))
    elif arguments.markdown:
        from gapless.report import markdown
        from gapless.report.run import markdown_page

        page = markdown.study_page if study.recorded is None else markdown_page.run_page
        sys.stdout.write(page(study, view))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(_screen_lines(study, pen, view, arguments))


def write_ended_run(study: Study, arguments: Namespace, stream: TextIO) -> None:
    """Print the requested parts of a run that has just ended; the next command comes last."""
    from gapless.report.terminal import TableView

    pen = pen_for(stream)
    pen.write(_screen_lines(study, pen, TableView(), arguments, has_ended=True))
    if arguments.full or arguments.section:
        from gapless.report.brief import next_line

        pen.write(next_line(study, pen))


def _screen_lines(
    study: Study, pen: Pen, view: "TableView", arguments: Namespace, *, has_ended: bool = False
) -> Iterator[Text]:
    """Return the first screen, or as much as was requested."""
    from gapless.report.terminal import TableView

    sections: list[str] | None = getattr(arguments, "section", None)
    if sections:
        from gapless.report.sections_asked import section_screen

        return section_screen(study, pen, view, sections)
    tables = view != TableView() or getattr(arguments, "by_shape", False)  # what these are about
    if tables or study.leaf is not None or getattr(arguments, "full", False):
        return _full_screen(study, pen, view)
    from gapless.report.brief import brief_screen

    return brief_screen(study, pen, has_ended=has_ended)


def _full_screen(study: Study, pen: Pen, view: "TableView") -> Iterator[Text]:
    if study.recorded is None or study.leaf is not None:
        from gapless.report.terminal import study_screen

        return study_screen(study, pen, view)
    from gapless.report.run.page import run_screen

    return run_screen(study, pen, view)


def write_comparison(comparison: Comparison, arguments: Namespace) -> None:
    """Write a comparison to standard output."""
    from gapless.report import changes

    if arguments.json:
        from gapless.report.documents import document

        sys.stdout.write(document.comparison_json(comparison))
        return
    pen = pen_for(sys.stdout, arguments.width)
    screen = changes.comparison_screen(comparison, pen, arguments.top, full=arguments.full)
    pen.write(screen)
