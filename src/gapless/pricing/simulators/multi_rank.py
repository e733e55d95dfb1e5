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
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT, Rank
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.model.change import Change, Drop, HostChange, Omit, Prediction, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.model.run import ProcessTime
from gapless.pricing.simulators import host_model
from gapless.pricing.simulators.isolated_rank import isolate_rank
from gapless.pricing.simulators.step_of_ranks import JointSteps, estimate_speedup
from gapless.pricing.simulators.tracing_cost import remove_tracing, tracing_cost_ns
from gapless.pricing.simulators.validation import FidelityCheck, rehearse
from gapless.recorded.steps.account import LUMP_LEAVES

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
        return cls(ranks, tuple(isolate_rank(evidence, rank) for rank in ranks))


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
