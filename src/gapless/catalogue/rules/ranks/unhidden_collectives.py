"""Gradients that are exchanged one by one after the backward pass."""

from math import ceil
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import Bucket
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_REDUCE_CALL: Final = "c10d::allreduce_"
_TRANSFER_LEAF: Final = "comm.exposed"
_ISSUE_LEAVES: Final = "idle.comm."
_MIN_STEP_SHARE: Final = 0.05  # of the step
_MIN_CALLS: Final = 4  # a step: buckets need no more
_MAX_HIDDEN_SHARE: Final = 0.1  # of their time on the device: above it, they overlap
_MIN_RATIO: Final = 0.9  # of the parameters
_BUCKET_BYTES: Final = 25 * 2**20  # of DistributedDataParallel; its first bucket is small
_NUMBER_BYTES: Final = 4  # of a number
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
    operator(_REDUCE_CALL, calls=2 * 161, host_ms=12)
    # DistributedDataParallel reduces buckets beside the backward pass
    cpu(the_world, ddp())
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(_REDUCE_CALL, calls=9, host_ms=1)
    # All gradients in a single call
    cpu(the_world, optimizer(tensors=161))
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(_REDUCE_CALL, calls=1, host_ms=1)
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
    account: transfers that no computation overlaps, and the host's time to start them. What
    the backward pass would hide of it is not foretold: a trial shows it.
    """
    is_wrapped = any(module.kind in _WRAPPER_KINDS for module in evidence.facts.parallel)
    if world.ranks < 2 or is_wrapped:  # noqa: PLR2004 - no other rank
        return None
    n_calls, step_ns = windows.sum_calls(evidence, _REDUCE_CALL).count, evidence.step_ns
    exposed_ns = rank_waits.min_rank_ns(evidence, _TRANSFER_LEAF)
    lost_ns = exposed_ns + rank_waits.min_rank_ns(evidence, _ISSUE_LEAVES)
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
    n_bytes = _gradient_bytes(evidence)
    return unhidden_collectives.detection(
        f"Gradients are reduced over {world.ranks} ranks by {windows.format_count(n_calls)} calls "
        f"a step{match} and nothing is computed meanwhile: that takes "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Bucket(1 + ceil(n_bytes / _BUCKET_BYTES)),
        location=windows.find_calling_function(evidence, _REDUCE_CALL, "c10d::*"),
        measures=(
            Measure("calls of all_reduce, a step", n_calls, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "DistributedDataParallel reduces gradients in buckets while the backward pass runs; by "
            "hand: flatten them into one tensor, and reduce that by a single call"
        ),
    )


def _gradient_bytes(evidence: Evidence) -> int:
    """Return how many bytes all gradients have; 0 where no optimizer's numbers were counted."""
    counts = [optimizer.parameters or 0 for optimizer in evidence.facts.optimizers]
    return sum(counts) * _NUMBER_BYTES


def _hidden_share(evidence: Evidence) -> float:
    """Return the share of the collectives' time that overlaps other work of the device."""
    rows = evidence.study.tables.collectives
    total_ns = sum(row.exposed_ns + row.hidden_ns for row in rows)
    return sum(row.hidden_ns for row in rows) / total_ns if total_ns else 0.0
