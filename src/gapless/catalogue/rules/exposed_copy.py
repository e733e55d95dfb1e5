"""Copies to the device that nothing runs beside."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import example_copies
from gapless.model.change import CopyChange
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence

_MIN_STEP_SHARE: Final = 0.002  # of the step
_MANUAL_REMEDY: Final = (
    "copy the next batch on a stream of its own while this one is worked on "
    "(gapless.parts.DevicePrefetcher does that around any iterator of batches)"
)
_PINNED_LOADER: Final = examples.loader(pin_memory=True)


@rule(
    "G303",
    "exposed-copy",
    since="0.1",
    figures=[
        RuleFigure(
            "Pinned batches on the stream of the computation",
            "The device copies batches for 2.0 ms of each 22.0 ms step and does nothing else "
            "meanwhile.",
            stated(
                examples.gpu(_PINNED_LOADER),
                {"busy.tc_math": 20, "copy.h2d.pinned": 2},
                example_copies("HtoD", "pinned", calls=1, ms=2, mib=100),
            ),
        ),
        RuleFigure(
            "The copies run beside the computation",
            None,
            stated(
                examples.gpu(_PINNED_LOADER),
                {"busy.tc_math": 20},
                example_copies("HtoD", "pinned", calls=1, ms=2, mib=100),
            ),
        ),
        RuleFigure(
            "Drawn: a copy, and the work that waits for it",
            "The device copies batches for 3.0 ms of each 12.0 ms step and does nothing else "
            "meanwhile.",
            drawing="""
                step  aaaaaaaaaaaabbbbbbbbbbbbcccccccccccc
                main  c...l.......c...l.......c...l.......
                copy  .HHH.........HHH.........HHH........
                gpu   .....mmmmmmm.....mmmmmmm.....mmmmmmm
            """,
        ),
    ],
)
def exposed_copy(evidence: Evidence) -> Detection | None:
    """Recognise copies of batches that the device makes before its work, and not beside it.

    ## Why it costs time
    A device can copy and compute at once, on two streams. On one stream the computation of a step
    begins when its batch has arrived.

    ## How it is measured
    Only the part of the copies counts that lies beside no computation. Copies from memory that is
    not pinned are another fault, and told as such.
    """
    lost_ns = evidence.per_step("copy.h2d.pinned")
    step_ns = evidence.step_ns
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns or evidence.per_step("copy.h2d.pageable") > lost_ns:
        return None
    copies = windowed.sum_copies(evidence, "HtoD", "pinned")
    loaders = None if evidence.facts is None else evidence.facts.loaders
    return exposed_copy.detection(
        f"The device copies batches for {windowed.format_step_part(evidence, lost_ns)} and "
        "does nothing else meanwhile.",
        CopyChange(pinned=True, non_blocking=True, ahead=True),
        measures=(
            Measure("copying alone, a step", lost_ns, "ns"),
            Measure("copying, a step", copies.ns, "ns"),
            Measure("copies a step", copies.count, ""),
        ),
        helps=() if loaders == () else ("device-prefetcher",),
        no_remedy=_MANUAL_REMEDY if loaders == () else None,
    )
