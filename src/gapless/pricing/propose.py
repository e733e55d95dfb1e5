"""Proposals: the fixes that help against what was found, each with what it is predicted to give.

The first is the one with the highest low end; the others are predicted by themselves, and once
more together with those before them. Gains are replayed together, never added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.fix import Effect, changes_nothing
from gapless.catalogue.declare.hypothetical import assume_edits
from gapless.catalogue.declare.listing import EFFECTS, STAGES_AT_BEST
from gapless.model.change import Change, LoaderChange, Prediction
from gapless.model.edit import Applicability, FixRequest, Proposal
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.model.finding import Diagnosis, Finding
from gapless.pricing.after import predict_outcome
from gapless.pricing.price import LEAST_GAIN, Prices, is_worth_naming, price_changes

TRY_IT: Final = "its gain is not known before it is tried"
_MAX_COMBINED: Final = 6  # proposals that are predicted together with the ones before
_UNASKED: Final = (Applicability.IDENTICAL, Applicability.EQUIVALENT)
Effects = Mapping[str, Effect]


class Offer(Struct, frozen=True):
    """A proposal, how to request it, and what it changes; ``None``: not known."""

    proposal: Proposal
    request: FixRequest
    changes: tuple[Change, ...] | None
    prediction: Prediction


def propose_fixes(
    prices: Prices, diagnosis: Diagnosis, effects: Effects = EFFECTS
) -> tuple[Proposal, ...]:
    """Return the fixes that help against the findings, the most valuable first; refusals last."""
    facts = prices.evidence.facts
    if prices.evidence.is_trace_only:
        return ()
    offers = list(
        _merge_alike(_make_offers(prices, effects, facts, _group_codes(_causes_to_help(diagnosis))))
    )
    available = [
        offer for offer in offers if offer.proposal.refused is None and not _is_loss(offer)
    ]
    refusals = [offer.proposal for offer in offers if offer.proposal.refused is not None]
    available.sort(key=_sort_key)
    best_offers = _best_of_each(available)
    best_offers[:1] = [_add_outcome(prices, offer) for offer in best_offers[:1]]
    return (*_stack_offers(prices, effects, best_offers), *refusals)


def _causes_to_help(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Return the causes to fix: the certain ones, then the likely ones."""
    likely = tuple(
        candidate.finding for candidate in diagnosis.to_try if candidate.odds is not None
    )
    return (*diagnosis.findings, *likely)


def predict_together(
    prices: Prices, proposals: Sequence[Proposal], effects: Effects = EFFECTS
) -> Prediction:
    """Predict what some proposals give together, or return why not."""
    changes: list[Change] = []
    for proposal in proposals:
        effect_changes = predict_effect(prices, proposal, effects)
        if effect_changes is None:
            return Prediction(None, "host", refused=f"{proposal.fix}: {TRY_IT}")
        changes += effect_changes
    return price_changes(prices, changes)


def _group_codes(findings: Iterable[Finding]) -> dict[FixRequest, tuple[str, ...]]:
    """Return the fixes that help, the best of the most valuable finding first, and against what."""
    codes_by_request: dict[FixRequest, tuple[str, ...]] = {}
    for finding in findings:
        for request in finding.detection.helps:
            codes_by_request[request] = tuple(
                dict.fromkeys((*codes_by_request.get(request, ()), finding.detection.code))
            )
    return codes_by_request


def _make_offers(
    prices: Prices,
    effects: Effects,
    facts: Facts,
    codes_by_request: Mapping[FixRequest, tuple[str, ...]],
) -> Iterable[Offer]:
    for request, codes in codes_by_request.items():
        for proposal in listing.propose_requested(request, facts):
            if not changes_nothing(proposal):
                named = replace(proposal, remedies=codes, value=request.value)
                yield _make_offer(prices, effects, request, named)


def _make_offer(prices: Prices, effects: Effects, request: FixRequest, proposal: Proposal) -> Offer:
    if proposal.refused is not None:
        return Offer(proposal, request, None, Prediction(None, "host", refused=proposal.refused))
    changes = predict_effect(prices, proposal, effects)
    prediction = (
        Prediction(None, "host", refused=TRY_IT)
        if changes is None
        else price_changes(prices, changes)
    )
    priced_proposal = replace(
        proposal,
        speedup=prediction.speedup,
        calibrated=prediction.calibrated,
        unpredicted=prediction.refused,
        at_most=_bound_gain(prices, proposal) if changes is None else None,
    )
    return Offer(priced_proposal, request, changes, prediction)


def _bound_gain(prices: Prices, proposal: Proposal) -> Estimate | None:
    """Return what a proposal is worth if nothing is left of the stages that it makes shorter."""
    stages = STAGES_AT_BEST.get(proposal.fix)
    loader = prices.evidence.facts.find_loader_at(proposal.location)
    if stages is None or loader is None:
        return None
    change = LoaderChange(loader.id, stages=dict.fromkeys(stages, 0.0))
    return price_changes(prices, (change,)).speedup


