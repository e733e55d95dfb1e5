"""Copies to the device that the host waits for, though the memory is pinned."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.device_prefetcher import device_prefetcher
from gapless.catalogue.fixes.input.non_blocking import non_blocking
from gapless.catalogue.queries import windows
from gapless.model.change import CopyChange
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

# Share of the copies whose wait may be missing among the synchronising calls.
_MIN_WAITED_SHARE: Final = 0.5


@rule(
    "G302",
    "blocking-copy",
    figures="""
    pinned_loader = loader(pin_memory=True)
    # Pinned batches, copied by .to(device)
    > Each of 2 copies a step from pinned memory is waited for; synchronising costs 2.0 ms of each
      25.0 ms step.
    gpu(pinned_loader)
    busy.tc_math 20, copy.h2d.pinned 3, idle.sync.return 0.1, idle.sync.refill 1.9
    example_copies("HtoD", "pinned", calls=2, ms=3, mib=36)
    operator("cudaStreamSynchronize", calls=2, host_ms=3.1)
    # The same with non_blocking=True; one number is read back
    gpu(pinned_loader)
    busy.tc_math 20, copy.h2d.pinned 3, idle.sync.return 0.1
    example_copies("HtoD", "pinned", calls=2, ms=3, mib=36)
    example_copies("DtoH", "pageable", calls=1, ms=0.01, mib=0)
    operator("cudaStreamSynchronize", calls=1, host_ms=18)
    # Batches in ordinary memory: another cause
    gpu()
    busy.tc_math 20, copy.h2d.pageable 4, idle.h2d.host 1
    example_copies("HtoD", "pageable", calls=2, ms=4, mib=36)
    operator("cudaStreamSynchronize", calls=2, host_ms=0.1)
    """,
)
def blocking_copy(evidence: Evidence) -> Detection | None:
    """Recognise copies from pinned memory that the host waits for.

    ## Why it costs time
    ``tensor.to(device)`` returns when the copy has ended. With ``non_blocking=True``, and from
    pinned memory, it returns at once: the host goes on to launch the work on the copy, which the
    device's stream order delays until the copy is done.

    ## How it is measured
    By counting: torch waits for a stream after each blocking copy, in either direction. The waits
    that remain after subtracting those of other copies belong to copies from pinned memory. So it
    is inferred.
    """
    copies = windows.sum_copies(evidence, "HtoD", "pinned")
    if not copies.count:
        return None
    n_waits = windows.sum_calls(evidence, "*StreamSynchronize").count
    other_copies = (
        windows.sum_copies(evidence, "HtoD", "pageable"),
        windows.sum_copies(evidence, "DtoH"),
    )
    copy_waits = min(n_waits - sum(moved.count for moved in other_copies), copies.count)
    if copy_waits < _MIN_WAITED_SHARE * copies.count:
        return None
    lost_ns = evidence.per_step("idle.sync", "idle.h2d.host")
    return blocking_copy.detection(
        f"Each of {windows.format_count(copies.count)} copies a step from pinned memory is waited "
        f"for; synchronising costs {windows.format_step_part(evidence, lost_ns)}.",
        CopyChange(non_blocking=True),
        measures=(
            Measure("copies from pinned memory, a step", copies.count, ""),
            Measure("of those waited for", copy_waits, ""),
            Measure("synchronising, a step", lost_ns, "ns"),
        ),
        helps=(non_blocking.request(), device_prefetcher.request()),
        inferred=True,
    )
