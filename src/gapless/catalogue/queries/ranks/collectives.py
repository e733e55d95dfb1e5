"""Queries on the collectives of a step: how many there are of each kind, and what they take."""

from collections.abc import Sequence
from math import ceil
from typing import Final

import numpy as np
from msgspec.structs import astuple

from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_steps import RANK_WAITS
from gapless.model.change import Change, HostChange, Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine
from gapless.model.leaf import DEVICE_WORK
from gapless.model.tables import CollectiveRow

SEND_CALL: Final = "c10d::send"
TRANSFER_LEAF: Final = "comm.exposed"
ISSUE_LEAVES: Final = "idle.comm."
_CALLS: Final = "c10d::*"
# Of exchanges between GPUs that DistributedDataParallel carries out beside the backward pass.
UNHIDDEN: Final = Estimate(0.5, 0.7, 1.0)
_MIN_SIZE_RATIO: Final = 4.0  # of the largest to the smallest reduction, to part α from β
MAX_SMALL_BYTES: Final = 2**18  # of a call: gloo carries them within a part of its latency
_NUMBER_BYTES: Final = 4  # of a number
MIB: Final = 2**20
FIRST_BUCKET_MIB: Final = 1.0  # of DistributedDataParallel, if no size is asked for
BUCKET_MIB: Final = 25.0  # of those behind it
_UNKNOWN_HALF: Final = 0.75  # of the time: between the two bounds
_WRAPPER_FILE: Final = "torch/distributed/c10d_logger.py"
BY_NAME: Final = (_WRAPPER_FILE, "torch/distributed/distributed_c10d.py")
BY_AUTOGRAD: Final = ("torch/distributed/nn/functional.py",)
_ALL_LEAVES: Final = ("busy.", "comm.", "copy.", "idle.", "step")
_DEVICE_TIME: Final = (*DEVICE_WORK, "idle.sync")  # work, and waits of the host for it
_MIN_KEPT_SHARE: Final = 0.05  # of the step: something remains
_UNEXCHANGED: Final = (SEND_CALL, "c10d::recv_*")


def count_collectives(evidence: Evidence) -> float:
    """Count the collectives of a step of one rank. Raises ``NotObservedError`` without windows."""
    all_calls = windows.sum_calls(evidence, _CALLS).count
    return all_calls - windows.sum_calls(evidence, *_UNEXCHANGED).count


def exposed_ns(evidence: Evidence) -> float:
    """Return what every rank spends on transfers that nothing hides, and on starting them, in ns.

    Waits for a late rank are another cause.
    """
    return rank_waits.min_rank_ns(evidence, TRANSFER_LEAF) + rank_waits.min_rank_ns(
        evidence, ISSUE_LEAVES
    )


def change_exposed(evidence: Evidence, remaining: Estimate) -> Change:
    """Return the change that leaves so much of the collectives that nothing hides."""
    if evidence.on_device:
        return Scale(remaining, leaves=(TRANSFER_LEAF,))
    return HostChange((TRANSFER_LEAF, ISSUE_LEAVES), remaining)


def find_call(evidence: Evidence) -> CallLine | None:
    """Return the call of a collective that was sampled most; ``None``: in none."""
    calls = (
        call for call in evidence.call_lines if call.callee_file.endswith(BY_NAME + BY_AUTOGRAD)
    )
    return max(calls, key=lambda call: call.share, default=None)


def find_calling_line(evidence: Evidence) -> Location | None:
    """Return the line that was sampled most in a call of a collective; ``None``: in none."""
    call = find_call(evidence)
    return call and Location(call.file, call.line, call.function)


def sampled_share(
    evidence: Evidence,
    files: tuple[str, ...],
    operations: tuple[str, ...],
    part: Estimate,
    n_after: float,
) -> Estimate | None:
    """Return the share of the run that every rank was sampled in its calls of some collectives.

    Less its waits for others, as far as they move to one of the ``n_after`` collectives of a step
    that remain: by chance ranks wait for one another in turn, and such waits grow with the root of
    how often they meet. ``files``: the ends of the
    names of those that define what is called; ``operations``: the functions meant; ``part``: of
    all, where only their common wrapper is known. ``None`` where ranks were not sampled. For a
    device the host does not wait: what it takes to start them, as far as ranks neither work nor
    wait on their devices.
    """
    calls = [
        call
        for call in evidence.call_lines
        if call.callee_file.endswith(files)
        and (_is_in_wrapper(call) or call.callee.rpartition(".")[2] in operations)
    ]
    sampled = _sample_calls(evidence, calls)
    if sampled is None or not evidence.step_ns:
        return None
    parts = astuple(part) if any(map(_is_in_wrapper, calls)) else (1.0, 1.0, 1.0)
    if evidence.on_device:
        taken_share = evidence.share(*_DEVICE_TIME) - evidence.share(*RANK_WAITS)
        shares = [min(bound, max(0.0, 1 - taken_share)) for bound in astuple(sampled)]
    else:
        kept_meetings = min(1.0, max(1.0, n_after) / max(1.0, count_collectives(evidence)))
        waited_ns = kept_meetings**0.5 * rank_waits.min_rank_ns(evidence, *RANK_WAITS)
        waited_share = waited_ns / evidence.step_ns
        shares = [max(0.0, bound - waited_share) for bound in astuple(sampled)]
    return Estimate(*(factor * share for factor, share in zip(parts, shares, strict=True)))


