"""Barriers and gathered objects in each step."""

from typing import Final

from msgspec.structs import astuple

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives
from gapless.model.change import ZERO_FACTOR, Change, HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_BARRIER: Final = "c10d::barrier"
_GATHER: Final = "c10d::allgather_"  # of tensors in a list: what objects are sent as
_MIN_CALLS: Final = 0.9  # a step
_MIN_STEP_SHARE: Final = 0.02  # of the step
_MARKS: Final = ("gloo:", "nccl:")  # of transfers, on the threads that carry them out
_MET: Final = ("barrier", "all_gather")
_FOLDER: Final = "torch/distributed/"  # where they are called; modules' forward is elsewhere
_WRAPPED: Final = "ddp"  # which exchanges gradients without a call of the user's
_STANDARD_ERRORS: Final = 1.64  # ends of a 90 % interval
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
    operator(collectives.REDUCE_CALL, calls=2, host_ms=1)
    # Samples of the whole run, at the line that calls them
    > Ranks meet 3 times a step besides exchanging gradients, in 1 barrier and 2 gatherings: 3 of 4
      collectives, and what no computing hides of all takes 4.0 ms of each 40.0 ms step.
    with_rank_lines(evidence_of_ranks(cpu(the_world, ddp()), {"busy.math": 36, "comm.exposed": 4},
      {"busy.math": 36, "comm.exposed": 4}, parts=(operator(_BARRIER, calls=2, host_ms=1),
      operator(_GATHER, calls=4, host_ms=1), operator(collectives.REDUCE_CALL, calls=2, host_ms=1),
      CallLine("train.py", 77, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.1))),
      (hot_line(77, 0.1),), (hot_line(77, 0.12),))
    # A group of one process, whose gradients are reduced one by one
    > Collectives of a group of one process exchange nothing; there are 132 in each step: 4.0 ms of
      each 40.0 ms step.
    cpu(world(ranks=1))
    busy.math 36, comm.exposed 1, idle.comm.host 3
    operator(collectives.REDUCE_CALL, calls=132, host_ms=3)
    # A barrier now and then
    cpu(the_world, ddp())
    rank busy.math 36, comm.exposed 4
    rank busy.math 36, comm.exposed 4
    operator(_BARRIER, calls=0.1, host_ms=1)
    operator(collectives.REDUCE_CALL, calls=2, host_ms=1)
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
    the host's time to start them. Without a device, beside DistributedDataParallel, they take at
    least what samples of the whole run show at the lines that call them, on every rank. Waits for a late rank are another cause: they move to the next
    collective.
    """
    if world.ranks < 2:  # noqa: PLR2004
        return _lone_detection(evidence)
    if any(module.kind == _SHARDED for module in evidence.facts.parallel):
        return None
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
        _change(evidence, _estimate_remaining(evidence, share)),
        location=windows.find_calling_function(evidence, _BARRIER, _GATHER)
        or _calling_line(evidence),
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
    if n_all < _MIN_CALLS or not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    return meeting_in_step.detection(
        "Collectives of a group of one process exchange nothing; there are "
        f"{windows.format_count(n_all)} in each step: "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        collectives.change_exposed(evidence, ZERO_FACTOR),
        location=_calling_line(evidence),
        measures=(
            Measure("collectives, a step", n_all, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy="make no group, and wrap no model, where there is one process only",
    )


def _calling_line(evidence: Evidence) -> Location | None:
    """Return the line that was sampled most in a call that makes ranks meet."""
    calls = (call for call in evidence.call_lines if _FOLDER in call.callee_file)
    call = max(calls, key=lambda call: call.share, default=None)
    return call and Location(call.file, call.line, call.function)


def _change(evidence: Evidence, remaining: Estimate) -> Change:
    """Return what goes with the meetings: by windows, and at least what samples show."""
    sampled, step_ns = _sampled_share(evidence), evidence.step_ns
    if sampled is None or not step_ns:
        return collectives.change_exposed(evidence, remaining)
    exposed_share = collectives.exposed_ns(evidence) / step_ns
    kept_shares = (
        min(kept, max(0.0, 1 - share / exposed_share))
        for kept, share in zip(astuple(remaining), reversed(astuple(sampled)), strict=True)
    )
    leaves = (collectives.TRANSFER_LEAF, collectives.ISSUE_LEAVES)
    return HostChange(leaves, Estimate(*kept_shares), sampled=True)


def _sampled_share(evidence: Evidence) -> Estimate | None:
    """Return the share of the run that each rank was sampled in its calls; ``None``: not known."""
    lines_by_rank = evidence.recorded.rank_lines
    is_wrapped = any(module.kind == _WRAPPED for module in evidence.facts.parallel)
    if evidence.on_device or not is_wrapped or len(lines_by_rank) < evidence.facts.world.ranks:
        return None
    places = {
        (call.file, call.line) for call in evidence.call_lines if _FOLDER in call.callee_file
    }
    called_lines = [
        [line for line in lines if line.thread == "training" and (line.file, line.line) in places]
        for lines in lines_by_rank.values()
    ]
    share = min(sum(line.share for line in lines) for lines in called_lines)
    count = sum(line.count for lines in called_lines for line in lines)
    error = _STANDARD_ERRORS * share / count**0.5 if count else 0.0
    return Estimate(max(0.0, share - error), share, share + error)


def _estimate_remaining(evidence: Evidence, count_share: float) -> Estimate:
    """Return what remains of exposed collectives without these: by their time and their number."""
    all_ns, met_ns = (
        windows.sum_calls(
            evidence, *(f"{mark}{kind}*" for mark in _MARKS for kind in kinds)
        ).host_ns
        for kinds in (("",), _MET)
    )
    shares = sorted((count_share, met_ns / all_ns if all_ns else count_share))
    return Estimate(1 - shares[1], 1 - sum(shares) / 2, 1 - shares[0])
