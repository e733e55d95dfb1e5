"""The gain of changes by the account: the steps of un-profiled time, less the leaves that go.

No graph: what is between operators, in steps that no window holds, or shown by samples alone has
no events to replay. Operators of a thread run where they are called, so that there is nothing to
overlap with but the loader's workers: where it waits for these, what the thread saves may become
such a wait. The profiler makes small operators slower than large ones; the low ends allow for that.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Final

from msgspec.structs import astuple

from gapless.model.change import (
    Bucket,
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Prediction,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

_HOST: Final = Estimate(0.6, 1.0, 1.1)  # of time between operators, which a profiler inflates most
_WORK: Final = Estimate(0.85, 1.0, 1.1)  # of operators
_EXACT: Final = Estimate(1.0, 1.0, 1.0)  # of what is known from un-profiled steps
_COLLECTIVES: Final = ("comm.", "idle.comm.")  # collectives: threads without events carry them out
_MIN_WAIT_SHARE: Final = 0.02  # of a step, for workers: above that they may be the limit
_MIN_BUSY_SHARE: Final = 0.5  # of the workers' time: less, and they wait for the training
_MIN_REMAINING: Final = 0.02  # of a step that stays at least
_KINDS: Final = ((Scale, "kernel"), (Omit, "sync"), (Drop, "sync"), (HostChange, "host"))
_REFUSALS: Final[Mapping[type, str]] = {
    Merge: "what few large operators take instead of many small ones is not known: try it",
    CopyChange: "there is no device to copy to",
    LoaderChange: "its loader was not recorded",
    Bucket: "how its ranks wait for one another is not replayed",
}
_WAIT_NOTE: Final = "workers are waited for: what the thread saves may be waited for instead"


def predict_by_account(evidence: Evidence, changes: Sequence[Change]) -> Prediction:
    """Predict the gain of changes together for the step of one thread, or return why not."""
    removed_share = _add_estimates(
        _removed_by_leaves(evidence, changes), _omitted_share(evidence, changes)
    )
    for change in changes:
        share_or_reason = _removed_elsewhere(evidence, change)
        if isinstance(share_or_reason, str):
            return Prediction(None, _family(changes), refused=share_or_reason)
        removed_share = _add_estimates(removed_share, share_or_reason)
    speedup = Estimate(
        *(
            1 / max(_MIN_REMAINING, 1 - share)
            for share in (removed_share.low, removed_share.mid, removed_share.high)
        )
    )
    if _waits_for_workers(evidence):
        speedup = Estimate(min(1.0, speedup.low), speedup.mid, speedup.high)
        return Prediction(speedup, _family(changes), notes=(_WAIT_NOTE,))
    return Prediction(speedup, _family(changes))


def _family(changes: Iterable[Change]) -> str:
    """Return the kind of a prediction: that of the least certain change."""
    all_changes = tuple(changes)
    return next(
        (
            family
            for kind, family in _KINDS
            if any(isinstance(change, kind) for change in all_changes)
        ),
        "host",
    )


def _waits_for_workers(evidence: Evidence) -> bool:
    """Return whether the thread waits for workers, so that they may limit the step.

    Workers that have nothing to do for most of the time do not: they would make batches faster.
    """
    uses = evidence.loader_uses
    return any(
        (use.share or 0.0) >= _MIN_WAIT_SHARE
        and use.workers is not None
        and use.workers.processes > 0
        and (use.workers.busy is None or use.workers.busy >= _MIN_BUSY_SHARE)
        for use in uses
    )


def _removed_by_leaves(evidence: Evidence, changes: Sequence[Change]) -> Estimate:
    """Return the share of the step that is removed by leaves.

    Where several changes name a leaf, each removes from what the others leave: nothing is removed
    twice.
    """
    removed_share = Estimate(0.0, 0.0, 0.0)
    for leaf in evidence.account.leaves:
        removals = [
            removal for change in changes if (removal := _removed_of_leaf(change, leaf)) is not None
        ]
        kept_shares = (
            prod(1 - share for share in ends) for ends in zip(*map(astuple, removals), strict=True)
        )
        if removals:
            removed_share = _add_estimates(
                removed_share,
                _scale_estimate(
                    Estimate(*(1 - share for share in kept_shares)), _leaf_share(evidence, leaf)
                ),
            )
    return removed_share


def _removed_of_leaf(change: Change, leaf: str) -> Estimate | None:
    """Return the share of a leaf that a change removes; ``None``: it does not name the leaf."""
    if not isinstance(change, Drop | HostChange | Scale) or not leaf.startswith(
        change.leaves or "-"
    ):
        return None
    match change:
        case Drop(leaves=leaves, keep=keep):
            return _scale_estimate(_profiler_factor(leaves), 1 - keep)
        case HostChange(leaves=leaves, factor=factor, sampled=sampled):
            return _removed_share(_EXACT if sampled else _profiler_factor(leaves), 1.0, factor)
        case Scale(factor=factor):
            return _removed_share(_WORK, 1.0, factor)


def _removed_elsewhere(evidence: Evidence, change: Change) -> Estimate | str:
    """Return the share of the step that a change removes besides leaves, or why it is unknown."""
    match change:
        case Drop() | HostChange() | Omit():
            return Estimate(0.0, 0.0, 0.0)
        case Scale(names=names, factor=factor):
            return _removed_share(_WORK, _operator_share(evidence, names), factor)
        case Delay(ns=ns):
            return _delay_share(evidence, ns)
        case Merge() | CopyChange() | LoaderChange() | Bucket():
            return _REFUSALS[type(change)]


def _delay_share(evidence: Evidence, ns: int) -> Estimate | str:
    """Return what a delay removes: less than nothing; maybe nothing if workers are waited for."""
    if not evidence.step_ns:
        return "there are no steps"
    share = -ns / evidence.step_ns
    return Estimate(share, share, 0.0 if _waits_for_workers(evidence) else share)


def _profiler_factor(leaves: Sequence[str]) -> Estimate:
    """Return the profiler's part of some leaves: next to nothing for work of other threads."""
    return _WORK if leaves and all(leaf.startswith(_COLLECTIVES) for leaf in leaves) else _HOST


