"""Copies to the device that the host waits for, though the memory is pinned."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied, operator
from gapless.model.change import Copied
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_MOST: Final = 0.5  # share of the copies whose wait may be missing among the synchronising calls
_PINNED: Final = examples.loader(pin_memory=True)


@rule(
    "G302",
    "blocking-copy",
    since="0.1",
    figures=[
        Figure(
            "Pinned batches, copied by .to(device)",
            "Each of 2 copies a step from pinned memory is waited for; synchronising costs 2.0 ms "
            "of each 25.0 ms step.",
            stated(
                examples.gpu(_PINNED),
                {
                    "busy.tc_math": 20,
                    "copy.h2d.pinned": 3,
                    "idle.sync.return": 0.1,
                    "idle.sync.refill": 1.9,
                },
                copied("HtoD", "pinned", calls=2, ms=3, mib=36),
                operator("cudaStreamSynchronize", calls=2, host_ms=3.1),
            ),
        ),
        Figure(
            "The same with non_blocking=True; one number is read back",
            None,
            stated(
                examples.gpu(_PINNED),
                {"busy.tc_math": 20, "copy.h2d.pinned": 3, "idle.sync.return": 0.1},
                copied("HtoD", "pinned", calls=2, ms=3, mib=36),
                copied("DtoH", "pageable", calls=1, ms=0.01, mib=0),
                operator("cudaStreamSynchronize", calls=1, host_ms=18),
            ),
        ),
        Figure(
            "Batches in ordinary memory: another fault",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "copy.h2d.pageable": 4, "idle.h2d.host": 1},
                copied("HtoD", "pageable", calls=2, ms=4, mib=36),
                operator("cudaStreamSynchronize", calls=2, host_ms=0.1),
            ),
        ),
    ],
)
def blocking_copy(seen: Seen) -> Loss | None:
    """Recognise copies from pinned memory that the host waits for.

    ## Why it costs time
    ``tensor.to(device)`` returns when the copy has ended. With ``non_blocking=True``, and from
    pinned memory, it returns at once: the host goes on to launch what works on the copy, which
    the device's own order makes wait.

    ## How it is measured
    By counting: torch waits for a stream after each copy that blocks, in either direction. What is
    left of these waits, once those of other copies are taken off, are those for copies from pinned
    memory. So it is inferred.
    """
    pinned = windowed.copies(seen, "HtoD", "pinned")
    if not pinned.count:
        return None
    waits = windowed.calls(seen, "*StreamSynchronize").count
    others = (windowed.copies(seen, "HtoD", "pageable"), windowed.copies(seen, "DtoH"))
    waited = min(waits - sum(one.count for one in others), pinned.count)
    if waited < _MOST * pinned.count:
        return None
    lost = seen.per_step("idle.sync", "idle.h2d.host")
    return blocking_copy.loss(
        f"Each of {windowed.times(pinned.count)} copies a step from pinned memory is waited for; "
        f"synchronising costs {windowed.of_step(seen, lost)}.",
        Copied(non_blocking=True),
        evidence=(
            Measure("copies from pinned memory, a step", pinned.count, ""),
            Measure("of those waited for", waited, ""),
            Measure("synchronising, a step", lost, "ns"),
        ),
        helps=("non-blocking", "device-prefetcher"),
        inferred=True,
    )
