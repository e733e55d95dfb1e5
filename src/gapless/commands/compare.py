"""Print the difference of B and A, per step: causes, operators, kernels.

A and B are paths as for gapless open. Figures are means over the counted steps, so captures of
different length compare; operators are matched by name (with --by-shape: and shapes), kernels by
name and launch geometry.

Examples:
  gapless compare before.json.gz after.json.gz
  gapless compare ./log-main ./log-branch --top 20
  gapless compare before.json after.json --json | jq '.groups'

"""

import argparse

SUMMARY = "print the difference of two traces: causes, operators, kernels"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless compare``."""
    from gapless.commands.options import add_forms, add_selection

    parser.add_argument("a", metavar="A", help="file, folder or pattern: before")
    parser.add_argument("b", metavar="B", help="file, folder or pattern: after")
    add_selection(parser)
    add_forms(parser)


def main(arguments: argparse.Namespace) -> int:
    """Open both and print the difference."""
    from gapless.commands.heap import settle_heap
    from gapless.commands.options import progress, study_options
    from gapless.report.forms import write_comparison
    from gapless.study import open_study
    from gapless.study.comparison import compare

    settle_heap()
    with progress() as say:
        studies = [
            open_study([path], study_options(arguments), say) for path in (arguments.a, arguments.b)
        ]
    write_comparison(compare(*studies), arguments)
    return 0