def _leaf_share(evidence: Evidence, leaf: str) -> float:
    account, step = evidence.account, evidence.step_ns
    return account.leaves[leaf] / account.steps / step if account.steps and step else 0.0


def _add_estimates(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(a.low + b.low, a.mid + b.mid, a.high + b.high)


def _scale_estimate(estimate: Estimate, share: float) -> Estimate:
    return Estimate(estimate.low * share, estimate.mid * share, estimate.high * share)


def _removed_share(profiler_factor: Estimate, share: float, factor: Estimate) -> Estimate:
    """Return what is removed of a share that takes ``factor`` of its time (low if it is high)."""
    return Estimate(
        share * (1 - factor.high) * (profiler_factor.low if factor.high < 1 else 1.0),
        share * (1 - factor.mid),
        share * (1 - factor.low) * profiler_factor.high,
    )


def _operator_share(evidence: Evidence, names: Sequence[str]) -> float:
    """Return the share of the step in operators by name, without what they call."""
    rows, wall_ns = evidence.study.tables.operators, evidence.study.account.wall_ns
    self_times_ns = [
        operator.host_self_ns for operator in rows if _matches_any(operator.name, names)
    ]
    return min(1.0, sum(self_times_ns) / wall_ns) if wall_ns else 0.0


def _omitted_share(evidence: Evidence, changes: Sequence[Change]) -> Estimate:
    """Return the share of the step that goes with calls, and what they call.

    Calls may be nested, within one change or several, and go once: at least the largest, or what
    all take by themselves, at most their sum.
    """
    omissions = [change for change in changes if isinstance(change, Omit)]
    own_ns = max_ns = total_ns = 0.0
    for row in evidence.study.tables.operators:
        omitted_share = max(
            (1 - omission.keep for omission in omissions if _matches_any(row.name, omission.names)),
            default=0.0,
        )
        own_ns += row.host_self_ns * omitted_share
        max_ns, total_ns = (
            max(max_ns, row.host_total_ns * omitted_share),
            total_ns + row.host_total_ns * omitted_share,
        )
    wall_ns = evidence.study.account.wall_ns
    if not wall_ns:
        return Estimate(0.0, 0.0, 0.0)
    min_share = min(1.0, max(own_ns, max_ns) / wall_ns)
    return Estimate(_HOST.low * min_share, min_share, min(1.0, max(min_share, total_ns / wall_ns)))


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
