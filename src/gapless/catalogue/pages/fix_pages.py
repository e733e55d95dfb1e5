"""The page of a fix, as ``gapless explain`` prints it and the docs show it."""

import re
from collections.abc import Sequence

from gapless.catalogue.declare.fix import Fix, describe_proposal
from gapless.catalogue.examples.reading import Case, read_cases
from gapless.catalogue.fixes import FIXES

_HEADING = re.compile(r"^## ", re.MULTILINE)


def plain_fix_page(fix: Fix) -> str:
    """Return the page of a fix in Markdown, with its name as the heading."""
    text = mark_code(fix.doc)
    return "\n\n".join((f"# {fix.name}", _usage(fix), text, "## Examples", _render_examples(fix)))


def fix_pages(fixes: Sequence[Fix] = FIXES) -> str:
    """Return the pages of all fixes, headings two levels down, after a table of the fixes."""
    rows = ["| `--fix` | |", "|---|---|"]
    rows += [f"| [`{_signature(fix)}`](#{fix.name}) | {mark_code(fix.summary)} |" for fix in fixes]
    blocks = [lower_headings(plain_fix_page(fix)) for fix in fixes]
    return "\n\n".join(("\n".join(rows), *blocks))


def mark_code(text: str) -> str:
    """Return the text of a docstring with code marked as in Markdown."""
    return text.replace("``", "`")


def lower_headings(text: str) -> str:
    """Return a page with its headings two levels down: its name becomes a third-level heading."""
    return _HEADING.sub("#### ", text.replace("# ", "### ", 1))


def _signature(fix: Fix) -> str:
    return fix.name if fix.value is None else f"{fix.name}[={fix.value.replace('|', ' or ')}]"


def _usage(fix: Fix) -> str:
    return f"`gapless try --fix {_signature(fix)}` (since {fix.since})"


def _render_examples(fix: Fix) -> str:
    return "\n".join(_render_example(fix, case) for case in read_cases(fix))


def _render_example(fix: Fix, case: Case) -> str:
    option = case.option
    command = fix.name + (f"={option.value}" if option.value else "")
    command += " --override" if option.override else ""
    descriptions = [describe_proposal(proposal) for proposal in fix(case.facts, option)]
    return f"- {case.title} (`{command}`): {'; '.join(descriptions)}"
