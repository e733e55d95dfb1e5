"""Copies to the device from memory that is not pinned."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied
from gapless.model.change import Copied
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_LEAST: Final = 64 << 10  # bytes a step; copies of less do not hold the host (prediction.md, E9)
_BY_HAND: Final = (
    "put what is copied into pinned memory (tensor.pin_memory(), or torch.empty(…, "
    "pin_memory=True) that is filled again and again) and copy it with non_blocking=True"
)


@rule(
    "G301",
    "pageable-copy",
    since="0.1",
    figures=[
        Figure(
            "Batches in ordinary memory",
            "38 MB a step are copied to the device from ordinary memory, at 9.4 GB/s; it waits "
            "5.0 ms of each 25.0 ms step for them.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "copy.h2d.pageable": 4, "idle.h2d.host": 1},
                copied("HtoD", "pageable", calls=2, ms=4, mib=36),
            ),
        ),
        Figure(
            "No loader makes them",
            "38 MB a step are copied to the device from ordinary memory, at 9.4 GB/s; it waits "
            "5.0 ms of each 25.0 ms step for them.",
            stated(
                examples.bare(),
                {"busy.tc_math": 20, "copy.h2d.pageable": 4, "idle.h2d.host": 1},
                copied("HtoD", "pageable", calls=2, ms=4, mib=36),
                on_device=True,
            ),
        ),
        Figure(
            "Batches in pinned memory, and a few numbers that are not",
            None,
            stated(
                examples.gpu(examples.loader(pin_memory=True)),
                {"busy.tc_math": 20, "copy.h2d.pinned": 1},
                copied("HtoD", "pinned", calls=1, ms=1, mib=38),
                copied("HtoD", "pageable", calls=10, ms=0.02, mib=0),
            ),
        ),
    ],
)
def pageable_copy(seen: Seen) -> Loss | None:
    """Recognise copies to the device from memory that the driver has to copy once more.

    ## Why it costs time
    A device reads only memory that is pinned (cannot be swapped out). Of ordinary memory the driver
    copies piece by piece into a pinned buffer of its own, and the training thread stays in that
    call until the last piece is under way. Meanwhile nothing new is launched.

    ## How it is measured
    By the kind of memory in the name of the copies, and their bytes; of the account what the device
    waits for: the copies that nothing runs beside, and the host's time in their calls.
    """
    moved = windowed.copies(seen, "HtoD", "pageable")
    if not moved.ns or (moved.bytes is not None and moved.bytes < _LEAST):
        return None
    lost = seen.per_step("copy.h2d.pageable", "idle.h2d.host")
    what = "Batches" if moved.bytes is None else windowed.size(moved.bytes)
    rate = "" if moved.bytes is None else f", at {moved.bytes / moved.ns:.1f} GB/s"
    loaders = None if seen.facts is None else seen.facts.loaders
    pinned = bool(loaders) and all(one.pin_memory for one in loaders or ())
    helpless = loaders == () or pinned
    why = "the loader pins its batches already: " if pinned else "no DataLoader makes them: "
    return pageable_copy.loss(
        f"{what} a step are copied to the device from ordinary memory{rate}; it waits "
        f"{windowed.of_step(seen, lost)} for them.",
        Copied(pinned=True, non_blocking=True),
        evidence=(
            Measure("copies a step", moved.count, ""),
            Measure("copying on the device, a step", moved.ns, "ns"),
            Measure("waited for, a step", lost, "ns"),
        ),
        helps=() if helpless else ("non-blocking", "pin-memory", "device-prefetcher"),
        no_remedy=why + _BY_HAND if helpless else None,
    )
