"""Which proposal is tried next, and whether one that was tried is kept."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.edit import Applicability, Edit, Proposal
from gapless.model.trial import Method, Parity, Side, Trial, TrialVerdict
from gapless.model.tuning import ProvenFix, TriedFix, TuningState
from gapless.report.text.numbers import percent
from gapless.verify.requests import stack_edits

LEAST_GAIN: Final = 0.01  # below which nothing is proven, however quiet the machine
_MOST_NOISE: Final = 0.05  # that keeps proposals from being tried
PROVEN: Final = frozenset({TrialVerdict.CONFIRMED, TrialVerdict.LARGER, TrialVerdict.SMALLER})
_MAY_CHANGE: Final = frozenset({TrialVerdict.NOTHING, TrialVerdict.UNDECIDED})  # on another base
_WHY: Final = {
    TrialVerdict.CONFIRMED: "as predicted",
    TrialVerdict.LARGER: "more than predicted",
    TrialVerdict.SMALLER: "less than predicted, but proven",
    TrialVerdict.NOTHING: "it changes nothing that matters",
    TrialVerdict.WORSE: "it makes the step slower",
    TrialVerdict.UNDECIDED: "not proven: its interval reaches into the noise",
    TrialVerdict.DOES_NOT_FIT: "memory does not suffice",
    TrialVerdict.REFUSED: "it trained on something else, or failed",
}


class Agenda(Struct, frozen=True):
    """What is proposed for a run that carries all kept fixes, and what may not be tried."""

    proposals: tuple[Proposal, ...]  # with edits, permitted
    refusals: tuple[str, ...] = ()  # "channels-last: …"


def choose_next(agenda: Agenda, state: TuningState) -> Proposal | None:
    """Return the proposal to try next: the highest low end first, what is not predicted last."""
    noise = expected_noise(state)
    candidates = [
        proposal
        for proposal in agenda.proposals
        if is_worth_trying(proposal, noise) and not _is_settled(proposal, state)
    ]
    return min(candidates, key=lambda proposal: _sort_key(proposal, state), default=None)


def expected_noise(state: TuningState) -> float:
    """Return the gain below which nothing is expected to be proven: that of the quietest trial.

    It is bounded: trials that others disturbed say nothing of the next ones.
    """
    noises = [attempt.noise for attempt in state.tries if attempt.noise is not None]
    return max(LEAST_GAIN, min(*noises, _MOST_NOISE) if noises else 0.0)


def is_worth_trying(proposal: Proposal, noise: float) -> bool:
    """Return whether a proposal may be worth more than the noise; not predicted: it may."""
    return proposal.speedup is None or proposal.speedup.mid - 1 > noise


def list_remaining(agenda: Agenda, state: TuningState) -> tuple[str, ...]:
    """Return what was proposed last and not tried, each with the reason."""
    noise = expected_noise(state)
    untried = [proposal for proposal in agenda.proposals if not _is_settled(proposal, state)]
    reasons = [
        f"{proposal.fix} ({proposal.summary}): "
        + (
            "the budget was spent before"
            if is_worth_trying(proposal, noise)
            else f"predicted to gain no more than the noise of trials here, {percent(noise)}"
        )
        for proposal in untried
    ]
    return tuple(dict.fromkeys((*reasons, *agenda.refusals)))


def judge_attempt(proposal: Proposal, trial: Trial, n_kept: int) -> TriedFix:
    """Return what became of a proposal that was tried on top of some kept fixes."""
    side = trial.sides[0]
    objection = find_objection(side)
    return TriedFix(
        fix=proposal.fix,
        summary=proposal.summary,
        edits=proposal.edits,
        applicability=proposal.applicability,
        verdict=side.verdict,
        is_kept=objection is None,
        why=objection or _describe_proof(side),
        n_kept=n_kept,
        predicted=proposal.speedup,
        speedup=side.speedup,
        noise=trial.noise,
        location=proposal.location,
        spent_s=trial.spent_s,
    )


def find_objection(side: Side) -> str | None:
    """Return why a side is not kept; ``None``: it is proven, and trained as its class promises."""
    if side.verdict not in PROVEN:
        return side.why or _WHY[side.verdict]
    if side.applicability is Applicability.IDENTICAL and side.parity is Parity.DIFFERENT:
        note = "" if side.parity_note is None else f": {side.parity_note}"
        return f"losses differ, though it ought to change no result{note}"
    return None


def _describe_proof(side: Side) -> str:
    words = "proven" if side.predicted is None else _WHY[side.verdict]
    if side.method is Method.IN_PROCESS:
        return f"{words}, in one process; losses are compared in the final proof"
    return f"{words}; losses not observed" if side.parity is Parity.NOT_OBSERVED else words


def keep_fix(fixes: tuple[ProvenFix, ...], proposal: Proposal, side: Side) -> tuple[ProvenFix, ...]:
    """Return the kept fixes with one more, which replaces what sets the same."""
    stacked = stack_edits(proposal.edits, [edit for fix in fixes for edit in fix.edits])
    below = [
        replace(fix, edits=tuple(edit for edit in fix.edits if edit in stacked)) for fix in fixes
    ]
    added = ProvenFix(
        fix=proposal.fix,
        summary=proposal.summary,
        edits=proposal.edits,
        applicability=proposal.applicability,
        speedup=side.speedup,
        risk=proposal.risk,
        location=proposal.location,
    )
    return (*(fix for fix in below if fix.edits), added)


def edits_of(fixes: Iterable[ProvenFix]) -> tuple[Edit, ...]:
    """Return the edits of some fixes, each once, in order."""
    return tuple({repr(edit): edit for fix in fixes for edit in fix.edits}.values())


def _sort_key(proposal: Proposal, state: TuningState) -> tuple[bool, bool, float]:
    speedup = proposal.speedup
    is_again = bool(list_attempts(proposal, state))
    return (is_again, speedup is None, -speedup.low if speedup else 0.0)


def list_attempts(proposal: Proposal, state: TuningState) -> list[TriedFix]:
    """Return how often and how a proposal was tried, in order."""
    key = (proposal.fix, proposal.location, proposal.edits)
    return [
        attempt for attempt in state.tries if (attempt.fix, attempt.location, attempt.edits) == key
    ]


def _is_settled(proposal: Proposal, state: TuningState) -> bool:
    """Return whether a proposal is kept or was tried, and is not promising on what is kept now.

    What stayed undecided though it looked faster is tried twice: a busy machine hides gains.
    """
    attempts = list_attempts(proposal, state)
    if not attempts:
        kept_edits = edits_of(state.fixes)
        return all(edit in kept_edits for edit in proposal.edits)
    last_attempt = attempts[-1]
    if last_attempt.is_kept or last_attempt.verdict not in _MAY_CHANGE:
        return True
    if last_attempt.verdict is TrialVerdict.UNDECIDED and _looks_faster(last_attempt):
        return sum(attempt.verdict is TrialVerdict.UNDECIDED for attempt in attempts) > 1
    if last_attempt.n_kept == len(state.fixes):
        return True
    if proposal.speedup is None or last_attempt.speedup is None:
        return True
    return proposal.speedup.low <= last_attempt.speedup.high


def _looks_faster(attempt: TriedFix) -> bool:
    return attempt.speedup is None or attempt.speedup.mid - 1 > LEAST_GAIN
