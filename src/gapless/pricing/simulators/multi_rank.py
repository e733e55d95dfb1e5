"""The gain of changes for the joint step of several ranks: the slowest of them decides.

Each rank's steps, as its windows have them, are split into its own work and its waits for the last
rank. A change shortens the former, on each rank by that rank's share of what is removed; then the
step is as long as the longest of one step of each rank. Steps of different ranks are drawn
independently of one another, changed and unchanged alike, so that the waits of ranks for one
another by mere chance stay. A gain on a rank that is not the slowest counts for nothing.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.fixes.ranks.no_sync import REDUCERS
from gapless.catalogue.queries.rank_waits import RANK_WAITS, STRAGGLER_WAIT, Rank, find_ranks
from gapless.model.account import Account
from gapless.model.change import Change, Drop, HostChange, Omit, Prediction, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.model.leaf import GROUPS, group_of
from gapless.model.run import ProcessTime, RecordedRun, StepAccount
from gapless.model.study import Study
from gapless.pricing.simulators import host_model
from gapless.pricing.simulators.step_of_ranks import JointSteps, estimate_speedup
from gapless.pricing.simulators.tracing_cost import remove_tracing, scale_operator, tracing_cost_ns
from gapless.pricing.simulators.validation import FidelityCheck, rehearse
from gapless.recorded.steps.account import LUMP_LEAVES, StepTotals, step_account

_DATA: Final = "idle.data"
_COMM: Final = ("comm.", "idle.comm.")
_UNCHANGED: Final = Estimate(1.0, 1.0, 1.0)
_MIDDLE: Final = 1  # of the possible cost of tracing
_ONE_RANK_NOTE: Final = "windows show only one rank: another may be the one that decides"


def is_joint(evidence: Evidence) -> bool:
    """Return whether several ranks make the steps, even if windows show only one of them."""
    return bool(find_ranks(evidence)) or evidence.facts.world.ranks > 1


class JointSimulator(Struct, frozen=True, dict=True):
    """Simulates the joint steps of ranks.

    ``hosts``: these are steps of training threads; else only communication can be simulated, and
    ``why`` gives the reason.
    """

    evidence: Evidence
    why: str
    hosts: bool

    @property
    def fidelity(self) -> ReplayFidelity | None:
        """Return how well the unchanged step of all ranks is reproduced."""
        return self._fidelity_check.fidelity if self.evidence.study.account.steps else None

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict the gain of changes together for an un-profiled step, or return why not."""
        other_changes = [change for change in changes if not _is_evening_out(change)]
        if not self.hosts and not all(map(_is_communication, other_changes)):
            return Prediction(None, "host", refused=self.why)
        if not find_ranks(self.evidence):
            return _qualify_one_rank(host_model.predict_thread(self.evidence, changes))
        refusal = self._fidelity_check.fidelity.refused
        if refusal is not None:
            return Prediction(None, "host", refused=refusal)
        predictions = [_predict_scene(scene, changes, other_changes) for scene in self._scenes]
        speedups = [
            prediction.speedup for prediction in predictions if prediction.speedup is not None
        ]
        if len(speedups) < len(predictions):
            return next(prediction for prediction in predictions if prediction.speedup is None)
        low, high = (
            min(estimate.low for estimate in speedups),
            max(estimate.high for estimate in speedups),
        )
        speedup = self._fidelity_check.extend_bounds(Estimate(low, speedups[_MIDDLE].mid, high))
        return replace(predictions[_MIDDLE], speedup=speedup)

    def cap_by_data_wait(self, prediction: Prediction) -> Prediction:
        """Return what a loader's queue gives, no more than if no rank waited for data at all.

        The queue is the same for all ranks: it does not know which of them decides. Where the
        ranks' steps cannot be reproduced, no gain is certain.
        """
        no_wait_speedup, speedup = self._no_wait_speedup, prediction.speedup
        if speedup is None:
            return prediction
        if no_wait_speedup is None:
            is_joint_host = self.hosts and bool(find_ranks(self.evidence))
            return (
                _make_unsure(prediction, speedup)
                if is_joint_host and self._fidelity_check.fidelity.refused
                else prediction
            )
        mid = min(speedup.mid, no_wait_speedup.mid)
        return replace(
            prediction,
            speedup=Estimate(min(speedup.low, mid), mid, min(speedup.high, no_wait_speedup.high)),
        )

    @cached_property
    def _no_wait_speedup(self) -> Estimate | None:
        return self.play((Drop((_DATA,)),)).speedup if find_ranks(self.evidence) else None

    @cached_property
    def _fidelity_check(self) -> FidelityCheck:
        return rehearse(self.evidence)

    @cached_property
    def _scenes(self) -> tuple["_JointScene", ...]:
        return tuple(
            _JointScene.from_evidence(remove_tracing(self.evidence, ns))
            for ns in tracing_cost_ns(self.evidence)
        )


