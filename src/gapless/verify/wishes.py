"""From what was asked for to what is tried: names and settings become candidates, or a reason."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gapless.catalogue import assumed, listing, parsing, unnamed
from gapless.catalogue.declare import is_nothing, worst
from gapless.model.edit import Applicability, Edit, Proposal
from gapless.model.facts import Facts
from gapless.model.interval import Interval
from gapless.verify.wanted import Candidate

TAILS: Final = ("no-logging", "no-checkpoint", "no-evaluation")
_FIRST: Final = 3  # proposals that are tried where nothing is named
_STRICT: Final = frozenset({Applicability.SAME, Applicability.TRIAL})
_USUAL: Final = _STRICT | {Applicability.EQUIVALENT}


@dataclass(frozen=True)
class Wish:
    """What the user asks for; each of ``groups`` is tried by itself, its members together."""

    fixes: tuple[str, ...] = ()  # "more-workers=2+one-thread"
    settings: tuple[str, ...] = ()  # "DataLoader.num_workers=8"
    ceilings: bool = False
    proposed: bool = False  # what the study of the run proposes first; ceilings if that is nothing
    together: bool = False
    strict: bool = False
    risky: bool = False
    override: bool = False
    check: bool = False  # what the replay predicts of known delays


@dataclass(frozen=True)
class Chosen:
    """What is tried, and all that was proposed, refusals included."""

    candidates: tuple[Candidate, ...]
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expected:
    """What the study of a run expects: its proposals, and what some edits together would give."""

    proposals: tuple[Proposal, ...] = ()
    foretell: Callable[[Sequence[Proposal]], Interval | None] = lambda _: None


def choose(wish: Wish, facts: Facts, expected: Expected | None = None) -> Chosen:
    """Decide for one run what is tried. Raises ``UsageError`` for a name that nobody knows."""
    expected = expected or Expected()
    groups = [[_gated(one, wish) for one in _named(text, facts, wish)] for text in wish.fixes]
    plain = replace(wish, risky=True)  # who writes a setting out means it
    groups += [
        [_gated(unnamed.propose(one, facts, override=wish.override), plain)]
        for one in wish.settings
    ]
    if wish.together and len(groups) > 1:
        groups = [[one for group in groups for one in group]]
    if wish.proposed:
        groups += _first(expected.proposals, wish)
    if wish.ceilings or (wish.proposed and not any(_candidate(one) for one in groups)):
        groups += _ceilings(facts)
    candidates = tuple(
        _expected(found, group, expected) for group in groups if (found := _candidate(group))
    )
    return Chosen(candidates, tuple(one for group in groups for one in group))


def _first(proposals: Sequence[Proposal], wish: Wish) -> list[list[Proposal]]:
    """Give the first proposals that may be tried, each by itself, and what is refused."""
    gated = [_gated(one, wish) for one in proposals]
    able = [one for one in gated if one.refused is None and one.edits and not _in_vain(one)]
    refused = [one for one in gated if one.refused is not None]
    return [*([one] for one in able[:_FIRST]), *([one] for one in refused)]


def _in_vain(one: Proposal) -> bool:
    """Tell whether a proposal is predicted to give nothing."""
    return one.speedup is not None and one.speedup.mid <= 1


def check(wish: Wish) -> None:
    """Raise ``UsageError`` for a name that nobody knows, before anything is run."""
    for one in wish.fixes:
        for name in one.split("+"):
            listing.asked(name)
    for one in wish.settings:
        parsing.parse(one)


def survey(facts: Facts) -> tuple[Proposal, ...]:
    """Give what every fix says of a run."""
    return tuple(one for fix in listing.FIXES for one in fix(facts))


def _named(text: str, facts: Facts, wish: Wish) -> list[Proposal]:
    names = text.split("+")
    if len(names) == 1:
        return list(listing.propose(text, facts, override=wish.override))
    return list(assumed.together(names, facts, override=wish.override))


def _ceilings(facts: Facts) -> list[list[Proposal]]:
    """Give the ablations: data, copies (the cached batch on the device), and the tails as one."""
    found = listing.ceilings(facts)
    tails = [one for one in found if one.fix in TAILS]
    return [*([one] for one in found if one.fix not in TAILS), *([tails] if tails else [])]


def _gated(one: Proposal, wish: Wish) -> Proposal:
    """Refuse what changes more than was allowed."""
    if one.refused is not None or not one.edits:
        return one
    allowed = set(_STRICT if wish.strict else _USUAL)
    if wish.risky:
        allowed.add(Applicability.RISKY)
    if wish.override:
        allowed.add(Applicability.MANUAL)
    if one.applicability in allowed:
        return one
    return replace(one, refused=f"{_class(one)}: {_way(one.applicability)}")


def _class(one: Proposal) -> str:
    return one.applicability.value + (f" ({one.risk})" if one.risk else "")


def _way(applicability: Applicability) -> str:
    if applicability is Applicability.RISKY:
        return "--risky tries it all the same"
    if applicability is Applicability.MANUAL:
        return "--override tries it all the same"
    return "not with --strict"


def _expected(found: Candidate, group: Sequence[Proposal], expected: Expected) -> Candidate:
    """Give a candidate with what it is predicted to give; an ablation is no change of a run."""
    if found.applicability is Applicability.TRIAL:
        return found
    able = [one for one in group if one.edits]
    return replace(found, predicted=expected.foretell(able))


def _candidate(group: Sequence[Proposal]) -> Candidate | None:
    """Join proposals that are tried together; ``None`` if one of its fixes cannot be."""
    wanted = {one.fix for one in group if not is_nothing(one)}
    able = [one for one in group if one.refused is None and one.edits]
    if not able or {one.fix for one in able} != wanted:
        return None
    return Candidate(
        fixes=tuple(dict.fromkeys(one.fix for one in able)),
        summary=", ".join(dict.fromkeys(one.summary for one in able)),
        edits=_distinct(edit for one in able for edit in one.edits),
        applicability=worst(*(one.applicability for one in able)),
    )


def _distinct(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Leave out edits that are there already; their order stays."""
    kept: dict[str, Edit] = {}
    for edit in edits:
        kept.setdefault(repr(edit), edit)
    return tuple(kept.values())
