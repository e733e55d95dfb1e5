"""What is asked of several ranks besides their windows: whether there are, and what marks show.

The windows of all ranks are replayed together (``replay.predict.joint_scene``). A loader's queue is
the same for all ranks, and does not know which of them decides: its gain is bounded by theirs.
"""

from msgspec.structs import replace

from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.model.change import Change, HostChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.run import ProcessTime
from gapless.recorded.steps.account import LUMP_LEAVES
from gapless.replay.edits.evening import evened_keep

_EXCHANGE = "comm."
_MIN_REMAINING = 0.05  # of the step
_ONE_RANK_NOTE = "windows show only one rank: another may be the one that decides"


def is_joint(evidence: Evidence) -> bool:
    """Return whether several ranks make the steps, even if windows show only one of them."""
    return bool(find_ranks(evidence)) or evidence.facts.world.ranks > 1


def cap_by_joint(prediction: Prediction, joint_speedup: Estimate | None) -> Prediction:
    """Return what a loader's queue gives: no more than if no rank waited for data at all.

    ``joint_speedup``: that of the ranks' windows; ``None``: they are not replayed, and no gain is
    certain.
    """
    speedup = prediction.speedup
    if speedup is None:
        return prediction
    if joint_speedup is None:
        return _make_unsure(prediction, speedup)
    mid = min(speedup.mid, joint_speedup.mid)
    high = min(speedup.high, joint_speedup.high)
    return replace(prediction, speedup=Estimate(min(speedup.low, mid), mid, max(mid, high)))


def is_sampled_exchange(change: Change) -> bool:
    """Return whether samples of all ranks show what a change takes from their exchanges."""
    return isinstance(change, HostChange) and change.sampled and _EXCHANGE in change.leaves


def qualify_one_rank(prediction: Prediction) -> Prediction:
    """Return what one rank's account tells: of the step of all ranks no gain is certain."""
    if prediction.speedup is None:
        return prediction
    notes = (*prediction.notes, _ONE_RANK_NOTE)
    return replace(_make_unsure(prediction, prediction.speedup), notes=notes)


def _make_unsure(prediction: Prediction, speedup: Estimate) -> Prediction:
    return replace(prediction, speedup=replace(speedup, low=min(1.0, speedup.low)))


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


def raise_by_samples(
    evidence: Evidence, detection: Detection, prediction: Prediction
) -> Prediction:
    """Return the price of evening out a rank: at least what samples of the whole run show.

    They show functions in which it alone stands: without these another rank decides, as far as the
    few steps of windows tell that; where they leave less to gain, the middle of both counts. Only
    without a device: for that a host may wait.
    """
    ranks, speedup = find_ranks(evidence), prediction.speedup
    late = next((rank for rank in ranks if rank.rank == detection.rank), None)
    keep = evened_keep(detection.changes)
    if late is None or keep is None or speedup is None or evidence.on_device:
        return prediction
    sampled = rank_waits.find_own_share(evidence, late.rank)
    others_ns = [float(rank.own_lengths.mean()) for rank in ranks if rank is not late]
    open_share = 1 - max(others_ns) / float(late.lengths.mean())
    low_share, share = ((1 - keep) * removed_share for removed_share in (sampled.low, sampled.mid))
    low, mid = (
        1 / max(1 - removed_share, _MIN_REMAINING)
        for removed_share in (min(low_share, open_share), min(share, (share + open_share) / 2))
    )
    raised = Estimate(max(speedup.low, low), max(speedup.mid, mid), max(speedup.high, mid))
    return replace(prediction, speedup=raised)
