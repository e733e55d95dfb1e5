"""What the JSON of a study has of trials and of what was proposed for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from gapless.model.edit import Outcome, Proposal, edit_to_json
from gapless.model.estimate import Estimate
from gapless.model.trial import Side, Trial
from gapless.report.documents.from_model import fill


class ArmObject(Struct, frozen=True):
    """One run of the command; ``side`` "A" is the unedited one."""

    side: str
    order: int
    run: str | None  # folder
    exit_code: int | None
    steps: int
    step_ns: int | None
    first_batch_ns: int | None
    start_ns: int | None
    turn_ns: int | None
    exit_ns: int | None
    foreign: float | None
    failed: str | None
    noise: float | None


class TrialObject(Struct, frozen=True):
    """One combination of edits, measured against the unedited training."""

    id: str
    fixes: tuple[str, ...]
    summary: str
    edits: tuple[Mapping[str, Any], ...]
    applicability: str
    arms: str  # "ABBAABBA": all sides of the trial
    side: str  # which of the letters is this one
    speedup: Estimate | None
    job: Estimate | None  # of a whole job as long as the recorded one
    predicted: Estimate | None
    verdict: str
    parity: str
    parity_note: str | None
    data: str | None
    noise: float | None
    cache: str
    why: str | None
    step_ns: int | None
    unedited_step_ns: int | None
    measured: tuple[int, int] | None
    spent_s: float
    leaves: Mapping[str, int] | None  # of one window of this side
    unedited_leaves: Mapping[str, int] | None
    runs: tuple[ArmObject, ...]
    notes: tuple[str, ...]
    method: str = "fresh processes"  # or "in one process": switched while it ran
    memory_peaks: tuple[int, int] | None = None  # bytes on the device, unedited and edited


class ProposalObject(Struct, frozen=True):
    """A named edit for this run; ``refused``: why it must not be done here."""

    fix: str
    summary: str
    edits: tuple[Mapping[str, Any], ...]
    applicability: str
    risk: str | None
    refused: str | None
    where: Mapping[str, Any] | None
    remedies: tuple[str, ...] = ()  # codes of the findings that it helps against
    speedup: Estimate | None = None  # predicted, of this alone; null: it is not
    calibrated: bool = False
    unpredicted: str | None = None  # why it is not predicted
    at_most: Estimate | None = None  # what it would give if nothing were left of its stages
    after: tuple[str, ...] = ()  # fixes with which together it was predicted as well
    together: Estimate | None = None  # what all of these give, replayed together
    outcome: Outcome | None = None  # where a step would go with this alone: ns by group, summing


def trial_objects(trials: Sequence[Trial]) -> tuple[TrialObject, ...]:
    """Return an object for each combination of edits of each trial."""
    return tuple(_trial_object(trial, side) for trial in trials for side in trial.sides)


def proposal_objects(proposals: Sequence[Proposal]) -> tuple[ProposalObject, ...]:
    """Return an object for each proposal."""
    return tuple(
        fill(
            ProposalObject,
            proposal,
            edits=tuple(edit_to_json(edit) for edit in proposal.edits),
            where=proposal.location and asdict(proposal.location),
        )
        for proposal in proposals
    )


def _trial_object(trial: Trial, side: Side) -> TrialObject:
    return fill(
        TrialObject,
        side,
        trial,
        edits=tuple(edit_to_json(edit) for edit in side.edits),
        arms=trial.order,
        side=side.name,
        noise=trial.noise if side.noise is None else side.noise,
        unedited_step_ns=trial.step_ns,
        leaves=side.account and side.account.leaves,
        unedited_leaves=trial.account and trial.account.leaves,
        runs=tuple(
            fill(ArmObject, arm, run=arm.folder, exit_code=arm.code)
            for arm in trial.arms
            if arm.side in {"A", side.name}
        ),
    )