def _sample_calls(evidence: Evidence, calls: Sequence[CallLine]) -> Estimate | None:
    """Return the share of the run that every rank was sampled at the lines of some calls."""
    lines_by_rank = evidence.recorded.rank_lines
    if len(lines_by_rank) < evidence.facts.world.ranks:
        return None
    places = {(call.file, call.line) for call in calls}
    called_lines = [
        [line for line in lines if line.thread == "training" and (line.file, line.line) in places]
        for lines in lines_by_rank.values()
    ]
    share, count = min(
        (sum(line.share for line in lines), sum(line.count for line in lines))
        for lines in called_lines
    )
    return samples.estimate_share(share, max(1, round(count / share))) if share else None


def _is_in_wrapper(call: CallLine) -> bool:
    """Return whether all that is known of a call is the wrapper that all collectives have."""
    return call.callee_file.endswith(_WRAPPER_FILE)


def change_called(evidence: Evidence, remaining: Estimate, sampled: Estimate | None) -> Change:
    """Return the change that leaves so much of collectives that lines of the user's call.

    As windows show it at least, and as goes of the share of the run that is sampled there if that
    is more: ``sampled``, if it is known.
    """
    if sampled is None or not evidence.step_ns:
        return change_exposed(evidence, remaining)
    exposed_share = exposed_ns(evidence) / evidence.step_ns
    low, mid, high = (exposed_share * gone for gone in astuple(gone_share(remaining)))
    if sampled.mid <= mid:
        return change_exposed(evidence, remaining)
    if evidence.on_device:  # hosts wait for no rank there
        low = max(low, sampled.low)
    return change_joint_step(Estimate(low, sampled.mid, max(sampled.high, high)))


def gone_share(remaining: Estimate) -> Estimate:
    """Return what goes where so much remains."""
    return Estimate(*(1 - kept for kept in reversed(astuple(remaining))))


def change_joint_step(lost_share: Estimate) -> HostChange:
    """Return the change that takes shares of a step from all ranks, known of the whole run."""
    kept_shares = (max(_MIN_KEPT_SHARE, 1 - share) for share in reversed(astuple(lost_share)))
    return HostChange(_ALL_LEAVES, Estimate(*kept_shares), sampled=True)


def gradient_bytes(evidence: Evidence) -> int:
    """Return how many bytes all gradients have; 0 where no optimizer's numbers were counted."""
    return _NUMBER_BYTES * sum(row.parameters or 0 for row in evidence.facts.optimizers)


def count_usual_buckets(n_bytes: float) -> int:
    """Return how many buckets DistributedDataParallel makes of gradients by itself."""
    return 1 + ceil(max(0.0, n_bytes / MIB - FIRST_BUCKET_MIB) / BUCKET_MIB)


def remains_of_fewer(evidence: Evidence, n_calls: float, n_after: float) -> Estimate | None:
    """Return what remains of exchanges of the same bytes in fewer calls; ``None``: not known.

    A call takes α + β × bytes: only the first is taken less often. On a device both are fitted to
    the collectives of the run. On a host sizes are not recorded: calls of few bytes are all α, or
    half of it at least.
    """
    kept_share = min(1.0, n_after / n_calls) if n_calls else 1.0
    if evidence.on_device:
        bytes_share = _bytes_share(_select_reductions(evidence))
        if bytes_share is None:
            return None
        remaining = bytes_share + (1 - bytes_share) * kept_share
        return Estimate(kept_share * remaining, remaining, 1.0)
    n_bytes = gradient_bytes(evidence)
    if not n_bytes or n_bytes > MAX_SMALL_BYTES * n_calls:
        return None
    return Estimate(0.0, kept_share, (1 + kept_share) / 2)


def remains_at_speed(evidence: Evidence, ratio: float) -> Estimate:
    """Return what remains of exchanges over links so many times as fast.

    What grows with their bytes takes less, as far as that is fitted to their sizes; else from all
    of it to none.
    """
    bytes_share = _bytes_share(_select_reductions(evidence))
    gone_share = (0.5 if bytes_share is None else bytes_share) * (1 - 1 / ratio)
    return Estimate(1 / ratio, 1 - gone_share, 1 - gone_share / 2)


def factor_of_half(evidence: Evidence) -> Estimate | None:
    """Return the factor of the time of reductions of half as many bytes; ``None``: sizes unknown.

    A reduction takes α + β × bytes: fitted to those of the run where their sizes differ enough.
    Otherwise no more is known than that it takes from half of the time to all of it.
    """
    rows = _select_reductions(evidence)
    if not rows:
        return None
    bytes_share = _bytes_share(rows)
    middle = _UNKNOWN_HALF if bytes_share is None else max(0.5, 1 - bytes_share / 2)
    return Estimate(0.5, middle, (1 + middle) / 2)


def _select_reductions(evidence: Evidence) -> list[CollectiveRow]:
    return [
        row
        for row in evidence.study.tables.collectives
        if row.bytes and "reduce" in row.name.lower()
    ]


def _bytes_share(rows: Sequence[CollectiveRow]) -> float | None:
    """Return the share of reductions' time that grows with bytes; ``None``: sizes are too alike."""
    sizes = np.array([row.bytes or 0 for row in rows], float)
    counts = np.array([row.calls for row in rows], float)
    times_ns = np.array([row.device_ns for row in rows], float) / counts
    if not len(rows) or sizes.max() < _MIN_SIZE_RATIO * sizes.min() or not times_ns.any():
        return None
    slope = max(0.0, float(np.polyfit(sizes, times_ns, 1, w=np.sqrt(counts))[0]))
    return min(1.0, slope * float(sizes @ counts) / float(times_ns @ counts))