def predict_effect(
    prices: Prices, proposal: Proposal, effects: Effects = EFFECTS
) -> tuple[Change, ...] | None:
    """Return what a proposal changes; ``None``: it is not known."""
    effect = effects.get(proposal.fix)
    return None if effect is None else effect(prices.evidence, proposal)


def _merge_alike(offers: Iterable[Offer]) -> Iterable[Offer]:
    """Leave out offers of the same edits, or refused for the same reason; codes are joined."""
    offers_by_key: dict[object, Offer] = {}
    for offer in offers:
        key = repr(offer.proposal.edits) if offer.proposal.edits else offer.proposal.refused
        earlier = offers_by_key.get(key)
        if earlier is None:
            offers_by_key[key] = offer
            continue
        codes = tuple(dict.fromkeys((*earlier.proposal.remedies, *offer.proposal.remedies)))
        offers_by_key[key] = replace(earlier, proposal=replace(earlier.proposal, remedies=codes))
    return offers_by_key.values()


def _best_of_each(offers: Iterable[Offer]) -> list[Offer]:
    """Leave out further values of a fix that is already listed."""
    offers_by_fix: dict[object, Offer] = {}
    for offer in offers:
        offers_by_fix.setdefault((offer.proposal.fix, offer.proposal.location), offer)
    return list(offers_by_fix.values())


def _add_outcome(prices: Prices, offer: Offer) -> Offer:
    """Add where a step would go with an offer (takes up to 0.3 s: only done for the first)."""
    expected_outcome = (
        None if offer.changes is None else predict_outcome(prices, offer.changes, offer.prediction)
    )
    return replace(offer, proposal=replace(offer.proposal, outcome=expected_outcome))


def _is_loss(offer: Offer) -> bool:
    """Return whether a step is predicted to take longer with an offer than without it."""
    speedup = offer.prediction.speedup
    return speedup is not None and speedup.mid < 1


def _sort_key(offer: Offer) -> tuple[bool, bool, float]:
    """Order by permission, then by the low end of the gain; not predicted: last of its kind.

    What is done without asking comes first: ``gapless try`` begins with it.
    """
    speedup = offer.prediction.speedup
    return (not _is_usual(offer.proposal), speedup is None, -(speedup.low if speedup else 0.0))


class _Base(Struct, frozen=True):
    """What is taken as applied: fixes, what they change, what they give together."""

    fixes: tuple[str, ...]
    changes: tuple[Change, ...]
    facts: Facts
    speedup: Estimate


def _stack_offers(prices: Prices, effects: Effects, offers: Sequence[Offer]) -> list[Proposal]:
    """Predict each offer also together with the worthwhile ones before it."""
    proposals: list[Proposal] = []
    base: _Base | None = None
    for index, offer in enumerate(offers):
        if base is None:
            proposals.append(offer.proposal)
            base = _first_base(prices, offer)
            continue
        combined_base = (
            _combine_with(prices, effects, base, offer) if index < _MAX_COMBINED else None
        )
        proposals.append(
            offer.proposal
            if combined_base is None
            else _add_combined(offer.proposal, base, combined_base)
        )
        if (
            combined_base is not None
            and _adds_gain(base, combined_base)
            and _is_usual(offer.proposal)
        ):
            base = combined_base
    return proposals


def _first_base(prices: Prices, offer: Offer) -> _Base | None:
    facts, speedup = prices.evidence.facts, offer.prediction.speedup
    if speedup is None or offer.changes is None or not _is_usual(offer.proposal):
        return None
    if not is_worth_naming(offer.prediction):
        return None
    return _Base(
        (offer.proposal.fix,), offer.changes, assume_edits(facts, offer.proposal.edits), speedup
    )


def _combine_with(prices: Prices, effects: Effects, base: _Base, offer: Offer) -> _Base | None:
    """Predict an offer with others applied; ``None``: there is no prediction.

    It is proposed again, for a run with the others applied; where nothing is left of it, the result
    is what they give.
    """
    renewed_proposals = [
        proposal
        for proposal in listing.propose_requested(offer.request, base.facts)
        if proposal.edits
        and proposal.refused is None
        and proposal.location == offer.proposal.location
    ]
    changes = predict_effect(prices, renewed_proposals[0], effects) if renewed_proposals else ()
    if changes is None or offer.changes is None:
        return None
    if not renewed_proposals:
        return base
    all_changes = (*base.changes, *changes)
    speedup = price_changes(prices, all_changes).speedup
    if speedup is None:
        return None
    facts = assume_edits(base.facts, renewed_proposals[0].edits)
    return _Base((*base.fixes, offer.proposal.fix), all_changes, facts, speedup)


def _add_combined(proposal: Proposal, base: _Base, combined_base: _Base) -> Proposal:
    return replace(proposal, after=base.fixes, together=combined_base.speedup)


def _adds_gain(base: _Base, combined_base: _Base) -> bool:
    """Return whether the gain over the others is worth naming: both ends share the uncertainty."""
    return combined_base.speedup.low / base.speedup.low - 1 >= LEAST_GAIN


def _is_usual(proposal: Proposal) -> bool:
    return proposal.applicability in _UNASKED