class _JointScene(Struct, frozen=True):
    """The ranks of a run, and the evidence of each, without its waits for others."""

    ranks: tuple[Rank, ...]
    rank_evidence: tuple[Evidence, ...]

    @classmethod
    def from_evidence(cls, evidence: Evidence) -> "_JointScene":
        ranks = find_ranks(evidence)
        return cls(ranks, tuple(_isolate_rank(evidence, rank) for rank in ranks))


def _predict_scene(
    scene: _JointScene, changes: Sequence[Change], other_changes: Sequence[Change]
) -> Prediction:
    predictions = [
        host_model.predict_thread(evidence, other_changes) for evidence in scene.rank_evidence
    ]
    refusal = next((prediction for prediction in predictions if prediction.speedup is None), None)
    if refusal is not None:
        return refusal
    removed_shares = [_removed_share(prediction.speedup) for prediction in predictions]
    evened_share = max(
        (
            1 - change.keep
            for change in changes
            if isinstance(change, Drop) and _is_evening_out(change)
        ),
        default=0.0,
    )
    steps = JointSteps.from_ranks(scene.ranks, evened_share)
    family = "comm" if all(map(_is_communication, changes)) else predictions[0].family
    notes = (
        *dict.fromkeys(note for prediction in predictions for note in prediction.notes),
        _describe_basis(scene.ranks),
    )
    return Prediction(
        estimate_speedup(steps, removed_shares, _remaining_waits(other_changes)),
        family,
        notes=notes,
    )


def _is_evening_out(change: Change) -> bool:
    """Return whether a change makes a slow rank as fast as the next slowest."""
    return isinstance(change, Drop) and change.leaves == (STRAGGLER_WAIT,)


def _is_communication(change: Change) -> bool:
    if isinstance(change, Omit):
        return bool(change.names) and all(name in REDUCERS for name in change.names)
    leaves = change.leaves if isinstance(change, Drop | HostChange | Scale) else ()
    has_names = isinstance(change, Scale) and bool(change.names)
    return bool(leaves) and not has_names and all(leaf.startswith(_COMM) for leaf in leaves)


def marked_share(evidence: Evidence, leaf: str) -> Estimate | None:
    """Return the joint step's share of what light marks show; ``None`` otherwise, or for one rank.

    The rank with the most of it delays the others by that: less, as far as it would have waited for
    them, but by no less than what each rank has.
    """
    if leaf not in LUMP_LEAVES.values():
        return None
    ranks_by_number = {rank.rank: rank for rank in find_ranks(evidence)}
    processes = evidence.recorded.timeline.processes
    shares = [
        (_stepping_share(process, leaf), ranks_by_number[process.rank])
        for process in processes
        if process.rank in ranks_by_number
    ]
    if len(shares) < 2:  # noqa: PLR2004 - one is the account itself
        return None
    max_share, last_rank = max(shares, key=lambda pair: pair[0])
    wait_share = float(last_rank.waits.sum() / last_rank.lengths.sum())
    min_share = min(share for share, _ in shares)
    return Estimate(max(min_share, max_share - wait_share), max_share, max_share)


def _stepping_share(process: ProcessTime, leaf: str) -> float:
    total_ns = sum(process.stepping.values())
    leaf_ns = sum(ns for name, ns in process.stepping.items() if LUMP_LEAVES.get(name) == leaf)
    return leaf_ns / total_ns if total_ns else 0.0


