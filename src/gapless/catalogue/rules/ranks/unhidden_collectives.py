"""Gradients that are exchanged one by one after the backward pass."""

from math import ceil
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.ranks import buckets, collectives
from gapless.model.change import Change
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

_MIN_STEP_SHARE: Final = 0.05  # of the step
_MIN_CALLS: Final = 4  # a step: buckets need no more
_MAX_HIDDEN_SHARE: Final = 0.1  # of their time on the device: above it, they overlap
_MIN_RATIO: Final = 0.9  # of the parameters
_DIVISIONS: Final = ("aten::div_", "aten::mul_")
_ELEMENTWISE: Final = (*_DIVISIONS, "aten::copy_", "aten::add_")
_ALL: Final = Estimate(1.0, 1.0, 1.0)
_OPERATIONS: Final = ("all_reduce", "all_reduce_coalesced")
_WRAPPED: Final = "ddp"
_SHARDED: Final = "fsdp"
_BY_AUTOGRAD: Final = "_AllReduce"  # of layers: another cause


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
    operator(REDUCE_CALL, calls=2 * 161, host_ms=12)
    # DistributedDataParallel reduces buckets beside the backward pass
    cpu(the_world, ddp())
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(REDUCE_CALL, calls=9, host_ms=1)
    # for g in gradients: dist.all_reduce(square), beside DistributedDataParallel
    > Besides the buckets of gradients 18 reductions a step are called by hand, of 20 collectives,
      one after another: what no computing hides of all takes 24.0 ms of each 64.0 ms step.
    with_rank_lines(evidence_of_ranks(cpu(the_world, ddp(), optimizer(parameters=10_000)),
      {"busy.math": 40, "comm.exposed": 24}, {"busy.math": 40, "comm.exposed": 24},
      parts=(operator(REDUCE_CALL, calls=2 * 20, host_ms=1),
      CallLine("train.py", 77, "clip", "torch/distributed/c10d_logger.py", "wrapper", 0.3))),
      (hot_line(77, 0.3),), (hot_line(77, 0.3),))
    # All gradients in a single call
    cpu(the_world, optimizer(tensors=161))
    rank busy.math 54, comm.exposed 10
    rank busy.math 54, comm.exposed 10
    operator(REDUCE_CALL, calls=1, host_ms=1)
    """,
)
def unhidden_collectives(evidence: Evidence, world: World) -> Detection | None:
    """Recognise gradients that are reduced by many calls that nothing overlaps.

    ## Why it costs time
    Each call has a latency of its own, whatever its size, and synchronises the ranks. The gradients
    of the last layers are ready while the backward pass still runs: reducing them then costs next
    to nothing. ``DistributedDataParallel`` does so, in buckets of 25 MB.

    ## How it is measured
    By the calls of ``all_reduce`` in a step without ``DistributedDataParallel``, or beside it more
    than it has buckets (norms that are asked for one by one), and by the account: transfers that no
    computation overlaps, and the host's time to start them. Few calls save the latency of each,
    which is fitted to the sizes of exchanges; where these are not known, or larger than 256 KiB
    without a device, buckets are replayed, each of which begins once the backward pass has the last
    of its gradients. Without a device, calls take what samples of the whole run show at their
    lines, on every rank, if that is more; waits for a late
    rank stay. Where GPUs wait for their hosts these samples are what starting the calls takes: that
    goes, but for the buckets, and for two operators that copy each gradient. Of the transfers
    between GPUs the backward pass hid a quarter to a third in three trainings; without a device,
    none is counted on.
    """
    kinds = {module.kind for module in evidence.facts.parallel}
    if world.ranks < 2 or _SHARDED in kinds:  # noqa: PLR2004 - no other rank
        return None
    if _WRAPPED in kinds:
        return _detection_beside(evidence)
    n_calls, step_ns = windows.sum_calls(evidence, REDUCE_CALL).count, evidence.step_ns
    if n_calls < _MIN_CALLS or not step_ns:
        return None
    exposed_ns, sampled = collectives.exposed_ns(evidence), _sampled_share(evidence, n_calls)
    start_ns = step_ns * sampled.mid if sampled and evidence.on_device else 0.0
    is_short = max(exposed_ns, start_ns) < _MIN_STEP_SHARE * step_ns
    if is_short or _hidden_share(evidence) > _MAX_HIDDEN_SHARE:
        return None
    n_parameters = optimizer_steps.count_tensors(evidence)
    match = (
        ", one for each parameter,"
        if n_parameters and _MIN_RATIO * n_parameters <= n_calls <= n_parameters / _MIN_RATIO
        else ""
    )
    starting = f", and starting them {windows.ms(start_ns)} of each host" if start_ns else ""
    return unhidden_collectives.detection(
        f"Gradients are reduced over {world.ranks} ranks by {windows.format_count(n_calls)} calls "
        f"a step{match} and nothing is computed meanwhile: that takes "
        f"{windows.format_step_part(evidence, exposed_ns)}{starting}.",
        _change_reductions(evidence, n_calls, sampled),
        location=windows.find_calling_function(evidence, REDUCE_CALL, "c10d::*")
        or collectives.find_calling_line(evidence),
        measures=(
            Measure("calls of all_reduce, a step", n_calls, ""),
            Measure("exposed, a step", exposed_ns, "ns"),
        ),
        no_remedy=(
            "DistributedDataParallel reduces gradients in buckets while the backward pass runs; by "
            "hand: flatten them into one tensor, and reduce that by a single call"
        ),
    )


def _detection_beside(evidence: Evidence) -> Detection | None:
    """Return the detection of many reductions by hand beside the buckets of a wrapper."""
    n_all, n_own = collectives.count_collectives(evidence), _count_own(evidence)
    call, step_ns = collectives.find_call(evidence), evidence.step_ns
    if n_own < _MIN_CALLS or not step_ns or call is None:
        return None
    if not call.callee_file.endswith(collectives.BY_NAME):
        return None
    saved, exposed_ns = 1 - 1 / n_own, collectives.exposed_ns(evidence)
    share = min(1.0, n_own / n_all) * saved
    sampled = collectives.sampled_share(
        evidence,
        collectives.BY_NAME,
        _OPERATIONS,
        Estimate(saved, saved, saved),
        n_all - n_own + 1,
    )
    sampled_ns = step_ns * sampled.mid if sampled else 0.0
    if max(share * exposed_ns, sampled_ns) < _MIN_STEP_SHARE * step_ns:
        return None
    return unhidden_collectives.detection(
        f"Besides the buckets of gradients {windows.format_count(n_own)} reductions a step are "
        f"called by hand, of {windows.format_count(n_all)} collectives, one after another: what no "
        f"computing hides of all takes {windows.format_step_part(evidence, exposed_ns)}.",
        collectives.change_called(evidence, Estimate(1 - share, 1 - share, 1 - share / 2), sampled),
        location=Location(call.file, call.line, call.function),
        measures=(
            Measure("reductions by hand, a step", n_own, ""),
            Measure("collectives, a step", n_all, ""),
            Measure("exposed, a step", exposed_ns, "ns"),
        ),
        no_remedy=(
            "stack what is reduced into one tensor, and reduce that by a single call; the norm of "
            "gradients that DistributedDataParallel has exchanged is the same on every rank, and "
            "needs none"
        ),
    )


def _count_own(evidence: Evidence) -> float:
    """Count the reductions of a step that neither a wrapper nor a layer calls: at least so many."""
    n_calls = windows.sum_calls(evidence, REDUCE_CALL).count
    n_layers = windows.sum_calls(evidence, _BY_AUTOGRAD).count
    sizes = [module.settings.get("bucket_cap_mb") for module in evidence.facts.parallel]
    cap_mib = next((size for size in sizes if isinstance(size, int | float) and size), None)
    n_bytes = collectives.gradient_bytes(evidence)
    if cap_mib is None or not n_bytes:
        return 0.0
    n_buckets = 1 + ceil(n_bytes / (cap_mib * collectives.MIB))
    return n_calls - n_layers - n_buckets * max(1.0, evidence.facts.world.micro_batches or 1.0)


def _sampled_share(evidence: Evidence, n_calls: float) -> Estimate | None:
    """Return the share of the run in reductions, by samples of the lines that call them."""
    n_all = collectives.count_collectives(evidence)
    share, n_after = min(1.0, n_calls / n_all), n_all - n_calls + _count_buckets(evidence)
    return collectives.sampled_share(
        evidence, collectives.BY_NAME, _OPERATIONS, Estimate(share, share, share), n_after
    )


def _count_buckets(evidence: Evidence) -> int:
    return collectives.count_usual_buckets(collectives.gradient_bytes(evidence))


def _change_reductions(evidence: Evidence, n_calls: float, sampled: Estimate | None) -> Change:
    """Return what goes with the calls that are too many: their latency, or that of their starts."""
    n_buckets = _count_buckets(evidence)
    latency = collectives.remains_of_fewer(evidence, n_calls, n_buckets)
    starts = _starts_remaining(evidence, n_buckets) if evidence.on_device else latency
    if starts is None or (latency is None and sampled is None):
        return buckets.change_buckets(
            evidence, collectives.BUCKET_MIB, collectives.FIRST_BUCKET_MIB
        )
    saved = sampled and Estimate(
        sampled.low * (1 - starts.high),
        sampled.mid * (1 - starts.mid),
        sampled.high * (1 - starts.low),
    )
    return collectives.change_called(evidence, _hide_part(evidence, latency or _ALL), saved)


def _starts_remaining(evidence: Evidence, n_buckets: int) -> Estimate:
    """Return what remains of starting reductions: buckets, and copies to these and back.

    Of the two operators that copy a gradient one takes the place of dividing it by hand.
    """
    reductions = windows.sum_calls(evidence, REDUCE_CALL)
    operators = windows.sum_calls(evidence, *_ELEMENTWISE)
    by_hand = windows.sum_calls(evidence, *_DIVISIONS).count
    n_added = 2 * reductions.count - min(reductions.count, by_hand)
    added_ns = n_added * operators.host_ns / operators.count if operators.count else 0.0
    low, added = n_buckets / reductions.count, added_ns / max(1.0, reductions.host_ns)
    return Estimate(min(1.0, low), min(1.0, low + added), min(1.0, low + 2 * added))


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
