"""Gradients that wait in a large bucket until the backward pass is nearly over."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.ranks.ddp_arguments import DDP_ARGUMENTS
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import buckets, collectives
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

_MIN_STEP_SHARE: Final = 0.03  # of the step
_MIN_HELD_SHARE: Final = 0.5  # of all gradients, in one bucket
_MIN_SIZE_RATIO: Final = 2.0  # of the bucket to one that suits
_BUCKETS: Final = next(fix for fix in DDP_ARGUMENTS if fix.name == "ddp-buckets")


@rule(
    "G613",
    "large-buckets",
    figures="""
    the_world = (world(ranks=2), optimizer(parameters=100 * 2**20, tensors=12))
    # DistributedDataParallel(model, bucket_cap_mb=1000)
    > Gradients of 400 MiB are exchanged in one bucket a step, which begins once the backward pass
      has the last of them: what no computing hides of that takes 31.0 ms of each 80.0 ms step.
    gpu(*the_world, ddp(bucket_cap_mb=1000.0))
    rank busy.math 49, comm.exposed 31
    rank busy.math 49, comm.exposed 31
    operator(REDUCE_CALL, calls=2, host_ms=1)
    # Buckets of 25 MiB
    gpu(*the_world, ddp(bucket_cap_mb=25.0))
    rank busy.math 49, comm.exposed 31
    rank busy.math 49, comm.exposed 31
    operator(REDUCE_CALL, calls=2 * 12, host_ms=1)
    # Nothing is exposed
    gpu(*the_world, ddp(bucket_cap_mb=1000.0))
    rank busy.math 79, comm.exposed 1
    rank busy.math 79, comm.exposed 1
    operator(REDUCE_CALL, calls=2, host_ms=1)
    """,
)
def large_buckets(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise a bucket of DistributedDataParallel that holds most gradients.

    ## Why it costs time
    A bucket is exchanged once the backward pass has the last of its gradients. What is in one
    bucket with the gradients of the first layers, which come last, cannot be exchanged while the
    pass still runs: nothing hides that.

    ## How it is measured
    By the size that the wrapper was given, the numbers that optimizers hold, the exchanges that
    windows show, and the account: transfers that no computing hides. Windows of all ranks are
    replayed with other buckets: each begins when the last of its gradients was ready in the trace,
    they follow one another, and take what the exchanges of the window took; which part of that does
    not shrink with their size is fitted to these, or known of such links. Computing beside an
    exchange takes longer, by what was measured on such links (``queries/ranks/transports.py``).
    """
    cap_mib = parallel.settings.get("bucket_cap_mb")
    if parallel.kind != "ddp" or world.ranks < 2 or not isinstance(cap_mib, float | int):  # noqa: PLR2004
        return None
    n_calls, step_ns = windows.sum_calls(evidence, REDUCE_CALL).count, evidence.step_ns
    held_mib = collectives.gradient_bytes(evidence) / collectives.MIB
    largest_mib, suitable_mib = min(cap_mib, held_mib), buckets.suitable_mib(evidence)
    lost_ns = collectives.exposed_ns(evidence)
    if (
        not n_calls
        or not step_ns
        or largest_mib < max(_MIN_HELD_SHARE * held_mib, _MIN_SIZE_RATIO * suitable_mib)
        or lost_ns < _MIN_STEP_SHARE * step_ns
    ):
        return None
    number = "one bucket" if n_calls <= 1.5 else f"{windows.format_count(n_calls)} buckets"  # noqa: PLR2004 - a whole number
    return large_buckets.detection(
        f"Gradients of {held_mib:.3g} MiB are exchanged in {number} a step, "
        "which begins once the backward pass has the last of them: what no computing hides of that "
        f"takes {windows.format_step_part(evidence, lost_ns)}.",
        buckets.change_buckets(evidence, suitable_mib),
        location=parallel.location,
        measures=(
            Measure("gradients, MiB", held_mib, ""),
            Measure("buckets, a step", n_calls, ""),
            Measure("size of a bucket, at most, MiB", float(cap_mib), ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        helps=(_BUCKETS.request(round(suitable_mib)),),
    )
