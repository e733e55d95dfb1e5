"""The catalogue as a list: looking fixes up by name, and what they propose for a run."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from gapless.catalogue.declare.fix import Effect, Fix, Option
from gapless.catalogue.fixes import FIXES
from gapless.errors import UsageError
from gapless.model.edit import FixRequest, Proposal
from gapless.model.facts import Facts

CEILINGS: Final = (
    "cached-batch",
    "cached-batch-on-device",
    "no-logging",
    "no-checkpoint",
    "no-evaluation",
)
EFFECTS: Final[Mapping[str, Effect]] = {  # by the name of the fix; the others have to be tried
    fix.name: fix.predict_changes for fix in FIXES if fix.effect is not None
}
STAGES_AT_BEST: Final[Mapping[str, tuple[str, ...]]] = {
    fix.name: fix.stages for fix in FIXES if fix.stages
}


def find_fix(name: str) -> Fix:
    """Return the fix of this name. Raises ``UsageError`` with similar names."""
    for fix in FIXES:
        if fix.name == name:
            return fix
    raise UsageError(f"there is no fix {name!r}{did_you_mean(name, [fix.name for fix in FIXES])}")


def parse_request(text: str) -> FixRequest:
    """Return the request of ``NAME``, ``NAME=VALUE`` or ``NAME@FILE:LINE=VALUE``.

    Raises ``UsageError``.
    """
    head, equals, value = text.partition("=")
    name, at_sign, line_ref = head.partition("@")
    for sign, separator, operand in (("=", equals, value), ("@", at_sign, line_ref)):
        if separator and not operand:
            raise UsageError(f"{text}: nothing stands behind {sign}")
    return FixRequest(name, value or None, line_ref or None)


def parse_fix(text: str, *, override: bool = False) -> tuple[Fix, Option]:
    """Return the fix that a text names, and the option that it gives. Raises ``UsageError``."""
    request = parse_request(text)
    fix = find_fix(request.fix)
    if request.value is not None and fix.value is None:
        raise UsageError(f"{text}: {fix.name} takes no value")
    return fix, Option(request.value, request.line_ref, override)


def propose_named(text: str, facts: Facts, *, override: bool = False) -> tuple[Proposal, ...]:
    """Return what a named fix would change in this run. Raises ``UsageError``."""
    fix, option = parse_fix(text, override=override)
    return fix(facts, option)


def propose_requested(request: FixRequest, facts: Facts) -> tuple[Proposal, ...]:
    """Return what the fix that a rule asks for would change in this run."""
    return find_fix(request.fix)(facts, Option(request.value, request.line_ref))


def propose_ceilings(facts: Facts) -> tuple[Proposal, ...]:
    """Return the ablations that apply to this run: each measures the most that can be gained."""
    proposals = [proposal for name in CEILINGS for proposal in find_fix(name)(facts)]
    return tuple(proposal for proposal in proposals if proposal.edits)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" with the names similar to this one, or an empty string."""
    matches = difflib.get_close_matches(name, list(names), n=3)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