def _qualify_one_rank(prediction: Prediction) -> Prediction:
    if prediction.speedup is None:
        return prediction
    return replace(
        _make_unsure(prediction, prediction.speedup), notes=(*prediction.notes, _ONE_RANK_NOTE)
    )


def _make_unsure(prediction: Prediction, speedup: Estimate) -> Prediction:
    return replace(prediction, speedup=replace(speedup, low=min(1.0, speedup.low)))


def _describe_basis(ranks: Sequence[Rank]) -> str:
    n_steps = min(len(rank.rows) for rank in ranks)
    return (
        f"of the step that {len(ranks)} ranks make together, of which the slowest decides: "
        f"{n_steps} steps or more of each in windows"
    )


# ── What goes, on each rank ─────────────────────────────────────────────────────────────────────


def _removed_share(speedup: Estimate | None) -> Estimate:
    known_speedup = speedup or _UNCHANGED
    return Estimate(
        1 - 1 / known_speedup.low, 1 - 1 / known_speedup.mid, 1 - 1 / known_speedup.high
    )


def _remaining_waits(changes: Sequence[Change]) -> Estimate:
    """Return what stays of ranks' waits in turn: they go with the collectives that are removed."""
    remaining_waits = _UNCHANGED
    for change in changes:
        if not isinstance(change, Drop | HostChange | Scale) or not STRAGGLER_WAIT.startswith(
            change.leaves or "-"
        ):
            continue
        factor = (
            Estimate(change.keep, change.keep, change.keep)
            if isinstance(change, Drop)
            else change.factor
        )
        remaining_waits = Estimate(
            remaining_waits.low * factor.low,
            remaining_waits.mid * factor.mid,
            remaining_waits.high * factor.high,
        )
    return remaining_waits


def _isolate_rank(evidence: Evidence, rank: Rank) -> Evidence:
    """Return the evidence of one rank, without its waits for others."""
    study = evidence.study
    total_ns = sum(row.row.end - row.row.start for row in study.account.rows)
    share = float(rank.lengths.sum()) / total_ns if total_ns else 0.0
    operators = tuple(scale_operator(operator, share) for operator in study.tables.operators)
    rank_study = replace(
        study, account=_sum_rank(rank), tables=replace(study.tables, operators=operators)
    )
    recorded = study.recorded
    if recorded is not None and recorded.account is not None:
        rank_account = _join_run_rows(recorded, rank_study, rank.rank) or recorded.account
        rank_account = replace(rank_account, account=_without_waits(rank_account.account))
        rank_study = replace(rank_study, recorded=replace(recorded, account=rank_account))
    return replace(evidence, study=replace(rank_study, account=_without_waits(rank_study.account)))


def _sum_rank(rank: Rank) -> Account:
    leaves: dict[str, int] = {}
    groups: dict[str, int] = dict.fromkeys(GROUPS, 0)
    parts: dict[str, dict[str, int]] = {}
    for row in rank.rows:
        for leaf, ns in row.leaves.items():
            leaves[leaf] = leaves.get(leaf, 0) + ns
    for leaf, ns in leaves.items():
        groups[group_of(leaf)] = groups.get(group_of(leaf), 0) + ns
        parts.setdefault(group_of(leaf), {})[leaf] = ns
    return Account(sum(leaves.values()), len(rank.rows), leaves, groups, parts, rank.rows)


def _join_run_rows(recorded: RecordedRun, windows: Study, rank: int) -> StepAccount | None:
    """Join a rank's run rows with its windows."""
    processes = [
        process
        for process in recorded.timeline.processes
        if process.rank == rank and process.mean_ns
    ]
    if not processes:
        return None
    longest = max(processes, key=lambda process: process.steps)
    wall_ns = sum(longest.stepping.values())
    count = round(wall_ns / (longest.mean_ns or 1))
    return (
        step_account(StepTotals(count, wall_ns, longest.stepping, longest.stepping), windows)
        if count
        else None
    )


def _without_waits(account: Account) -> Account:
    leaves = {leaf: ns for leaf, ns in account.leaves.items() if not leaf.startswith(RANK_WAITS)}
    return replace(account, leaves=leaves)
