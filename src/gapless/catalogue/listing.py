"""The catalogue as a list: what a name means, and what it proposes for a run."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from gapless.catalogue.declare import Fix, Option
from gapless.catalogue.fixes import FIXES
from gapless.errors import UsageError
from gapless.model.edit import Proposal
from gapless.model.facts import Facts

CEILINGS: Final = (
    "cached-batch",
    "cached-batch-on-device",
    "no-logging",
    "no-checkpoint",
    "no-evaluation",
)


def find(name: str, fixes: Sequence[Fix] = FIXES) -> Fix:
    """Give the fix of this name. Raises ``UsageError`` with the names that are like it."""
    for one in fixes:
        if one.name == name:
            return one
    raise UsageError(f"there is no fix {name!r}{did_you_mean(name, [one.name for one in fixes])}")


def asked(text: str, *, override: bool = False) -> tuple[Fix, Option]:
    """Give the fix and the option of ``NAME``, ``NAME=VALUE`` or ``NAME@FILE:LINE=VALUE``.

    Raises ``UsageError``.
    """
    head, equals, value = text.partition("=")
    name, at, where = head.partition("@")
    for sign, given, rest in (("=", equals, value), ("@", at, where)):
        if given and not rest:
            raise UsageError(f"{text}: nothing stands behind {sign}")
    found = find(name)
    if equals and found.value is None:
        raise UsageError(f"{text}: {name} takes no value")
    return found, Option(value or None, where or None, override)


def propose(text: str, facts: Facts, *, override: bool = False) -> tuple[Proposal, ...]:
    """Give what a named fix would change of this run. Raises ``UsageError``."""
    one, option = asked(text, override=override)
    return one(facts, option)


def ceilings(facts: Facts) -> tuple[Proposal, ...]:
    """Give the ablations that say something about this run: what can be gained at the most."""
    found = [one for name in CEILINGS for one in find(name)(facts)]
    return tuple(one for one in found if one.edits)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Give the end of a sentence that names what is like a name; empty where nothing is."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
