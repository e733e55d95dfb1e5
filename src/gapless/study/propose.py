"""Proposals: the fixes that help against what was found, each with what it is predicted to give.

The first is the one with the highest low end; the others are predicted by themselves, and once
more together with those before them. Gains are replayed together, never added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gapless.catalogue import listing
from gapless.catalogue.assumed import after
from gapless.catalogue.declare import is_nothing
from gapless.catalogue.effects import EFFECTS, Effect
from gapless.model.change import Change, Predicted
from gapless.model.edit import Applicability, Proposal
from gapless.model.facts import Facts
from gapless.model.finding import Diagnosis, Finding
from gapless.model.interval import Interval
from gapless.study.after import outcome
from gapless.study.price import LEAST_GAIN, Prices, price, worth_naming

TRY_IT: Final = "what it gives is not known before it is tried"
_MOST: Final = 6  # proposals that are predicted together with those before
_DONE: Final = (Applicability.SAME, Applicability.EQUIVALENT)
Effects = Mapping[str, Effect]


@dataclass(frozen=True)
class Offer:
    """A proposal, how it was asked for, and what it changes; ``None``: that is not known."""

    proposal: Proposal
    text: str  # "more-workers=8"
    changes: tuple[Change, ...] | None
    predicted: Predicted


def propose(
    prices: Prices, diagnosis: Diagnosis, effects: Effects = EFFECTS
) -> tuple[Proposal, ...]:
    """Give what would help against the findings, the most valuable first; refusals last."""
    facts = prices.seen.facts
    if facts is None or prices.seen.foreign:
        return ()
    every = list(_distinct(_offers(prices, effects, facts, _helping(_of(diagnosis)))))
    able = [one for one in every if one.proposal.refused is None]
    refusals = [one.proposal for one in every if one.proposal.refused is not None]
    able.sort(key=_order)
    best = _best_of_each(able)
    best[:1] = [_accounted(prices, one) for one in best[:1]]
    return (*_stacked(prices, effects, best), *refusals)


def _of(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Give the causes to help against: the sure ones, then the likely ones."""
    likely = tuple(one.finding for one in diagnosis.to_try if one.odds is not None)
    return (*diagnosis.findings, *likely)


def foretold(
    prices: Prices, proposals: Sequence[Proposal], effects: Effects = EFFECTS
) -> Predicted:
    """Predict what some proposals give together, or say why that is not."""
    changes: list[Change] = []
    for one in proposals:
        effect = _effect(prices, one, effects)
        if effect is None:
            return Predicted(None, "host", refused=f"{one.fix}: {TRY_IT}")
        changes += effect
    return price(prices, changes)


def _helping(findings: Iterable[Finding]) -> dict[str, tuple[str, ...]]:
    """Give the fixes that help, the best of the most valuable finding first, and against what."""
    found: dict[str, tuple[str, ...]] = {}
    for one in findings:
        for text in one.loss.helps:
            found[text] = tuple(dict.fromkeys((*found.get(text, ()), one.loss.code)))
    return found


def _offers(
    prices: Prices, effects: Effects, facts: Facts, helping: Mapping[str, tuple[str, ...]]
) -> Iterable[Offer]:
    for text, codes in helping.items():
        for one in listing.propose(text, facts):
            if not is_nothing(one):
                yield _offer(prices, effects, text, replace(one, remedies=codes))


def _offer(prices: Prices, effects: Effects, text: str, proposal: Proposal) -> Offer:
    if proposal.refused is not None:
        return Offer(proposal, text, None, Predicted(None, "host", refused=proposal.refused))
    changes = _effect(prices, proposal, effects)
    predicted = (
        Predicted(None, "host", refused=TRY_IT) if changes is None else price(prices, changes)
    )
    told = replace(
        proposal,
        speedup=predicted.speedup,
        calibrated=predicted.calibrated,
        unpredicted=predicted.refused,
    )
    return Offer(told, text, changes, predicted)


def _effect(prices: Prices, proposal: Proposal, effects: Effects) -> tuple[Change, ...] | None:
    effect = effects.get(proposal.fix)
    return None if effect is None else effect(prices.seen, proposal)


