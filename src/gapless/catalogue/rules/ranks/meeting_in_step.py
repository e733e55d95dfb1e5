"""Barriers and gathered objects in each step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import ZERO_FACTOR, Change
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_BARRIER: Final = "c10d::barrier"
_GATHER: Final = "c10d::allgather_"  # of tensors in a list: what objects are sent as
_OPERATIONS: Final = (
    "barrier",
    "monitored_barrier",
    "all_gather",
    "all_gather_object",
)
_MIN_CALLS: Final = 0.9  # a step
_MIN_STEP_SHARE: Final = 0.02  # of the step
_MARKS: Final = ("gloo:", "nccl:")  # of transfers, on the threads that carry them out
_MEETING_KINDS: Final = ("barrier", "all_gather")
_WRAPPED: Final = "ddp"  # which exchanges gradients without a call of the user's
_SHARDED: Final = "fsdp"


@rule(
    "G607",
    "meeting-in-step",
    figures="""
    the_world = world(ranks=2)
    # dist.all_gather_object(losses, loss), dist.barrier()
    > Ranks meet 3 times a step besides exchanging gradients, in 1 barrier and 2 gatherings: 3 of 4
      collectives, and what no computing hides of all takes 4.0 ms of each 40.0 ms step.
    cpu(the_world, ddp())
    rank busy.math 36, comm.exposed 3, idle.comm.host 1
    rank busy.math 36, comm.exposed 3, idle.comm.host 1
    operator(_BARRIER, calls=2, host_ms=1), operator(_GATHER, calls=2 * 2, host_ms=1)
    operator(REDUCE_CALL, calls=2, host_ms=1)
    # Samples of the whole run, at the line that calls them
    > Ranks meet 3 times a step besides exchanging gradients, in 1 barrier and 2 gatherings: 3 of 4
      collectives, and what no computing hides of all takes 4.0 ms of each 40.0 ms step.
    with_rank_lines(evidence_of_ranks(cpu(the_world, ddp()), {"busy.math": 36, "comm.exposed": 4},
      {"busy.math": 36, "comm.exposed": 4}, parts=(operator(_BARRIER, calls=2, host_ms=1),
      operator(_GATHER, calls=4, host_ms=1), operator(REDUCE_CALL, calls=2, host_ms=1),
      CallLine("train.py", 77, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.1))),
      (hot_line(77, 0.1),), (hot_line(77, 0.12),))
    # A group of one process, whose gradients are reduced one by one
    > Collectives of a group of one process exchange nothing; there are 132 in each step: 4.0 ms of
      each 40.0 ms step.
    cpu(world(ranks=1))
    busy.math 36, comm.exposed 1, idle.comm.host 3
    operator(REDUCE_CALL, calls=132, host_ms=3)
    # Objects that one process gathers: pickling them is no collective, and goes with them
    > Collectives of a group of one process exchange nothing; there are 132 in each step: 16.0 ms of
      each 40.0 ms step.
    cpu(world(ranks=1))
    busy.math 36, comm.exposed 1, idle.comm.host 3
    operator(REDUCE_CALL, calls=132, host_ms=3)
    CallLine("train.py", 30, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.4)
    HotLine("training", "train.py", 30, "train", 80, 0.4)
    # A checkpoint of one process is no collective
    > Collectives of a group of one process exchange nothing; there are 2 in each step: 1.0 ms of
      each 40.0 ms step.
    cpu(world(ranks=1))
    busy.math 30, comm.exposed 1, idle.host.python 9
    operator(REDUCE_CALL, calls=2, host_ms=1)
    CallLine("train.py", 70, "save", "torch/distributed/checkpoint/saver.py", "save", 0.2)
    HotLine("training", "train.py", 70, "save", 400, 0.2)
    # A barrier now and then
    cpu(the_world, ddp())
    rank busy.math 36, comm.exposed 4
    rank busy.math 36, comm.exposed 4
    operator(_BARRIER, calls=0.1, host_ms=1)
    operator(REDUCE_CALL, calls=2, host_ms=1)
    """,
)
def meeting_in_step(evidence: Evidence, world: World) -> Detection | None:
    """Recognise barriers, and objects that are gathered, in each step; and groups of one process.

    ## Why it costs time
    A barrier makes every rank wait for the last one; the next collective does so anyway. Objects
    are pickled, their sizes gathered, then their bytes: two collectives that nothing hides, for a
    number that is printed. In a group of one process every collective leaves things as they are.

    ## How it is measured
    By the barriers and gatherings of a step in windows, as their part of all collectives, counted
    and by the time that transfers take, and by the account: transfers that no computing hides, and
    the host's time to start them. Without a device, beside DistributedDataParallel, they take what
    samples of the whole run show at the lines that call them, on every rank, if that is more: their
    part of it, where lines may call other collectives. Waits for a
    late rank are another cause: they move to the next collective. In a group of one process,
    samples of the line that calls them tell what goes, too.
    """
    if world.ranks < 2:  # noqa: PLR2004
        return _lone_detection(evidence)
    if any(module.kind == _SHARDED for module in evidence.facts.parallel):
        return None
    is_wrapped = any(module.kind == _WRAPPED for module in evidence.facts.parallel)
    n_barriers = windows.sum_calls(evidence, _BARRIER).count
    n_gatherings = windows.sum_calls(evidence, _GATHER).count
    n_met, n_all = n_barriers + n_gatherings, collectives.count_collectives(evidence)
    share, step_ns = min(1.0, n_met / n_all) if n_all else 0.0, evidence.step_ns
    lost_ns = collectives.exposed_ns(evidence)
    if n_met < _MIN_CALLS or not step_ns or share * lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    count = windows.format_count
    barriers = f"{count(n_barriers)} barrier{'' if round(n_barriers) == 1 else 's'}"
    gatherings = f"{count(n_gatherings)} gathering{'' if round(n_gatherings) == 1 else 's'}"
    kinds = " and ".join(
        words for words, n in ((barriers, n_barriers), (gatherings, n_gatherings)) if n
    )
    return meeting_in_step.detection(
        f"Ranks meet {count(n_met)} times a step besides exchanging gradients, in {kinds}: "
        f"{count(n_met)} of {count(n_all)} collectives, and what no computing hides of all takes "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        collectives.change_called(
            evidence,
            _estimate_remaining(evidence, share),
            _sampled_share(evidence, n_all - n_met, share) if is_wrapped else None,
        ),
        location=windows.find_calling_function(evidence, _BARRIER, _GATHER)
        or collectives.find_calling_line(evidence),
        measures=(
            Measure("barriers, a step", n_barriers, ""),
            Measure("gatherings, a step", n_gatherings, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "leave the barrier out: collectives synchronise by themselves; gather figures every "
            "hundredth step, as one tensor, not as objects"
        ),
    )


def _lone_detection(evidence: Evidence) -> Detection | None:
    """Return the detection that a group of one process exchanges something with itself."""
    n_all, step_ns = collectives.count_collectives(evidence), evidence.step_ns
    lost_ns = collectives.exposed_ns(evidence)
    call = collectives.find_call(evidence)
    if n_all < _MIN_CALLS or not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    change: Change = collectives.change_exposed(evidence, ZERO_FACTOR)
    sampled_share = samples.estimate_call_share(evidence, call)
    if not evidence.on_device and sampled_share.mid * step_ns > lost_ns:
        # Pickling, copies into lists, checks: no collective, and all that the line calls.
        low_share = max(sampled_share.low, lost_ns / step_ns)
        lost_ns = sampled_share.mid * step_ns
        change = collectives.change_joint_step(
            Estimate(low_share, sampled_share.mid, sampled_share.high)
        )
    return meeting_in_step.detection(
        "Collectives of a group of one process exchange nothing; there are "
        f"{windows.format_count(n_all)} in each step: "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        change,
        location=collectives.find_calling_line(evidence),
        measures=(
            Measure("collectives, a step", n_all, ""),
            Measure("they take, a step", lost_ns, "ns"),
        ),
        no_remedy="make no group, and wrap no model, where there is one process only",
    )


def _sampled_share(evidence: Evidence, n_others: float, count_share: float) -> Estimate | None:
    """Return the share of the run in barriers and gatherings, by samples of the lines that call.

    The wrapper calls one collective of a step, at least: what is more may be called by lines, too.
    """
    part = collectives.gone_share(_estimate_remaining(evidence, count_share))
    part = Estimate(1.0, 1.0, 1.0) if n_others <= 1 / _MIN_CALLS else part
    return collectives.sampled_share(evidence, collectives.BY_NAME, _OPERATIONS, part, n_others)


def _estimate_remaining(evidence: Evidence, count_share: float) -> Estimate:
    """Return what remains of exposed collectives without these: by their time and their number."""
    all_ns, met_ns = (
        windows.sum_calls(
            evidence, *(f"{mark}{kind}*" for mark in _MARKS for kind in kinds)
        ).host_ns
        for kinds in (("",), _MEETING_KINDS)
    )
    shares = sorted((count_share, met_ns / all_ns if all_ns else count_share))
    return Estimate(1 - shares[1], 1 - sum(shares) / 2, 1 - shares[0])
