"""The page of a fix: what ``gapless explain`` prints, and the docs show."""

import re
from collections.abc import Sequence

from gapless.catalogue.declare import Case, Fix, spoken
from gapless.catalogue.fixes import FIXES
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Where, Wrap

_HEADING = re.compile(r"^## ", re.MULTILINE)


def page(fix: Fix) -> str:
    """Give the page of a fix in Markdown, with its name as the heading."""
    text = quoted(fix.doc)
    return "\n\n".join((f"# {fix.name}", _usage(fix), text, "## Examples", _examples(fix)))


def pages(fixes: Sequence[Fix] = FIXES) -> str:
    """Give all of them one after another, two levels down, after a table of what there is."""
    rows = ["| `--fix` | |", "|---|---|"]
    rows += [f"| [`{_call(one)}`](#{one.name}) | {quoted(one.summary)} |" for one in fixes]
    parts = [lowered(page(one)) for one in fixes]
    return "\n\n".join(("\n".join(rows), *parts))


def described(edit: Edit) -> str:
    """Give an edit as ``--set`` has it, or what it wraps."""
    match edit:
        case SetArgument():
            return f"{_argument(edit)}={edit.value}"
        case SetGlobal():
            return f"{edit.target}={edit.value}"
        case SetEnv():
            return f"env.{edit.name}={'' if edit.value is None else edit.value}"
        case Skip():
            return f"skip.{edit.target}{_at(edit.where)}" + (
                "" if edit.every is None else f"={edit.every}"
            )
        case Wrap():
            options = ", ".join(f"{name}={value}" for name, value in edit.options.items())
            return f"{edit.target} through {edit.part}({options})"


def _argument(edit: SetArgument) -> str:
    """Give the argument of a class or of its method, or of a function: "dropout(p)"."""
    if any(part[:1].isupper() for part in edit.target.split(".")):
        return f"{edit.target}{_at(edit.where)}.{edit.name}"
    return f"{edit.target}({edit.name})"


def _at(where: Where | None) -> str:
    return "" if where is None else f"@{where.file}:{where.line}"


def quoted(text: str) -> str:
    """Give the text of a docstring with Markdown's marks of code."""
    return text.replace("``", "`")


def lowered(text: str) -> str:
    """Give a page two levels down: its name is a heading of the third level."""
    return _HEADING.sub("#### ", text.replace("# ", "### ", 1))


def _call(fix: Fix) -> str:
    return fix.name if fix.value is None else f"{fix.name}[={fix.value.replace('|', ' or ')}]"


def _usage(fix: Fix) -> str:
    return f"`gapless try --fix {_call(fix)}` (since {fix.since})"


def _examples(fix: Fix) -> str:
    return "\n".join(_example(fix, case) for case in fix.cases)


def _example(fix: Fix, case: Case) -> str:
    option = case.option
    call = fix.name + (f"={option.value}" if option.value else "")
    call += " --override" if option.override else ""
    said = [spoken(one) for one in fix(case.facts, option)]
    return f"- {case.title} (`{call}`): {'; '.join(said)}"
