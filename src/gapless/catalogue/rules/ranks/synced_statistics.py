"""Collectives within the forward pass: statistics of batches over all ranks."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

# Functions of autograd that exchange in the forward pass; backward they call themselves once more.
_FUNCTIONS: Final = ("_AllReduce", "_AllGather", "_AllGatherBase")
_OPERATIONS: Final = ("all_reduce", "all_gather", "_all_gather_base")
_NORM: Final = "SyncBatchNorm"  # exchanges in its own way backward
_MIN_CALLS: Final = 2.0  # a step
_MIN_STEP_SHARE: Final = 0.05  # of the step
_SPREAD: Final = 0.25  # of the part that goes: calls are not all alike


@rule(
    "G606",
    "synced-statistics",
    figures="""
    the_world = world(ranks=2)
    # A norm over all ranks in each of ten layers
    > 10 times a step a forward pass waits for all ranks, and 10 times the backward pass: these are
      20 of 22 collectives, and what no computing hides of all takes 11.0 ms of each 40.0 ms step.
    cpu(the_world, ddp())
    rank busy.math 29, comm.exposed 8, idle.comm.host 3
    rank busy.math 29, comm.exposed 8, idle.comm.host 3
    operator("_AllReduce", calls=2 * 20, host_ms=3)
    operator("_AllReduceBackward", calls=2 * 10, host_ms=3)
    operator(REDUCE_CALL, calls=2 * 22, host_ms=3)
    # One sum over all ranks: the loss
    cpu(the_world, ddp())
    rank busy.math 29, comm.exposed 11
    rank busy.math 29, comm.exposed 11
    operator("_AllReduce", calls=2, host_ms=3)
    operator(REDUCE_CALL, calls=2 * 3, host_ms=3)
    """,
)
def synced_statistics(evidence: Evidence, world: World) -> Detection | None:
    """Recognise collectives in the forward pass that each layer waits for.

    ## Why it costs time
    A synchronised batch norm needs the mean and the variance of all ranks' batches before it can go
    on. Each layer exchanges a few numbers then, twice a step: nothing is computed meanwhile, and
    every rank waits for the last one in each layer.

    ## How it is measured
    By the calls of ``SyncBatchNorm`` and of differentiable collectives in windows, and by the
    account: the transfers that no computing hides, and the host's time to start them, in proportion
    to their part of all collectives of a step; without a device, of the time that these take, and
    what samples of the whole run show at the lines of differentiable collectives, if that is more.
    """
    if world.ranks < 2:  # noqa: PLR2004 - no other rank
        return None
    n_again = windows.sum_calls(evidence, *(f"{name}Backward" for name in _FUNCTIONS)).count
    n_forward = windows.sum_calls(evidence, _NORM, *_FUNCTIONS).count - n_again
    n_backward = n_again + windows.sum_calls(evidence, f"{_NORM}Backward").count
    n_all, step_ns = collectives.count_collectives(evidence), evidence.step_ns
    share = min(1.0, (n_forward + n_backward) / n_all) if n_all else 0.0
    lost_ns = collectives.exposed_ns(evidence)
    if n_forward < _MIN_CALLS or not step_ns or share * lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    count = windows.format_count
    return synced_statistics.detection(
        f"{count(n_forward)} times a step a forward pass waits for all ranks, and "
        f"{count(n_backward)} times the backward pass: these are {count(n_forward + n_backward)} "
        f"of {count(n_all)} collectives, and what no computing hides of all takes "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        collectives.change_called(
            evidence,
            _estimate_remaining(evidence, share),
            _sampled_share(evidence, n_forward, n_backward, n_all),
        ),
        location=windows.find_calling_function(evidence, _NORM, *_FUNCTIONS)
        or collectives.find_calling_line(evidence),
        measures=(
            Measure("collectives of the forward pass, a step", n_forward, ""),
            Measure("collectives, a step", n_all, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "take the statistics of each rank's own batch, if it is large enough, or a norm that "
            "needs no batch (group or layer norm): that is another training; or exchange those of "
            "several layers in one call"
        ),
    )


def _sampled_share(
    evidence: Evidence, n_forward: float, n_backward: float, n_all: float
) -> Estimate | None:
    """Return the share of the run in these collectives: forward as sampled, backward as many."""
    n_after, ratio = n_all - n_forward - n_backward, 1 + n_backward / n_forward
    sampled = collectives.sampled_share(
        evidence, collectives.BY_AUTOGRAD, _OPERATIONS, Estimate(1.0, 1.0, 1.0), n_after
    )
    if sampled is None:
        return None
    both_share = ratio * sampled.mid
    return Estimate(sampled.low, both_share, both_share + sampled.high - sampled.mid)


def _estimate_remaining(evidence: Evidence, count_share: float) -> Estimate:
    """Return what remains of exposed collectives without these: a host's calls wait for them."""
    if evidence.on_device:
        return Estimate(1 - count_share, 1 - count_share, 1 - (1 - _SPREAD) * count_share)
    leaves = (collectives.TRANSFER_LEAF, collectives.ISSUE_LEAVES)
    rows = evidence.study.account.leaves.items()  # of windows, as what calls take
    lost_ns = sum(ns for leaf, ns in rows if leaf.startswith(leaves))
    calls_ns = windows.sum_calls(evidence, *_FUNCTIONS).host_ns * windows.count_steps(evidence)
    share = max(count_share, min(1.0, calls_ns / lost_ns) if lost_ns else 0.0)
    return Estimate(1 - share, 1 - share, 1 - count_share)
