"""Many small copies to the device."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied
from gapless.model.change import Drop
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_MANY: Final = 16  # copies a step
_SMALL: Final = 64 << 10  # bytes of one


@rule(
    "G304",
    "small-copies",
    since="0.1",
    figures=[
        Figure(
            "Each column of a table is copied by itself",
            "100 copies a step to the device are of 10 kB each; the host and the device spend "
            "2.4 ms of each 12.4 ms step on them.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 10, "copy.h2d.pageable": 0.4, "idle.h2d.host": 2},
                copied("HtoD", "pageable", calls=100, ms=0.4, mib=1),
            ),
        ),
        Figure(
            "One copy, and large",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 10, "copy.h2d.pageable": 4},
                copied("HtoD", "pageable", calls=1, ms=4, mib=38),
            ),
        ),
    ],
)
def small_copies(seen: Seen) -> Loss | None:
    """Recognise that what a step needs is copied to the device in many small pieces.

    ## Why it costs time
    A copy costs the host some ten microseconds and the device two, whatever its size.

    ## How it is measured
    By counting the copies and their bytes. What it costs is the host's time in them while the
    device has nothing to do, and the copies themselves.
    """
    moved = windowed.copies(seen, "HtoD")
    if moved.count < _MANY or moved.bytes is None or moved.bytes / moved.count > _SMALL:
        return None
    lost = seen.per_step("copy.h2d", "idle.h2d.host")
    return small_copies.loss(
        f"{windowed.times(moved.count)} copies a step to the device are of "
        f"{windowed.size(moved.bytes / moved.count)} each; the host and the device spend "
        f"{windowed.of_step(seen, lost)} on them.",
        Drop(("idle.h2d.host",), keep=1 / moved.count),
        evidence=(
            Measure("copies a step", moved.count, ""),
            Measure("bytes of one", moved.bytes / moved.count, "bytes"),
            Measure("copying alone, a step", lost, "ns"),
        ),
        no_remedy=(
            "pack them into one tensor before the copy and take it apart on the device (views cost "
            "nothing), or make on the device what need not be copied (device=…)"
        ),
    )
