"""Gradients that are exchanged one by one after the backward pass."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import Bucket
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.05  # of the step
_MIN_CALLS: Final = 4  # a step: buckets need no more
_MAX_HIDDEN_SHARE: Final = 0.1  # of their time on the device: above it, they overlap
_MIN_RATIO: Final = 0.9  # of the parameters
_OPERATIONS: Final = ("all_reduce", "all_reduce_coalesced")
_WRAPPER_KINDS: Final = ("ddp", "fsdp")


@rule(
    "G603",
    "unhidden-collectives",
    figures="""
    the_world = world(ranks=2)
    # for p in model.parameters(): dist.all_reduce(p.grad)
    > Gradients are reduced over 2 ranks by 161 calls a step, one for each parameter, and nothing is
      computed meanwhile: that takes 40.0 ms of each 64.0 ms step.
    cpu(the_world, optimizer(tensors=161))
    rank busy.math 24, comm.exposed 34, idle.comm.host 6
    rank busy.math 24, comm.exposed 34, idle.comm.host 6
    operator(collectives.REDUCE_CALL, calls=2 * 161, host_ms=12)
    # DistributedDataParallel reduces buckets beside the backward pass
    cpu(the_world, ddp())
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(collectives.REDUCE_CALL, calls=9, host_ms=1)
    # All gradients in a single call
    cpu(the_world, optimizer(tensors=161))
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(collectives.REDUCE_CALL, calls=1, host_ms=1)
    """,
)
def unhidden_collectives(evidence: Evidence, world: World) -> Detection | None:
    """Recognise gradients that are reduced by many calls that nothing overlaps.

    ## Why it costs time
    Each call has a latency of its own, whatever its size, and synchronises the ranks. The gradients
    of the last layers are ready while the backward pass still runs: reducing them then costs next
    to nothing. ``DistributedDataParallel`` does so, in buckets of 25 MB.

    ## How it is measured
    By the calls of ``all_reduce`` in a step without ``DistributedDataParallel``, and by the
    account: transfers that no computation overlaps, and the host's time to start them. Few calls
    save the latency of each, which is fitted to the sizes of exchanges; where these are not known,
    or larger than 256 KiB without a device, nothing is foretold. Without a device, calls take what
    samples of the whole run show at their lines, on every rank, if that is more; waits for a late
    rank stay. Of the transfers between GPUs the backward pass hid a quarter to a third in three
    trainings; without a device, none is counted on.
    """
    is_wrapped = any(module.kind in _WRAPPER_KINDS for module in evidence.facts.parallel)
    if world.ranks < 2 or is_wrapped:  # noqa: PLR2004 - no other rank
        return None
    n_calls, step_ns = windows.sum_calls(evidence, collectives.REDUCE_CALL).count, evidence.step_ns
    lost_ns = collectives.exposed_ns(evidence)
    if (
        n_calls < _MIN_CALLS
        or not step_ns
        or lost_ns < _MIN_STEP_SHARE * step_ns
        or _hidden_share(evidence) > _MAX_HIDDEN_SHARE
    ):
        return None
    n_parameters = optimizer_steps.count_tensors(evidence)
    match = (
        ", one for each parameter,"
        if n_parameters and _MIN_RATIO * n_parameters <= n_calls <= n_parameters / _MIN_RATIO
        else ""
    )
    n_buckets = collectives.count_usual_buckets(collectives.gradient_bytes(evidence))
    remaining = collectives.remains_of_fewer(evidence, n_calls, n_buckets)
    return unhidden_collectives.detection(
        f"Gradients are reduced over {world.ranks} ranks by {windows.format_count(n_calls)} calls "
        f"a step{match} and nothing is computed meanwhile: that takes "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Bucket(n_buckets)
        if remaining is None
        else collectives.change_called(
            evidence,
            _hide_part(evidence, remaining),
            _sampled_share(evidence, remaining, n_buckets),
        ),
        location=windows.find_calling_function(evidence, collectives.REDUCE_CALL, "c10d::*")
        or collectives.find_calling_line(evidence),
        measures=(
            Measure("calls of all_reduce, a step", n_calls, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "DistributedDataParallel reduces gradients in buckets while the backward pass runs; by "
            "hand: flatten them into one tensor, and reduce that by a single call"
        ),
    )


def _sampled_share(evidence: Evidence, remaining: Estimate, n_buckets: int) -> Estimate | None:
    """Return the share of the run in the latency that fewer calls save, by samples of the calls."""
    n_calls = windows.sum_calls(evidence, collectives.REDUCE_CALL).count
    n_all = collectives.count_collectives(evidence)
    share, n_after = min(1.0, n_calls / n_all), n_all - n_calls + n_buckets
    sampled = collectives.sampled_share(
        evidence, collectives.BY_NAME, _OPERATIONS, Estimate(share, share, share), n_after
    )
    if sampled is None:
        return None
    return Estimate(
        sampled.low * (1 - remaining.high),
        sampled.mid * (1 - remaining.mid),
        sampled.high * (1 - remaining.low),
    )


def _hide_part(evidence: Evidence, remaining: Estimate) -> Estimate:
    """Return what remains of exchanges that begin during the backward pass."""
    if not evidence.on_device:
        return remaining
    mid = collectives.UNHIDDEN.mid * remaining.mid
    return Estimate(min(mid, collectives.UNHIDDEN.low * remaining.low), mid, remaining.high)


def _hidden_share(evidence: Evidence) -> float:
    """Return the share of the collectives' time that overlaps other work of the device."""
    rows = evidence.study.tables.collectives
    total_ns = sum(row.exposed_ns + row.hidden_ns for row in rows)
    return sum(row.hidden_ns for row in rows) / total_ns if total_ns else 0.0
