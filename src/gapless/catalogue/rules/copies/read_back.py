"""Tensors that are copied back to the host in the step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.rules.copies.data_dependent_shape import DYNAMIC_OPERATORS
from gapless.catalogue.rules.copies.scalar_read import READ_OPERATOR
from gapless.model.change import ZERO_FACTOR, Drop, Scale
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_NUMBER_BYTES: Final = 8  # bytes of one that is read back
_MIN_BYTES: Final = 4096  # bytes a step beyond those
_SIZE_COPIES: Final = 3  # at most, by an operator with a data-dependent result size
_MIN_COPIES_PER_STEP: Final = 0.05  # copies a step


@rule(
    "G308",
    "read-back",
    figures="""
    # Metrics are computed on the host
    > 21 MB a step are copied back to the host, in 2 copies; copying and waiting leave the device
      without work for 5.0 ms of each 25.0 ms step.
    gpu()
    busy.tc_math 20, copy.d2h 2, idle.sync.refill 3
    example_copies("DtoH", "pageable", calls=2, ms=2, mib=20)
    operator("cudaStreamSynchronize", calls=2, host_ms=4)
    # A few values are logged: seen, and worth little
    > 64 bytes a step are copied back to the host, in 1 copy; copying and waiting leave the device
      without work for 0.2 ms of each 20.2 ms step.
    gpu()
    busy.tc_math 20, idle.sync.refill 0.2
    replace(example_copies("DtoH", "pageable", calls=1, ms=0.002), bytes=640)
    operator("cudaStreamSynchronize", calls=1, host_ms=4)
    # Single numbers only
    gpu()
    busy.tc_math 20, idle.sync.refill 3
    example_copies("DtoH", "pageable", calls=2, ms=0.01, mib=0)
    operator(READ_OPERATOR, calls=2, host_ms=4)
    """,
)
def read_back(evidence: Evidence) -> Detection | None:
    """Recognise that entire tensors are copied back to the host in the step.

    ## Why it costs time
    ``.cpu()``, ``.numpy()``, ``.tolist()`` wait until the device has caught up and the copy has
    ended, and then the device waits for the host.

    ## How it is measured
    By copies back beyond those of single numbers, or by their bytes. Steps in which a checkpoint is
    written do not count: that has a cause of its own.
    """
    copies = windows.sum_copies(evidence, "DtoH")
    n_numbers = (
        windows.sum_calls(evidence, READ_OPERATOR).count
        + _SIZE_COPIES * windows.sum_calls(evidence, *DYNAMIC_OPERATORS).count
    )
    excess = copies.count - min(n_numbers, copies.count)
    count = excess if excess >= _MIN_COPIES_PER_STEP else _count_large_copies(copies, n_numbers)
    if not count or "idle.io_main.checkpoint" in evidence.study.account.leaves:
        return None
    n_waits = windows.sum_calls(evidence, "*Synchronize").count
    lost_ns = evidence.per_step("copy.d2h", "idle.sync")
    noun = "copy" if windows.format_count(count) == "1" else "copies"
    amount = "Tensors" if copies.bytes is None else windows.format_size(copies.bytes)
    return read_back.detection(
        f"{amount} a step are copied back to the host, in {windows.format_count(count)} {noun}; "
        "copying and waiting leave the device without work for "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Scale(ZERO_FACTOR, leaves=("copy.d2h",)),
        Drop(("idle.sync",), keep=max(0.0, 1 - count / n_waits) if n_waits else 0.0),
        measures=(
            Measure("copies back, a step", count, ""),
            Measure("copying back, a step", copies.ns, "ns"),
            Measure("without work, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "compute metrics on the device and read single numbers now and then; or copy into "
            "pinned memory with non_blocking=True and look at the copy a step later"
        ),
    )


def _count_large_copies(copies: windows.CopyStats, n_numbers: float) -> float:
    """Count large copies by bytes alone, where values on the host are read, too."""
    is_large = (copies.bytes or 0.0) >= _MIN_BYTES + _NUMBER_BYTES * min(n_numbers, copies.count)
    return copies.count if is_large else 0.0
