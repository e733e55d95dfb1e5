"""Figures of rules and cases of fixes, written as lines of text and built when they are asked for.

::

    the_loader = loader(num_workers=8)
    # A loader of images
    > Decoding takes 30.0 ms of each 100.0 ms step.
    gpu(the_loader), example_use(the_loader, {"decode": 30})
    busy.math 60, idle.data.decode 40

``#`` begins a figure by its title, ``>`` is what the rule says of it, once for each detection
(none: it is silent). All else are expressions, one or more to a line: the facts (none: a foreign
trace), then rows, uses, constants … as ``examples.evidence`` sorts them in. Leaves of a step stand
as they are, in ms; ``rank`` before them is one of several ranks, ``|`` before its steps that take
turns. ``name=value`` is an argument of ``evidence_of``. Lines such as ``. main  wwlLs`` draw the
trace (``examples.drawing``) in place of leaves. Evidence that no line can state is one expression.

Of a fix, ``>`` is what it proposes, and the expressions are the facts, the option and the edits.

An indented line continues the one before. A line ``name = …`` or ``name(argument) = …`` before the
first title defines a name for the lines after it. Other names are those of the modules in
``_VOCABULARY``, and of the module in which the rule or fix stands.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from textwrap import dedent
from typing import Any, Final

from msgspec import Struct

from gapless.catalogue.declare.fix import Fix, Option
from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.examples.evidence import evidence_of, evidence_of_drawing
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.model.edit import Edit
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.model.leaf import LEAVES

_VOCABULARY: Final = (  # modules, by what the lines are about; later ones win
    "msgspec.structs",
    "gapless.model.facts",
    "gapless.model.run",
    "gapless.model.footprint",
    "gapless.model.host_code",
    "gapless.model.reducer",
    "gapless.model.study",
    "gapless.model.tables",
    "gapless.model.edit",
    "gapless.catalogue.declare.targets",
    "gapless.catalogue.examples.work",
    "gapless.catalogue.examples.parts",
    "gapless.catalogue.examples.ranks",
    "gapless.catalogue.examples.evidence",
    "gapless.catalogue.examples.example_facts",
)
_DEFINITION: Final = re.compile(r"(\w+)(?:\((.*?)\))? = (.*)")
_ARGUMENT: Final = re.compile(r"(\w+)=(.*)")
_LEAF: Final = r"[a-z][\w.-]* [\d.]+"
_LEAVES: Final = re.compile(rf"{_LEAF}(?:, {_LEAF})*")

_UNSPLIT: Final = "step"  # the leaf of steps that no window holds
_Names = dict[str, Any]


class RuleFigure(Struct, frozen=True):
    """A run, drawn or stated, and what a rule detects in it: a test, and a figure on its page."""

    title: str
    expected: tuple[str, ...]  # the summary of each detection; none: the rule is silent
    evidence: Evidence
    drawing: str  # the trace as text; empty: the evidence is stated


class Case(Struct, frozen=True):
    """A run, and what a fix proposes for it: a test, and an example on the fix's page."""

    title: str
    facts: Facts
    expected: tuple[str, ...]  # of each proposal, in order: ``describe_proposal``
    option: Option = Option()
    edits: tuple[Edit, ...] | None = None  # of the first; None: not stated


@cache
def read_figures(rule: Rule) -> tuple[RuleFigure, ...]:
    """Return the figures of a rule. Raises ``ValueError`` and more for lines without sense."""
    return tuple(_build_figure(*block) for block in _read_blocks(rule.figures, rule.check))


@cache
def read_cases(fix: Fix) -> tuple[Case, ...]:
    """Return the cases of a fix. Raises ``ValueError`` and more for lines without sense."""
    return tuple(_build_case(*block) for block in _read_blocks(fix.cases, fix.propose))


