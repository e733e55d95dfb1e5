"""From what was requested to what is tried: names and settings become candidates, or a reason."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.declare import custom_settings, hypothetical, listing, parsing
from gapless.catalogue.declare.fix import changes_nothing, worst_applicability
from gapless.model.edit import (
    Applicability,
    Edit,
    Proposal,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Wrap,
)
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.verify.specs import Candidate

TAIL_FIXES: Final = ("no-logging", "no-checkpoint", "no-evaluation")
_MAX_PROPOSALS: Final = 3  # proposals that are tried where nothing is named
_STRICT_KINDS: Final = frozenset({Applicability.IDENTICAL, Applicability.ABLATION})
_USUAL_KINDS: Final = _STRICT_KINDS | {Applicability.EQUIVALENT}


class TrialRequest(Struct, frozen=True):
    """What the user requests; each of ``groups`` is tried by itself, its members together."""

    fixes: tuple[str, ...] = ()  # "more-workers=2+one-thread"
    settings: tuple[str, ...] = ()  # "DataLoader.num_workers=8"
    ceilings: bool = False
    proposed: bool = False  # what the study of the run proposes first; ceilings if there is nothing
    together: bool = False
    strict: bool = False
    risky: bool = False
    override: bool = False


class Shortlist(Struct, frozen=True):
    """What is tried, and all that was proposed, refusals included."""

    candidates: tuple[Candidate, ...]
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()


class StudyForecast(Struct, frozen=True):
    """What the study of a run expects: its proposals, and what some edits together would give."""

    proposals: tuple[Proposal, ...] = ()
    predict: Callable[[Sequence[Proposal]], Estimate | None] = lambda _: None


def choose_candidates(
    request: TrialRequest, facts: Facts, forecast: StudyForecast | None = None
) -> Shortlist:
    """Decide for one run what is tried. Raises ``UsageError`` for an unknown name."""
    forecast = forecast or StudyForecast()
    groups = [
        [check_permission(proposal, request) for proposal in _propose_fixes(text, facts, request)]
        for text in request.fixes
    ]
    risky_request = replace(request, risky=True)  # a setting that is written out is intended
    groups += [
        [
            check_permission(
                custom_settings.propose_setting(setting, facts, override=request.override),
                risky_request,
            )
        ]
        for setting in request.settings
    ]
    if request.together and len(groups) > 1:
        groups = [[proposal for group in groups for proposal in group]]
    if request.proposed:
        groups += _first_proposals(forecast.proposals, request)
    if request.ceilings or (
        request.proposed and not any(_join_proposals(group) for group in groups)
    ):
        groups += _propose_ceilings(facts)
    candidates = tuple(
        _predict_candidate(candidate, group, forecast)
        for group in groups
        if (candidate := _join_proposals(group))
    )
    return Shortlist(candidates, tuple(proposal for group in groups for proposal in group))


def _first_proposals(proposals: Sequence[Proposal], request: TrialRequest) -> list[list[Proposal]]:
    """Return the first proposals that may be tried, each by itself, and what is refused."""
    checked = [check_permission(proposal, request) for proposal in proposals]
    eligible = [
        proposal
        for proposal in checked
        if proposal.refused is None and proposal.edits and not _is_in_vain(proposal)
    ]
    refusals = [proposal for proposal in checked if proposal.refused is not None]
    return [
        *([proposal] for proposal in eligible[:_MAX_PROPOSALS]),
        *([proposal] for proposal in refusals),
    ]


def make_candidate(proposal: Proposal) -> Candidate:
    """Return one proposal as a side of a trial."""
    return Candidate(
        (proposal.fix,),
        proposal.summary,
        proposal.edits,
        proposal.applicability,
        proposal.speedup,
    )


def _is_in_vain(proposal: Proposal) -> bool:
    """Return whether a proposal is predicted to give nothing."""
    return proposal.speedup is not None and proposal.speedup.mid <= 1


def check_names(request: TrialRequest) -> None:
    """Raise ``UsageError`` for an unknown name, before anything is run."""
    for text in request.fixes:
        for name in text.split("+"):
            listing.parse_fix(name)
    for text in request.settings:
        parsing.parse_setting(text)


def survey_fixes(facts: Facts) -> tuple[Proposal, ...]:
    """Return the proposal of every fix for a run."""
    return tuple(proposal for fix in listing.FIXES for proposal in fix(facts))


def _propose_fixes(text: str, facts: Facts, request: TrialRequest) -> list[Proposal]:
    names = text.split("+")
    if len(names) == 1:
        return list(listing.propose_named(text, facts, override=request.override))
    return list(hypothetical.propose_together(names, facts, override=request.override))


def _propose_ceilings(facts: Facts) -> list[list[Proposal]]:
    """Return the ablations: data, copies (the cached batch on the device), and the tails as one."""
    proposals = listing.propose_ceilings(facts)
    tails = [proposal for proposal in proposals if proposal.fix in TAIL_FIXES]
    return [
        *([proposal] for proposal in proposals if proposal.fix not in TAIL_FIXES),
        *([tails] if tails else []),
    ]


def check_permission(proposal: Proposal, request: TrialRequest) -> Proposal:
    """Refuse what changes more than was allowed."""
    if proposal.refused is not None or not proposal.edits:
        return proposal
    allowed = set(_STRICT_KINDS if request.strict else _USUAL_KINDS)
    if request.risky:
        allowed.add(Applicability.RISKY)
    if request.override:
        allowed.add(Applicability.MANUAL)
    if proposal.applicability in allowed:
        return proposal
    return replace(
        proposal, refused=f"{_describe_risk(proposal)}: {_override_hint(proposal.applicability)}"
    )


def _describe_risk(proposal: Proposal) -> str:
    return proposal.applicability.value + (f" ({proposal.risk})" if proposal.risk else "")


def _override_hint(applicability: Applicability) -> str:
    if applicability is Applicability.RISKY:
        return "--risky tries it anyway"
    if applicability is Applicability.MANUAL:
        return "--override tries it anyway"
    return "not with --strict"


def _predict_candidate(
    candidate: Candidate, group: Sequence[Proposal], forecast: StudyForecast
) -> Candidate:
    """Return a candidate with its predicted gain; an ablation is not a change of a run."""
    if candidate.applicability is Applicability.ABLATION:
        return candidate
    changes = [proposal for proposal in group if proposal.edits]
    return replace(candidate, predicted=forecast.predict(changes))


def _join_proposals(group: Sequence[Proposal]) -> Candidate | None:
    """Join proposals that are tried together; ``None`` if one of its fixes cannot be."""
    wanted_fixes = {proposal.fix for proposal in group if not changes_nothing(proposal)}
    eligible = [proposal for proposal in group if proposal.refused is None and proposal.edits]
    if not eligible or {proposal.fix for proposal in eligible} != wanted_fixes:
        return None
    return Candidate(
        fixes=tuple(dict.fromkeys(proposal.fix for proposal in eligible)),
        summary=", ".join(dict.fromkeys(proposal.summary for proposal in eligible)),
        edits=_distinct(edit for proposal in eligible for edit in proposal.edits),
        applicability=worst_applicability(*(proposal.applicability for proposal in eligible)),
    )


def _distinct(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Leave out edits that are there already; their order stays."""
    distinct: dict[str, Edit] = {}
    for edit in edits:
        distinct.setdefault(repr(edit), edit)
    return tuple(distinct.values())


def stack_edits(edits: Sequence[Edit], base_edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return edits and what they leave of those below them: what sets the same again replaces it.

    The upper ones come first: effects are counted by their numbers.
    """
    subjects = set(map(_subject_of, edits))
    return (*edits, *(edit for edit in base_edits if _subject_of(edit) not in subjects))


def _subject_of(edit: Edit) -> tuple[object, ...]:
    """Return what an edit sets, without the value."""
    if isinstance(edit, SetEnv):
        return (SetEnv, edit.name)
    if isinstance(edit, SetGlobal):
        return (SetGlobal, edit.target)
    if isinstance(edit, SetArgument):
        return (SetArgument, edit.target, edit.name, edit.where)
    if isinstance(edit, Wrap):
        return (Wrap, edit.target, edit.part, edit.where)
    return (Skip, edit.target, edit.where)
