"""Many small copies to the device."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Drop
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_COPIES: Final = 16  # copies a step
_MAX_BYTES: Final = 64 << 10  # bytes of one


@rule(
    "G304",
    "small-copies",
    figures="""
    # Each column of a table is copied separately
    > 100 copies a step to the device are of 10 kB each; the host and the device spend 2.4 ms of
      each 12.4 ms step on them.
    gpu()
    busy.tc_math 10, copy.h2d.pageable 0.4, idle.h2d.host 2
    example_copies("HtoD", "pageable", calls=100, ms=0.4, mib=1)
    # One large copy
    gpu()
    busy.tc_math 10, copy.h2d.pageable 4
    example_copies("HtoD", "pageable", calls=1, ms=4, mib=38)
    """,
)
def small_copies(evidence: Evidence) -> Detection | None:
    """Recognise that what a step needs is copied to the device in many small pieces.

    ## Why it costs time
    A copy costs the host some ten microseconds and the device two, whatever its size.

    ## How it is measured
    By counting the copies and their bytes. What it costs is the host's time in them while the
    device has nothing to do, and the copies themselves.
    """
    copies = windows.sum_copies(evidence, "HtoD")
    if (
        copies.count < _MIN_COPIES
        or copies.bytes is None
        or copies.bytes / copies.count > _MAX_BYTES
    ):
        return None
    lost_ns = evidence.per_step("copy.h2d", "idle.h2d.host")
    return small_copies.detection(
        f"{windows.format_count(copies.count)} copies a step to the device are of "
        f"{windows.format_size(copies.bytes / copies.count)} each; the host and the device spend "
        f"{windows.format_step_part(evidence, lost_ns)} on them.",
        Drop(("idle.h2d.host",)),  # one call of so many stays: hardly anything
        measures=(
            Measure("copies a step", copies.count, ""),
            Measure("bytes of one", copies.bytes / copies.count, "bytes"),
            Measure("copying alone, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "pack them into one tensor before the copy and take it apart on the device (views cost "
            "nothing), or make on the device what need not be copied (device=…)"
        ),
    )
