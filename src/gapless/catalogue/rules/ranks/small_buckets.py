"""Gradients that DistributedDataParallel exchanges in more buckets than it has to."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.ranks.ddp_arguments import DDP_ARGUMENTS
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import buckets, collectives
from gapless.model.change import Change, Omit
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

_MIN_CALLS: Final = 4  # a step: fewer take next to nothing to start
_MIN_STEP_SHARE: Final = 0.02  # of the step
_BUCKETS: Final = next(fix for fix in DDP_ARGUMENTS if fix.name == "ddp-buckets")


@rule(
    "G604",
    "small-buckets",
    figures="""
    the_world = world(ranks=2)
    # DistributedDataParallel(model, bucket_cap_mb=0.1)
    > Gradients are exchanged over 2 ranks in 60 buckets of at most 0.1 MiB a step: what no
      computing hides of that takes 12.0 ms of each 40.0 ms step; buckets of 25 MiB would be 2.
    cpu(the_world, ddp(bucket_cap_mb=0.1))
    rank busy.math 28, comm.exposed 9, idle.comm.host 3
    rank busy.math 28, comm.exposed 9, idle.comm.host 3
    operator(REDUCE_CALL, calls=2 * 60, host_ms=3)
    # Small buckets, all of them hidden
    cpu(the_world, ddp(bucket_cap_mb=0.1))
    rank busy.math 40, comm.exposed 0.4
    rank busy.math 40, comm.exposed 0.4
    operator(REDUCE_CALL, calls=2 * 60, host_ms=3)
    # torch's own buckets of a large model
    cpu(the_world, ddp())
    rank busy.math 28, comm.exposed 12
    rank busy.math 28, comm.exposed 12
    operator(REDUCE_CALL, calls=2 * 40, host_ms=3)
    """,
)
def small_buckets(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise buckets of DistributedDataParallel that are smaller than torch's own.

    ## Why it costs time
    Each bucket is an exchange of its own, which has a latency whatever its size, and for which all
    ranks meet. Small buckets begin earlier, but the backward pass hides only as many as it has
    time for.

    ## How it is measured
    By the size that the wrapper was given, the exchanges that windows show, and the account:
    transfers that no computing hides, and the host's time to start them. Fewer buckets save the
    latency of each: where each has fewer than 256 KiB, that is nearly all of it. On a device such
    calls that there would be fewer of are left out of the replayed windows, with what they launch.
    Larger ones are replayed: each bucket begins once the backward pass has the last of its
    gradients, and takes what is fitted to the sizes of exchanges; where these are too alike, what a
    call takes on such links (``queries/ranks/transports.py``).
    """
    cap_mib = parallel.settings.get("bucket_cap_mb")
    if parallel.kind != "ddp" or world.ranks < 2 or not isinstance(cap_mib, float | int):  # noqa: PLR2004
        return None
    n_calls, step_ns = windows.sum_calls(evidence, REDUCE_CALL).count, evidence.step_ns
    n_bytes = collectives.gradient_bytes(evidence) or n_calls * cap_mib * collectives.MIB
    n_usual = collectives.count_usual_buckets(n_bytes)
    lost_ns = collectives.exposed_ns(evidence)
    if (
        cap_mib >= collectives.BUCKET_MIB
        or n_calls < max(_MIN_CALLS, 2 * n_usual)
        or not step_ns
        or lost_ns < _MIN_STEP_SHARE * step_ns
    ):
        return None
    return small_buckets.detection(
        f"Gradients are exchanged over {world.ranks} ranks in {windows.format_count(n_calls)} "
        f"buckets of at most {cap_mib:.2g} MiB a step: what no computing hides of that takes "
        f"{windows.format_step_part(evidence, lost_ns)}; buckets of "
        f"{collectives.BUCKET_MIB:g} MiB would be {n_usual}.",
        _change_buckets(evidence, cap_mib, n_calls, n_usual),
        location=parallel.location,
        measures=(
            Measure("buckets, a step", n_calls, ""),
            Measure("size of a bucket, MiB", float(cap_mib), ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        helps=(_BUCKETS.request(round(collectives.BUCKET_MIB)),),
    )


def _change_buckets(evidence: Evidence, cap_mib: float, n_calls: float, n_usual: int) -> Change:
    """Return what goes with the buckets that are too many."""
    if evidence.on_device and cap_mib * collectives.MIB <= collectives.MAX_SMALL_BYTES:
        return Omit((REDUCE_CALL,), keep=n_usual / n_calls)
    remaining = collectives.remains_of_fewer(evidence, n_calls, n_usual)
    if evidence.on_device or remaining is None:
        return buckets.change_buckets(evidence, collectives.BUCKET_MIB)
    return collectives.change_exposed(evidence, remaining)
