"""From a case's menu to sides that can be measured: named fixes become edits of this very run."""

from dataclasses import dataclass
from typing import Any, Final

from benchmarks.menus.blocks import BASE
from gapless.catalogue.listing import propose
from gapless.errors import UsageError
from gapless.model.edit import as_json
from gapless.model.facts import Facts
from tests.zoo.cases import Case
from tests.zoo.menus import Choice

UNEDITED: Final[dict[str, Any]] = {"name": BASE, "edits": [], "variant": None}


@dataclass(frozen=True)
class Line:
    """A line of a menu, as it is measured here."""

    choice: Choice
    edits: tuple[dict[str, Any], ...]
    summary: str | None  # of the catalogue's proposal
    refused: str | None  # why the catalogue would not do it here; it is measured all the same

    def side(self) -> dict[str, Any]:
        """Give the side to measure."""
        found = self.choice
        return {"name": found.name, "edits": list(self.edits), "variant": found.variant}


def lines(case: Case, facts: Facts) -> tuple[Line, ...]:
    """Give the lines of a case's menu; where the catalogue has no edits, with the case's own."""
    return tuple(_line(choice, facts) for choice in case.menu)


def _line(choice: Choice, facts: Facts) -> Line:
    own = tuple(dict(edit) for edit in choice.edits)
    if choice.fix is None:
        return Line(choice, own, None, None)
    try:
        found = propose(choice.fix, facts, override=True)
    except UsageError as error:
        return Line(choice, own, None, str(error))
    edits = tuple(as_json(edit) for one in found for edit in one.edits)
    summary = "; ".join(one.summary for one in found)
    refused = "; ".join(one.refused for one in found if one.refused is not None)
    return Line(choice, edits or own, summary, refused or None)
