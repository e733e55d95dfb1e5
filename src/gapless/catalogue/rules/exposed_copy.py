"""Copies to the device that nothing runs beside."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied
from gapless.model.change import Copied
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_LEAST: Final = 0.002  # of the step
_BY_HAND: Final = (
    "copy the next batch on a stream of its own while this one is worked on "
    "(gapless.parts.DevicePrefetcher does that around any iterator of batches)"
)
_PINNED: Final = examples.loader(pin_memory=True)


@rule(
    "G303",
    "exposed-copy",
    since="0.1",
    figures=[
        Figure(
            "Pinned batches on the stream of the computation",
            "The device copies batches for 2.0 ms of each 22.0 ms step and does nothing else "
            "meanwhile.",
            stated(
                examples.gpu(_PINNED),
                {"busy.tc_math": 20, "copy.h2d.pinned": 2},
                copied("HtoD", "pinned", calls=1, ms=2, mib=100),
            ),
        ),
        Figure(
            "The copies run beside the computation",
            None,
            stated(
                examples.gpu(_PINNED),
                {"busy.tc_math": 20},
                copied("HtoD", "pinned", calls=1, ms=2, mib=100),
            ),
        ),
        Figure(
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
def exposed_copy(seen: Seen) -> Loss | None:
    """Recognise copies of batches that the device makes before its work, and not beside it.

    ## Why it costs time
    A device can copy and compute at once, on two streams. On one stream the computation of a step
    begins when its batch has arrived.

    ## How it is measured
    Only the part of the copies counts that lies beside no computation. Copies from memory that is
    not pinned are another fault, and told as such.
    """
    lost = seen.per_step("copy.h2d.pinned")
    step = seen.step_ns
    if not step or lost < _LEAST * step or seen.per_step("copy.h2d.pageable") > lost:
        return None
    moved = windowed.copies(seen, "HtoD", "pinned")
    loaders = None if seen.facts is None else seen.facts.loaders
    return exposed_copy.loss(
        f"The device copies batches for {windowed.of_step(seen, lost)} and "
        "does nothing else meanwhile.",
        Copied(pinned=True, non_blocking=True, ahead=True),
        evidence=(
            Measure("copying alone, a step", lost, "ns"),
            Measure("copying, a step", moved.ns, "ns"),
            Measure("copies a step", moved.count, ""),
        ),
        helps=() if loaders == () else ("device-prefetcher",),
        no_remedy=_BY_HAND if loaders == () else None,
    )