def _distinct(offers: Iterable[Offer]) -> Iterable[Offer]:
    """Leave out offers of the same edits, or refused for the same reason; codes are joined."""
    kept: dict[object, Offer] = {}
    for one in offers:
        key = repr(one.proposal.edits) if one.proposal.edits else one.proposal.refused
        known = kept.get(key)
        if known is None:
            kept[key] = one
            continue
        codes = tuple(dict.fromkeys((*known.proposal.remedies, *one.proposal.remedies)))
        kept[key] = replace(known, proposal=replace(known.proposal, remedies=codes))
    return kept.values()


def _best_of_each(offers: Iterable[Offer]) -> list[Offer]:
    """Leave out what is another value of a fix that comes before."""
    kept: dict[object, Offer] = {}
    for one in offers:
        kept.setdefault((one.proposal.fix, one.proposal.where), one)
    return list(kept.values())


def _accounted(prices: Prices, one: Offer) -> Offer:
    """Say where a step would go with an offer taken (up to 0.3 s: of the first alone)."""
    found = None if one.changes is None else outcome(prices, one.changes, one.predicted)
    return replace(one, proposal=replace(one.proposal, outcome=found))


def _order(one: Offer) -> tuple[bool, bool, float]:
    """Order by what may be done, then by the low end of the gain; not predicted: last of its kind.

    What is done without asking comes first: it is what ``gapless try`` begins with.
    """
    speedup = one.predicted.speedup
    return (not _is_usual(one.proposal), speedup is None, -(speedup.low if speedup else 0.0))


@dataclass(frozen=True)
class _Base:
    """What is taken as done: fixes, what they change, what they give together."""

    fixes: tuple[str, ...]
    changes: tuple[Change, ...]
    facts: Facts
    speedup: Interval


def _stacked(prices: Prices, effects: Effects, offers: Sequence[Offer]) -> list[Proposal]:
    """Predict each offer also together with those before it that are worth it."""
    found: list[Proposal] = []
    base: _Base | None = None
    for at, one in enumerate(offers):
        if base is None:
            found.append(one.proposal)
            base = _begun(prices, one)
            continue
        joint = _on_top(prices, effects, base, one) if at < _MOST else None
        found.append(one.proposal if joint is None else _told(one.proposal, base, joint))
        if joint is not None and _adds(base, joint) and _is_usual(one.proposal):
            base = joint
    return found


def _begun(prices: Prices, one: Offer) -> _Base | None:
    facts, speedup = prices.seen.facts, one.predicted.speedup
    if facts is None or speedup is None or one.changes is None or not _is_usual(one.proposal):
        return None
    if not worth_naming(one.predicted):
        return None
    return _Base((one.proposal.fix,), one.changes, after(facts, one.proposal.edits), speedup)


def _on_top(prices: Prices, effects: Effects, base: _Base, one: Offer) -> _Base | None:
    """Predict an offer with others done; ``None``: there is no prediction.

    It is proposed anew, for a run in which the others are done; where nothing is left of it, what
    they give is all.
    """
    anew = [
        proposal
        for proposal in listing.propose(one.text, base.facts)
        if proposal.edits and proposal.refused is None and proposal.where == one.proposal.where
    ]
    changes = _effect(prices, anew[0], effects) if anew else ()
    if changes is None or one.changes is None:
        return None
    if not anew:
        return base
    both = (*base.changes, *changes)
    speedup = price(prices, both).speedup
    if speedup is None:
        return None
    facts = after(base.facts, anew[0].edits)
    return _Base((*base.fixes, one.proposal.fix), both, facts, speedup)


def _told(proposal: Proposal, base: _Base, joint: _Base) -> Proposal:
    return replace(proposal, after=base.fixes, together=joint.speedup)


def _adds(base: _Base, joint: _Base) -> bool:
    """Tell whether more is worth naming than the others give: both ends share what is not known."""
    return joint.speedup.low / base.speedup.low - 1 >= LEAST_GAIN


def _is_usual(proposal: Proposal) -> bool:
    return proposal.applicability in _DONE
