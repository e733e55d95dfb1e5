"""From a case's menu to sides that can be measured: named fixes become edits of this very run."""

from dataclasses import dataclass
from typing import Any, Final

from benchmarks.menus.blocks import BASE
from gapless.catalogue.declare.listing import propose_named
from gapless.errors import UsageError
from gapless.model.edit import edit_to_json
from gapless.model.facts import Facts
from tests.zoo.cases import Case
from tests.zoo.menus import Choice

UNEDITED: Final[dict[str, Any]] = {"name": BASE, "edits": [], "variant": None}


@dataclass(frozen=True)
class ResolvedLine:
    """A line of a menu, as it is measured here."""

    choice: Choice
    edits: tuple[dict[str, Any], ...]
    summary: str | None  # of the catalogue's proposal
    refused: str | None  # why the catalogue would not do it here; it is measured all the same

    def side(self) -> dict[str, Any]:
        """Return the side to measure."""
        choice = self.choice
        return {"name": choice.name, "edits": list(self.edits), "variant": choice.variant}


def resolve_menu(case: Case, facts: Facts) -> tuple[ResolvedLine, ...]:
    """Return the lines of a case's menu; where the catalogue has no edits, with the case's own."""
    return tuple(_resolve_choice(choice, facts) for choice in case.menu)


def _resolve_choice(choice: Choice, facts: Facts) -> ResolvedLine:
    own_edits = tuple(dict(edit) for edit in choice.edits)
    if choice.fix is None:
        return ResolvedLine(choice, own_edits, None, None)
    try:
        proposals = propose_named(choice.fix, facts, override=True)
    except UsageError as error:
        return ResolvedLine(choice, own_edits, None, str(error))
    edits = tuple(edit_to_json(edit) for proposal in proposals for edit in proposal.edits)
    summary = "; ".join(proposal.summary for proposal in proposals)
    refused = "; ".join(proposal.refused for proposal in proposals if proposal.refused is not None)
    return ResolvedLine(choice, edits or own_edits, summary, refused or None)
