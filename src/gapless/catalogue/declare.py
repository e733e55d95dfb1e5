"""How a fix is declared: a function of the facts, whose page and tests come from it."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gapless.errors import UsageError
from gapless.model.edit import Applicability, Edit, Proposal, Where
from gapless.model.facts import Facts

_ORDER: Final = tuple(Applicability)


@dataclass(frozen=True)
class Option:
    """What was asked for beside the name: ``more-workers@train.py:41=8``, ``--override``."""

    value: str | None = None
    where: str | None = None  # "train.py:41", or "train.py"
    override: bool = False  # settings that carry meaning may be changed
    name: str = ""  # of the fix: for what is said of a value that it cannot take

    def number(self, usual: int, least: int = 1) -> int:
        """Give the number behind "=", else what is usual. Raises ``UsageError``."""
        if self.value is None:
            return usual
        if not self.value.isdecimal() or int(self.value) < least:
            least_words = f"a whole number from {least} up is meant"
            raise UsageError(f"{self.name}={self.value}: {least_words}")
        return int(self.value)


@dataclass(frozen=True)
class Case:
    """A run, and what a fix says of it: a test, and an example on the fix's page."""

    title: str
    facts: Facts
    says: str | tuple[str, ...]  # of each proposal, in order: ``spoken``
    option: Option = Option()
    edits: tuple[Edit, ...] | None = None  # of the first; None: not stated


Make = Callable[[Facts, Option], tuple[Proposal, ...]]


@dataclass(frozen=True)
class Fix:
    """A named edit. Called, it gives what it would change of one run: a proposal for each place."""

    name: str
    since: str  # the version that first had it
    cases: tuple[Case, ...]
    value: str | None  # what may stand behind "=": "WORKERS"; None: nothing
    doc: str
    make: Make

    def __call__(self, facts: Facts, option: Option | None = None) -> tuple[Proposal, ...]:
        """Give the proposals for a run. Raises ``UsageError`` for an option that it has not."""
        asked = option or Option()
        if asked.value is not None and self.value is None:
            raise UsageError(f"{self.name} takes no value, and was given ={asked.value}")
        found = distinct(self.make(facts, replace(asked, name=self.name)))
        if asked.where is not None and any(one.edits and not placed(one) for one in found):
            raise UsageError(f"{self.name} is about no single line; leave out @{asked.where}")
        return found

    @property
    def summary(self) -> str:
        """Give the first line of the page."""
        return self.doc.partition("\n")[0]

    def proposal(
        self,
        summary: str,
        *edits: Edit,
        applicability: Applicability,
        risk: str | None = None,
        where: Where | None = None,
    ) -> Proposal:
        """Give what it would change."""
        return Proposal(self.name, summary, edits, applicability, risk, None, where)

    def refusal(self, why: str, where: Where | None = None) -> Proposal:
        """Give why it must not be done here."""
        return Proposal(self.name, self.summary, (), Applicability.RISKY, None, why, where)

    def nothing(self, why: str, where: Where | None = None) -> Proposal:
        """Give that nothing is left to change: a proposal without edits."""
        return Proposal(self.name, why, (), Applicability.SAME, None, None, where)


def fix(
    name: str, *, since: str, cases: Sequence[Case], value: str | None = None
) -> Callable[[Make], Fix]:
    """Declare a function as a fix; its docstring is the fix's page."""

    def declare(make: Make) -> Fix:
        return Fix(name, since, tuple(cases), value, inspect.getdoc(make) or "", make)

    return declare


def is_nothing(proposal: Proposal) -> bool:
    """Tell whether a proposal says that nothing is left to change."""
    return proposal.refused is None and not proposal.edits


def placed(proposal: Proposal) -> bool:
    """Tell whether a proposal is about one line, or an edit of it is."""
    return proposal.where is not None or any(
        getattr(edit, "where", None) is not None for edit in proposal.edits
    )


def spoken(proposal: Proposal) -> str:
    """Give a proposal in one line: its class and what would change, or why nothing will."""
    if proposal.refused is not None:
        return f"refused: {proposal.refused}"
    if is_nothing(proposal):
        return f"nothing to change: {proposal.summary}"
    return f"{proposal.applicability}: {proposal.summary}"


def distinct(proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Leave out proposals of the same edits, and the same words of several places."""
    kept: dict[object, Proposal] = {}
    for one in proposals:
        kept.setdefault(repr(one.edits) if one.edits else (one.refused, one.summary), one)
    return tuple(kept.values())


def worst(*classes: Applicability) -> Applicability:
    """Give the class of several edits together: that of the one which changes most."""
    return max(classes, key=_ORDER.index)
