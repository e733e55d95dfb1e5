"""Copies to the device that nothing overlaps."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.device_prefetcher import device_prefetcher
from gapless.catalogue.queries import windows
from gapless.model.change import CopyChange
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.002  # of the step
_MANUAL_REMEDY: Final = (
    "copy the next batch on a separate stream during the current step "
    "(gapless.parts.DevicePrefetcher does that around any iterator of batches)"
)


@rule(
    "G303",
    "exposed-copy",
    figures="""
    pinned_loader = loader(pin_memory=True)
    # Pinned batches on the stream of the computation
    > The device copies batches for 2.0 ms of each 22.0 ms step and does nothing else meanwhile.
    gpu(pinned_loader)
    busy.tc_math 20, copy.h2d.pinned 2
    example_copies("HtoD", "pinned", calls=1, ms=2, mib=100)
    # The copies overlap the computation
    gpu(pinned_loader)
    busy.tc_math 20
    example_copies("HtoD", "pinned", calls=1, ms=2, mib=100)
    # Drawn: a copy, and the work that waits for it
    > The device copies batches for 3.0 ms of each 12.0 ms step and does nothing else meanwhile.
    . step  aaaaaaaaaaaabbbbbbbbbbbbcccccccccccc
    . main  c...l.......c...l.......c...l.......
    . copy  .HHH.........HHH.........HHH........
    . gpu   .....mmmmmmm.....mmmmmmm.....mmmmmmm
    """,
)
def exposed_copy(evidence: Evidence) -> Detection | None:
    """Recognise copies of batches that run before the computation, not alongside it.

    ## Why it costs time
    A device can copy and compute at the same time, on two streams. On one stream the computation of
    a step begins only when its batch has arrived.

    ## How it is measured
    Only the part of the copies that overlaps no computation counts. Copies from memory that is not
    pinned are another cause.
    """
    lost_ns = evidence.per_step("copy.h2d.pinned")
    step_ns = evidence.step_ns
    if (
        not step_ns
        or lost_ns < _MIN_STEP_SHARE * step_ns
        or evidence.per_step("copy.h2d.pageable") > lost_ns
    ):
        return None
    copies = windows.sum_copies(evidence, "HtoD", "pinned")
    loaders = evidence.facts.loaders
    return exposed_copy.detection(
        f"The device copies batches for {windows.format_step_part(evidence, lost_ns)} and "
        "does nothing else meanwhile.",
        CopyChange(pinned=True, non_blocking=True, ahead=True),
        measures=(
            Measure("copying alone, a step", lost_ns, "ns"),
            Measure("copying, a step", copies.ns, "ns"),
            Measure("copies a step", copies.count, ""),
        ),
        helps=() if loaders == () else (device_prefetcher.request(),),
        no_remedy=_MANUAL_REMEDY if loaders == () else None,
    )
