"""Gradients that are copied back from the buckets that they were exchanged in."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.reducer import drop_copies_back
from gapless.catalogue.fixes.ranks.ddp_arguments import DDP_ARGUMENTS
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import COPY_BACK

_MIN_STEP_SHARE: Final = 0.005  # of the step
_VIEWS: Final = next(fix for fix in DDP_ARGUMENTS if fix.name == "ddp-bucket-view")


@rule(
    "G608",
    "copied-buckets",
    figures="""
    the_world = world(ranks=2)
    # DistributedDataParallel(model)
    > After the exchange 50 gradients a step are copied from their buckets back to where they were:
      that takes 2.0 ms of each 40.0 ms step.
    cpu(the_world, ddp())
    rank busy.math 30, comm.exposed 10
    rank busy.math 30, comm.exposed 10
    operator(COPY_BACK, calls=2 * 50, host_ms=2 * 2)
    # gradient_as_bucket_view=True
    cpu(the_world, ddp(gradient_as_bucket_view=True))
    rank busy.math 30, comm.exposed 10
    rank busy.math 30, comm.exposed 10
    # Next to no time
    cpu(the_world, ddp())
    rank busy.math 30, comm.exposed 10
    rank busy.math 30, comm.exposed 10
    operator(COPY_BACK, calls=2 * 50, host_ms=0.1)
    """,
)
def copied_buckets(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise that DistributedDataParallel copies exchanged gradients back.

    ## Why it costs time
    Gradients are copied into buckets, which are exchanged, and from these back to the gradients.
    With ``gradient_as_bucket_view=True`` the gradients are views of the buckets, and the copies
    back are left out; that saves as much memory as all gradients take, too.

    ## How it is measured
    By the copies back, as torch's profiler shows them: on the host, or on the device where that
    takes longer. They are left out of the replayed windows of all ranks; copies into the buckets
    stay, as divisions at least. Without a device gradients of 16 MiB and more are made anew in each
    step, out of caches, and from 64 MiB in pages that the kernel has to clear: with that it is all
    worth one to 2.4 times the copies, and 1.8 times in the middle.
    """
    changes, step_ns = drop_copies_back(evidence), evidence.step_ns
    if parallel.kind != "ddp" or world.ranks < 2 or changes is None:  # noqa: PLR2004
        return None
    copies = windows.sum_calls(evidence, COPY_BACK)
    copy_ns = max(copies.host_ns, copies.device_ns)
    if not step_ns or copy_ns < _MIN_STEP_SHARE * step_ns:
        return None
    return copied_buckets.detection(
        f"After the exchange {windows.format_count(copies.count)} gradients a step are copied from "
        "their buckets back to where they were: that takes "
        f"{windows.format_step_part(evidence, copy_ns)}.",
        *changes,
        location=parallel.location,
        measures=(
            Measure("copies back, a step", copies.count, ""),
            Measure("they take, a step", copy_ns, "ns"),
        ),
        helps=(_VIEWS.request(),),
    )
