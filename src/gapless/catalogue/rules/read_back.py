"""Whole tensors that are copied back to the host in the step."""

from dataclasses import replace
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.rules.data_dependent_shape import SHAPED
from gapless.catalogue.rules.scalar_read import READ
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied, operator
from gapless.model.change import EXACTLY_NONE, Drop, Scale
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_NUMBER: Final = 8  # bytes of one that is read back
_LEAST: Final = 4096  # bytes a step beyond those
_SIZES: Final = 3  # copies back of an operator whose result's size depends on values, at most
_RARE: Final = 0.05  # copies a step


@rule(
    "G308",
    "read-back",
    since="0.1",
    figures=[
        Figure(
            "Metrics are computed on the host",
            "21 MB a step are copied back to the host, in 2 copies; copying and waiting leave the "
            "device without work for 5.0 ms of each 25.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "copy.d2h": 2, "idle.sync.refill": 3},
                copied("DtoH", "pageable", calls=2, ms=2, mib=20),
                operator("cudaStreamSynchronize", calls=2, host_ms=4),
            ),
        ),
        Figure(
            "A few values are logged: seen, and worth little",
            "64 bytes a step are copied back to the host, in 1 copy; copying and waiting leave the "
            "device without work for 0.2 ms of each 20.2 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "idle.sync.refill": 0.2},
                replace(copied("DtoH", "pageable", calls=1, ms=0.002), bytes=640),
                operator("cudaStreamSynchronize", calls=1, host_ms=4),
            ),
        ),
        Figure(
            "Single numbers only",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "idle.sync.refill": 3},
                copied("DtoH", "pageable", calls=2, ms=0.01, mib=0),
                operator(READ, calls=2, host_ms=4),
            ),
        ),
    ],
)
def read_back(seen: Seen) -> Loss | None:
    """Recognise that whole tensors are copied back to the host in the step.

    ## Why it costs time
    ``.cpu()``, ``.numpy()``, ``.tolist()`` wait until the device has come so far and the copy has
    ended, and then the device waits for the host.

    ## How it is measured
    By copies back beyond those of single numbers, or by their bytes. Steps in which a checkpoint is
    written do not count: that has a cause of its own.
    """
    back = windowed.copies(seen, "DtoH")
    numbers = windowed.calls(seen, READ).count + _SIZES * windowed.calls(seen, *SHAPED).count
    rest = back.count - min(numbers, back.count)
    many = rest if rest >= _RARE else _unseen(back, numbers)
    if not many or "idle.io_main.checkpoint" in seen.study.account.leaves:
        return None
    waits = windowed.calls(seen, "*Synchronize").count
    lost = seen.per_step("copy.d2h", "idle.sync")
    copies = "copy" if windowed.times(many) == "1" else "copies"
    what = "Tensors" if back.bytes is None else windowed.size(back.bytes)
    return read_back.loss(
        f"{what} a step are copied back to the host, in {windowed.times(many)} {copies}; copying "
        f"and waiting leave the device without work for {windowed.of_step(seen, lost)}.",
        Scale(EXACTLY_NONE, leaves=("copy.d2h",)),
        Drop(("idle.sync",), keep=max(0.0, 1 - many / waits) if waits else 0.0),
        evidence=(
            Measure("copies back, a step", many, ""),
            Measure("copying back, a step", back.ns, "ns"),
            Measure("without work, a step", lost, "ns"),
        ),
        no_remedy=(
            "compute metrics on the device and read single numbers now and then; or copy into "
            "pinned memory with non_blocking=True and look at the copy a step later"
        ),
    )


def _unseen(back: windowed.Moved, numbers: float) -> float:
    """Count the copies where numbers of the host's own are read too: then bytes alone tell."""
    large = (back.bytes or 0.0) >= _LEAST + _NUMBER * min(numbers, back.count)
    return back.count if large else 0.0