def _read_blocks(
    text: str, function: Callable[..., object]
) -> Iterator[tuple[str, list[str], _Names]]:
    """Yield the title of each block, its lines, and the names that they may use."""
    head, *blocks = re.split(r"^# ", re.sub(r"\n +", " ", dedent(text).strip()), flags=re.MULTILINE)
    names = function.__globals__ | _vocabulary()
    for line in head.splitlines():
        if (definition := _DEFINITION.fullmatch(line)) is None:
            raise ValueError(f"a line before the first title defines a name, and not {line!r}")
        name, arguments, expression = definition.groups()
        names[name] = _evaluate(
            expression if arguments is None else f"lambda {arguments}: {expression}", names, line
        )
    for block in blocks:
        title, *lines = filter(None, block.splitlines())
        yield title, lines, names


@cache
def _vocabulary() -> _Names:
    modules = [vars(import_module(name)) for name in _VOCABULARY]
    return {
        name: value
        for names in modules
        for name, value in names.items()
        if not name.startswith("_")
    }


def _evaluate(expression: str, names: _Names, place: str) -> Any:  # noqa: ANN401 - any part of an example
    """Return the value. Raises ``ValueError``, which begins with the place, for a typo in it."""
    try:
        code = compile(expression, f"<lines of {names['__name__']}>", "eval")
        return eval(code, names)  # noqa: S307 - lines of this package, never those of a user
    except (AttributeError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def _build_figure(title: str, lines: list[str], names: _Names) -> RuleFigure:
    expected = tuple(_pop(lines, "> "))
    drawing = "\n".join(_pop(lines, ". "))
    ranks = [
        [_parse_leaves(leaves) for leaves in line.split(" | ")] for line in _pop(lines, "rank ")
    ]
    leaves = [_parse_leaves(line) for line in lines if _LEAVES.fullmatch(line)]
    changes = {
        match[1]: _evaluate(match[2], names, f"{title}: {line}")
        for line in lines
        if (match := _ARGUMENT.fullmatch(line))
    }
    values = [
        value
        for line in lines
        if not (_LEAVES.fullmatch(line) or _ARGUMENT.fullmatch(line))
        for value in _evaluate(f"({line},)", names, f"{title}: {line}")
    ]
    facts = _pop_type(values, Facts)
    evidence = _pop_type(values, Evidence)
    if evidence is None and drawing:
        evidence = evidence_of_drawing(drawing, facts, *values)
    elif evidence is None and ranks:
        evidence = evidence_of_ranks(facts, *ranks, parts=values)
    elif evidence is None:
        evidence = evidence_of(facts, *(leaves or [{}]), *values, **changes)
    return RuleFigure(title, expected, evidence, drawing)


def _build_case(title: str, lines: list[str], names: _Names) -> Case:
    expected = tuple(_pop(lines, "> "))
    values = [
        value for line in lines for value in _evaluate(f"({line},)", names, f"{title}: {line}")
    ]
    facts, option = _pop_type(values, Facts), _pop_type(values, Option)
    if facts is None:
        raise ValueError(f"{title}: a case has facts")
    return Case(title, facts, expected, option or Option(), tuple(values) or None)


def _pop(lines: list[str], sign: str) -> list[str]:
    """Remove the lines with a sign, and return what follows it."""
    matches = [line.removeprefix(sign) for line in lines if line.startswith(sign)]
    lines[:] = [line for line in lines if not line.startswith(sign)]
    return matches


def _pop_type(values: list[Any], kind: type) -> Any:  # noqa: ANN401 - of that type, or None
    """Remove the value of a type, and return it; ``None``: there is none."""
    match = next((value for value in values if isinstance(value, kind)), None)
    if match is not None:
        values.remove(match)
    return match


def _parse_leaves(line: str) -> dict[str, float]:
    """Return the leaves of "busy.math 60, idle.gc 40". Raises ``ValueError`` for unknown ones."""
    leaves = {name: float(ms) for name, ms in (leaf.split() for leaf in line.split(", "))}
    if unknown := set(leaves) - {*LEAVES, _UNSPLIT}:
        raise ValueError(f"{line!r}: there is no leaf {min(unknown)}")
    return leaves
