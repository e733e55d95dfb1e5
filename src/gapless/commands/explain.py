"""Explain a cause, an edit, a check or an error: how it is found, what helps, what it risks.

A cause is named by its code or its name, as the report has them; an edit as `gapless try --fix`
takes it; a check as `gapless doctor` prints it. Without a name it lists all.

Examples:
  gapless explain G102
  gapless explain too-few-workers
  gapless explain more-workers
  gapless explain shared-memory     a check of gapless doctor
  gapless explain usage             an error, by the name at the end of its message
  gapless explain | grep worker

"""

import argparse

SUMMARY = "explain a cause, an edit, a check or an error"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of ``gapless explain``."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a cause, edit, check or error")


def main(arguments: argparse.Namespace) -> int:
    """Print a page, or the list of all, and return the exit code."""
    from gapless.catalogue.pages import rule_pages
    from gapless.doctor import pages

    name: str | None = arguments.name
    if name is None:
        for line in (*rule_pages.index_lines(), "", *pages.index_lines()):
            print(line)
        return 0
    print(pages.find_page(name.strip().lower()) or rule_pages.explain_name(name))
    return 0
