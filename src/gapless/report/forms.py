"""One value, the form that was asked for: terminal, Markdown, JSON, CSV."""

import sys
from argparse import Namespace

from gapless.model.comparison import Comparison
from gapless.model.study import Study
from gapless.report import changes, document, markdown, sheet_csv, terminal
from gapless.report.pen import pen_for
from gapless.report.terminal import Wanted


def write_study(study: Study, arguments: Namespace) -> None:
    """Write a study to standard output. Raises ``UsageError`` for an unknown table or key."""
    wanted = Wanted(arguments.top, arguments.sort)
    if arguments.csv is not None:
        sys.stdout.write(sheet_csv.table(study, arguments.csv))
    elif arguments.json:
        sys.stdout.write(document.study_json(study))
    elif arguments.markdown:
        sys.stdout.write(markdown.page(study, wanted))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(terminal.screen(study, pen, wanted))


def write_comparison(comparison: Comparison, arguments: Namespace) -> None:
    """Write a comparison to standard output."""
    if arguments.json:
        sys.stdout.write(document.comparison_json(comparison))
        return
    pen = pen_for(sys.stdout, arguments.width)
    pen.write(changes.screen(comparison, pen, arguments.top))
