"""How a fix is declared: a function of the facts, whose page and tests come from it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.model.change import Change
from gapless.model.edit import (
    Applicability,
    Edit,
    FixRequest,
    Location,
    Proposal,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Wrap,
)
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts

_CLASS_ORDER: Final = tuple(Applicability)


class Option(Struct, frozen=True):
    """The options given along with the name: ``more-workers@train.py:41=8``, ``--override``."""

    value: str | None = None
    line_ref: str | None = None  # "train.py:41", or "train.py"
    override: bool = False  # settings that change results may be changed
    name: str = ""  # of the fix, for error messages about its value

    def parse_number(self, default: int, minimum: int = 1) -> int:
        """Return the number after "=", or the default. Raises ``UsageError``."""
        if self.value is None:
            return default
        if not self.value.isdecimal() or int(self.value) < minimum:
            requirement = f"a whole number from {minimum} up is meant"
            raise UsageError(f"{self.name}={self.value}: {requirement}")
        return int(self.value)


Proposer = Callable[[Facts, Option], tuple[Proposal, ...]]
Changes = tuple[Change, ...]
Effect = Callable[[Evidence, Proposal], Changes | None]  # None: not known before it is tried


class Fix(Struct, frozen=True):
    """A named edit; calling it returns what it would change in a run: a proposal for each line."""

    name: str
    since: str  # the version that first had it
    cases: str  # lines, as ``catalogue.examples.reading`` reads them
    value: str | None  # what may follow "=" ("WORKERS"); None: nothing
    doc: str
    propose: Proposer
    effect: Effect | None = None  # for replay; None: it has to be tried
    stages: tuple[str, ...] = ()  # of making a batch, of which all goes with it at best

    def __call__(self, facts: Facts, option: Option | None = None) -> tuple[Proposal, ...]:
        """Return the proposals for a run. Raises ``UsageError`` for an option it does not take."""
        given_option = option or Option()
        if given_option.value is not None and self.value is None:
            raise UsageError(f"{self.name} takes no value, but was given ={given_option.value}")
        proposals = drop_duplicates(self.propose(facts, replace(given_option, name=self.name)))
        if given_option.line_ref is not None and any(
            proposal.edits and not has_location(proposal) for proposal in proposals
        ):
            raise UsageError(
                f"{self.name} does not apply to a single line; leave out @{given_option.line_ref}"
            )
        return proposals

    def predict_changes(self, evidence: Evidence, proposal: Proposal) -> Changes | None:
        """Return what its proposal changes of a run, for replay; ``None``: it has to be tried."""
        try:
            return None if self.effect is None else self.effect(evidence, proposal)
        except NotObservedError:
            return None

    def request(self, value: str | int | None = None, line_ref: str | None = None) -> FixRequest:
        """Return this fix as a rule asks for it. Raises ``ValueError`` for a value it ignores."""
        if value is not None and self.value is None:
            raise ValueError(f"{self.name} takes no value")
        return FixRequest(self.name, None if value is None else str(value), line_ref)

    @property
    def summary(self) -> str:
        """Return the first line of its page."""
        return self.doc.partition("\n")[0]

    def proposal(
        self,
        summary: str,
        *edits: Edit,
        applicability: Applicability,
        risk: str | None = None,
        location: Location | None = None,
    ) -> Proposal:
        """Return a proposal of these edits."""
        return Proposal(self.name, summary, edits, applicability, risk, None, location)

    def refusal(self, reason: str, location: Location | None = None) -> Proposal:
        """Return a proposal that says why the edit must not be made here."""
        return Proposal(self.name, self.summary, (), Applicability.RISKY, None, reason, location)

    def no_change(self, reason: str, location: Location | None = None) -> Proposal:
        """Return a proposal without edits: nothing is left to change."""
        return Proposal(self.name, reason, (), Applicability.IDENTICAL, None, None, location)


def fix(  # noqa: PLR0913 - each is a field of a fix
    name: str,
    *,
    since: str = "0.1",
    cases: str,
    value: str | None = None,
    effect: Effect | None = None,
    doc: str | None = None,
    stages: tuple[str, ...] = (),
) -> Callable[[Proposer], Fix]:
    """Declare a function as a fix; its docstring is the fix's page.

    ``effect``: what a proposal of it changes of the run, for replay. It may raise
    ``NotObservedError``: then it is not known before it is tried. ``doc``: the page of a row in a
    table of fixes, whose function is that of all rows. ``stages``: those of making a batch that it
    makes shorter, by as much as nobody knows: without them the step is as short as it can become.
    """

    def declare(propose: Proposer) -> Fix:
        page = doc or inspect.getdoc(propose) or ""
        return Fix(name, since, cases, value, page, propose, effect, stages)

    return declare


def changes_nothing(proposal: Proposal) -> bool:
    """Return whether a proposal says that nothing is left to change."""
    return proposal.refused is None and not proposal.edits


def has_location(proposal: Proposal) -> bool:
    """Return whether a proposal, or one of its edits, belongs to one line."""
    return proposal.location is not None or any(
        getattr(edit, "where", None) is not None for edit in proposal.edits
    )


def describe_proposal(proposal: Proposal) -> str:
    """Return one line on a proposal: its class and what would change, or why nothing would."""
    if proposal.refused is not None:
        return f"refused: {proposal.refused}"
    if changes_nothing(proposal):
        return f"nothing to change: {proposal.summary}"
    return f"{proposal.applicability}: {proposal.summary}"


def drop_duplicates(proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Drop proposals with the same edits, and repeated sentences for several lines."""
    proposals_by_key: dict[object, Proposal] = {}
    for proposal in proposals:
        proposals_by_key.setdefault(
            repr(proposal.edits) if proposal.edits else (proposal.refused, proposal.summary),
            proposal,
        )
    return tuple(proposals_by_key.values())


def worst_applicability(*applicabilities: Applicability) -> Applicability:
    """Return the class of several edits together: that of the edit that changes most."""
    return max(applicabilities, key=_CLASS_ORDER.index)


def describe_edit(edit: Edit) -> str:
    """Return an edit as ``--set`` takes it, or what it wraps."""
    match edit:
        case SetArgument():
            return f"{_argument_text(edit)}={edit.value}"
        case SetGlobal():
            return f"{edit.target}={edit.value}"
        case SetEnv():
            return f"env.{edit.name}={'' if edit.value is None else edit.value}"
        case Skip():
            return f"skip.{edit.target}{_line_suffix(edit.where)}" + (
                "" if edit.every is None else f"={edit.every}"
            )
        case Wrap():
            options = ", ".join(f"{name}={value}" for name, value in edit.options.items())
            return f"{edit.target} through {edit.part}({options})"


def _argument_text(edit: SetArgument) -> str:
    """Return the argument of a class, of a method, or of a function: "dropout(p)"."""
    if any(word[:1].isupper() for word in edit.target.split(".")):
        return f"{edit.target}{_line_suffix(edit.where)}.{edit.name}"
    return f"{edit.target}({edit.name})"


def _line_suffix(location: Location | None) -> str:
    return "" if location is None else f"@{location.file}:{location.line}"
