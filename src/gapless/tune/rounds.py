"""Rounds of a tuning: try, keep or drop, record again, until nothing is left; then the proof."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.errors import GaplessError, UsageError
from gapless.model.edit import Edit, Proposal
from gapless.model.trial import Trial, TrialVerdict
from gapless.model.tuning import Tuning, TuningState
from gapless.tune.choice import (
    Agenda,
    choose_next,
    edits_of,
    find_objection,
    judge_attempt,
    keep_fix,
    list_attempts,
    list_remaining,
)
from gapless.verify.budget import TrialBudgetError, format_time, round_up_budget
from gapless.verify.plan import INTERRUPTED as TRIAL_INTERRUPTED

DEFAULT_S: Final = 600.0
NOTHING_LEFT: Final = "nothing else that is proposed is worth more than the noise"
NOTHING_PROPOSED: Final = "nothing is proposed that may be tried"
BUDGET_SPENT: Final = "the budget is spent"
INTERRUPTED: Final = "interrupted"
_PROOF_SHARE: Final = 0.3  # of the budget, kept for the final proof
_ROUND_SHARE: Final = 0.5  # of what is left without it, that a round gets at first
_MAX_ROUND_S: Final = 180.0
_PARTS: Final = 3  # of a budget: two rounds at least, and the proof


class TimeLimit(Struct, frozen=True):
    """How long a trial may take: as usual, and at most, if two pairs of arms need that."""

    usual_s: float
    max_s: float


class MeasureTask(Struct, frozen=True):
    """A proposal to measure on top of what is kept."""

    record: str  # with the base edits applied
    proposal: Proposal
    base_edits: tuple[Edit, ...]
    limit: TimeLimit
    is_fresh: bool  # every arm in a process of its own


class Workbench(Struct, frozen=True):
    """What tuning does to the training and to the disk."""

    record: Callable[[tuple[Edit, ...]], str]  # with edits applied → folder of the record
    propose: Callable[[str], Agenda]  # for a record
    measure: Callable[[MeasureTask], Trial]
    prove: Callable[[TuningState, TimeLimit], Trial]  # all that is kept, against nothing
    save: Callable[[TuningState], None]
    clock: Callable[[], float]
    report_progress: Callable[[str], None]


class TuningSession(Struct, frozen=True):
    """A running tuning: its bench, its budget, and all states so far."""

    bench: Workbench
    budget_s: float
    start_s: float
    states: list[TuningState] = field(default_factory=list[TuningState])

    @property
    def state(self) -> TuningState:
        """The last state."""
        return self.states[-1]

    @property
    def left_s(self) -> float:
        """What is left of the budget, the proof included."""
        return self.budget_s - (self.bench.clock() - self.start_s)

    def advance(self, **changes: object) -> None:
        """Take the next state, and keep it on the disk."""
        spent_s = self.states[0].spent_s + self.bench.clock() - self.start_s
        self.states.append(replace(self.state, spent_s=spent_s, **changes))  # pyright: ignore[reportArgumentType]
        self.bench.save(self.state)


def tune(state: TuningState, bench: Workbench, budget_s: float = DEFAULT_S) -> TuningState:
    """Go on with a tuning until its end; Ctrl-C ends it with what is proven so far.

    A proof of the whole stays until a fix is kept beside those that it is about. Raises
    ``UsageError`` where the budget is too small for the first trial.
    """
    begun_state = replace(
        state, end=None, proof=state.proof if is_proven(state) else None, remaining=()
    )
    session = TuningSession(bench, budget_s, bench.clock(), [begun_state])
    try:
        bench.save(begun_state)
        _run_rounds(session)
        is_open = session.state.fixes and session.state.proof is None
        if is_open and session.state.end != INTERRUPTED:
            _prove(session)
    except KeyboardInterrupt:
        session.advance(end=INTERRUPTED)
    return session.state


def _run_rounds(session: TuningSession) -> None:
    agenda: Agenda | None = None
    while session.state.end is None:
        if session.state.record is None or agenda is None:
            agenda = _renew_agenda(session)
            if agenda is None:
                return
        session.bench.report_progress(f"round {len(session.state.tries) + 1}: choosing what to try")
        proposal = choose_next(agenda, session.state)
        if proposal is None:
            is_empty = not (agenda.proposals or session.state.tries)
            end = NOTHING_PROPOSED if is_empty else NOTHING_LEFT
            session.advance(end=end, remaining=list_remaining(agenda, session.state))
        elif not _run_round(session, proposal):
            session.advance(end=BUDGET_SPENT, remaining=list_remaining(agenda, session.state))


def _renew_agenda(session: TuningSession) -> Agenda | None:
    """Return what is proposed with the kept fixes applied; ``None``: that could not be recorded."""
    state = session.state
    if state.record is None:
        if state.fixes and _round_limit(session) is None:
            session.advance(end=BUDGET_SPENT)
            return None
        session.bench.report_progress(
            f"recording with {len(state.fixes)} kept" if state.fixes else "recording the command"
        )
        try:
            record = session.bench.record(edits_of(state.fixes))
        except GaplessError as error:
            if not state.fixes:
                raise
            session.advance(end=f"with what is kept it could not be recorded: {error}")
            return None
        session.advance(record=record)
    return session.bench.propose(session.state.record or "")


def _run_round(session: TuningSession, proposal: Proposal) -> bool:
    """Try a proposal on top of what is kept; return whether the budget sufficed for it."""
    state = session.state
    limit = _round_limit(session)
    if limit is None:
        return False
    try:
        attempts = list_attempts(proposal, state)
        is_open = any(attempt.verdict is TrialVerdict.UNDECIDED for attempt in attempts)
        trial = session.bench.measure(
            MeasureTask(
                state.record or "", proposal, edits_of(state.fixes), limit, is_fresh=is_open
            )
        )
    except TrialBudgetError as error:
        if state.tries:
            return False
        raise _too_small(session, error.needed_s) from None
    attempt = judge_attempt(proposal, trial, len(state.fixes))
    changes: dict[str, object] = {"tries": (*state.tries, attempt)}
    if attempt.is_kept:
        changes |= {"fixes": keep_fix(state.fixes, proposal, trial.sides[0])}
        changes |= {"record": None, "proof": None}
    if TRIAL_INTERRUPTED in trial.notes:  # what it has not proven is tried again on resuming
        changes = {**(changes if attempt.is_kept else {}), "end": INTERRUPTED}
    session.advance(**changes)
    return True


def _round_limit(session: TuningSession) -> TimeLimit | None:
    """Return how long the next round may take; ``None``: what is left is for the proof."""
    shortest_s = min((attempt.spent_s for attempt in session.state.tries), default=0.0)
    proof_s = max(_PROOF_SHARE * session.budget_s, shortest_s)
    room_s = session.left_s - proof_s
    if room_s <= 0 or room_s < shortest_s / 2:
        return None
    return TimeLimit(min(_MAX_ROUND_S, _ROUND_SHARE * room_s), room_s)


def _too_small(session: TuningSession, needed_s: float) -> UsageError:
    spent_s = session.budget_s - session.left_s
    enough_s = round_up_budget(spent_s + _PARTS * needed_s)
    return UsageError(
        f"a budget of {format_time(session.budget_s)} holds no trial: one takes about "
        f"{format_time(needed_s)}, and the proof of the whole as long again; "
        f"--budget {enough_s / 60:.0f}m would do"
    )


def _prove(session: TuningSession) -> None:
    """Measure all that is kept against the untouched command; too little time leaves no proof."""
    session.bench.report_progress("final proof: all that is kept against the untouched command")
    left_s = max(session.left_s, 0.0)
    limit = TimeLimit(left_s, max(left_s, _PROOF_SHARE * session.budget_s))
    try:
        trial = session.bench.prove(session.state, limit)
    except TrialBudgetError as error:
        reason = f"{session.state.end}; no time was left for the final proof"
        session.advance(end=f"{reason}, which takes about {format_time(error.needed_s)}")
        return
    is_interrupted = TRIAL_INTERRUPTED in trial.notes
    if is_interrupted and find_objection(trial.sides[0]) is not None:
        raise KeyboardInterrupt  # half a proof speaks neither for nor against what is kept
    session.advance(proof=trial, end=INTERRUPTED if is_interrupted else session.state.end)


def is_proven(state: TuningState) -> bool:
    """Return whether the final proof has confirmed what is kept."""
    return state.proof is not None and find_objection(state.proof.sides[0]) is None


def tuning_of(state: TuningState) -> Tuning:
    """Return what is proven: nothing where the final proof speaks against it.

    Without a final proof (Ctrl-C, no time left) each fix is proven on top of those before it, and
    the gain of the whole is not known.
    """
    proof = state.proof
    if proof is None or not is_proven(state):
        fixes = state.fixes if proof is None else ()
        return Tuning(state.command, state.folder, state.run, fixes)
    side = proof.sides[0]
    return Tuning(
        command=state.command,
        folder=state.folder,
        run=state.run,
        fixes=state.fixes,
        speedup=side.speedup,
        before_ns=proof.step_ns,
        after_ns=side.step_ns,
    )
