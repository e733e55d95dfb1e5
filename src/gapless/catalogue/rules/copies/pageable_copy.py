"""Copies to the device from memory that is not pinned."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.device_prefetcher import device_prefetcher
from gapless.catalogue.fixes.input.non_blocking import non_blocking
from gapless.catalogue.fixes.input.pin_memory import pin_memory
from gapless.catalogue.fixes.samples.uint8_in_loop import request_bytes_of_batches
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.input.pinning import copies_others, pinning_delay
from gapless.model.change import CopyChange, Delay
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_SIZE: Final = 64 << 10  # bytes a step; smaller copies do not block the host
_MANUAL_REMEDY: Final = (
    "put what is copied into pinned memory (tensor.pin_memory(), or torch.empty(…, "
    "pin_memory=True) that is reused) and copy it with non_blocking=True"
)
_OTHERS_REMEDY: Final = (
    "most of it is no batch as a loader makes it: make it on the device, or change it there; else "
)


@rule(
    "G301",
    "pageable-copy",
    figures="""
    # Batches in ordinary memory
    > 38 MB a step are copied to the device from ordinary memory, at 9.4 GB/s; it waits 5.0 ms of
      each 25.0 ms step for them.
    gpu()
    busy.tc_math 20, copy.h2d.pageable 4, idle.h2d.host 1
    example_copies("HtoD", "pageable", calls=2, ms=4, mib=36)
    # No loader makes them
    > 38 MB a step are copied to the device from ordinary memory, at 9.4 GB/s; it waits 5.0 ms of
      each 25.0 ms step for them.
    bare_facts()
    busy.tc_math 20, copy.h2d.pageable 4, idle.h2d.host 1
    on_device=True
    example_copies("HtoD", "pageable", calls=2, ms=4, mib=36)
    # Tensors that a model makes on the host; the loader's batches are a fraction of them
    > 38 MB a step are copied to the device from ordinary memory, at 9.4 GB/s; it waits 5.0 ms of
      each 25.0 ms step for them.
    gpu(loader(batch_bytes=400_000))
    busy.tc_math 20, copy.h2d.pageable 4, idle.h2d.host 1
    example_copies("HtoD", "pageable", calls=60, ms=4, mib=36)
    # Batches in pinned memory, and a few numbers that are not
    gpu(loader(pin_memory=True))
    busy.tc_math 20, copy.h2d.pinned 1
    example_copies("HtoD", "pinned", calls=1, ms=1, mib=38)
    example_copies("HtoD", "pageable", calls=10, ms=0.02, mib=0)
    """,
)
def pageable_copy(evidence: Evidence) -> Detection | None:
    """Recognise copies to the device from memory that the driver has to copy once more.

    ## Why it costs time
    A device reads only pinned memory (which cannot be swapped out). Ordinary memory the driver
    first copies piece by piece into a pinned buffer of its own, and the training thread stays in
    that call until the last piece is under way. Meanwhile nothing new is launched.

    ## How it is measured
    By the kind of memory in the name of the copies, and their bytes: where the batches of a step
    hold less than half of these, no loader's setting helps. A loader without workers pins in the
    training thread, which takes as long as the driver's copy did, divided by torch's threads: that
    is taken off the gain. The cost is what the device waits for in the account: copies that nothing
    overlaps, and the host's time in their calls.
    """
    copies = windows.sum_copies(evidence, "HtoD", "pageable")
    if not copies.ns or (copies.bytes is not None and copies.bytes < _MIN_SIZE):
        return None
    lost_ns = evidence.per_step("copy.h2d.pageable", "idle.h2d.host")
    subject = "Batches" if copies.bytes is None else windows.format_size(copies.bytes)
    rate_words = "" if copies.bytes is None else f", at {copies.bytes / copies.ns:.1f} GB/s"
    loaders = evidence.facts.loaders
    is_pinned = bool(loaders) and all(loader.pin_memory for loader in loaders or ())
    has_others = copies_others(evidence)
    has_no_fix = loaders == () or is_pinned or has_others
    obstacle = (
        "the loader pins its batches already: " if is_pinned else "no DataLoader makes them: "
    )
    if has_others:
        obstacle = _OTHERS_REMEDY
    delays = () if has_no_fix else _pinning_delays(loaders or (), evidence)
    helps = request_bytes_of_batches(evidence.facts, copies.bytes)
    if not has_no_fix:
        helps += (non_blocking.request(), pin_memory.request(), device_prefetcher.request())
    return pageable_copy.detection(
        f"{subject} a step are copied to the device from ordinary memory{rate_words}; it waits "
        f"{windows.format_step_part(evidence, lost_ns)} for them.",
        CopyChange(pinned=True, non_blocking=True, of_pageable=True),
        *delays,
        measures=(
            Measure("copies a step", copies.count, ""),
            Measure("copying on the device, a step", copies.ns, "ns"),
            Measure("waited for, a step", lost_ns, "ns"),
        ),
        helps=helps,
        no_remedy=None if helps else obstacle + _MANUAL_REMEDY,
    )


def _pinning_delays(loaders: Sequence[Loader], evidence: Evidence) -> tuple[Delay, ...]:
    return tuple(
        delay
        for loader in loaders
        if loader.trains is not False
        for delay in pinning_delay(evidence, loader)
    )
