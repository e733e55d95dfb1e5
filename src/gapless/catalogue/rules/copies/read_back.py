"""Tensors that are copied back to the host in the step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.lines.training_calls import (
    add_callers,
    find_stepping_functions,
)
from gapless.catalogue.rules.copies.data_dependent_shape import DYNAMIC_OPERATORS
from gapless.catalogue.rules.copies.scalar_read import READ_OPERATOR
from gapless.model.change import ZERO_FACTOR, Change, Drop, Omit, Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_NUMBER_BYTES: Final = 8  # bytes of one that is read back
_MIN_BYTES: Final = 4096  # bytes a step beyond those
_SIZE_COPIES: Final = 3  # at most, by an operator with a data-dependent result size
_MIN_COPIES_PER_STEP: Final = 0.05  # copies a step
# Of what is parked on the host: as many copies, and bytes, come back, beside those of batches.
_MIN_PARKED_COPIES: Final = 4  # copies a step
_MIN_PARKED_BYTES: Final = 1e6  # bytes a step
_MIN_RETURNING_SHARE, _MAX_RETURNING_SHARE = 0.9, 1.5
_CONVERSION: Final = "aten::_to_copy"
_HOOKS: Final = ("torch/autograd/graph.py", "pack_")  # of saved tensors, that keep them on the host
_REMEDY: Final = (
    "compute metrics on the device and read single numbers now and then; or copy into "
    "pinned memory with non_blocking=True and look at the copy a step later"
)
_PARKED_REMEDY: Final = (
    "leave on the device what the step needs again there; where memory is short, "
    "torch.utils.checkpoint computes it once more, and save_on_cpu(pin_memory=True) copies faster"
)


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
    # What the backward pass needs is kept on the host meanwhile
    > 42 MB a step are copied back to the host, in 30 copies, and to the device again; copying and
      waiting leave the device without work for 15.0 ms of each 25.0 ms step.
    gpu()
    busy.tc_math 10, copy.d2h 4, copy.h2d.pageable 5, idle.h2d.host 3, idle.sync.refill 3
    example_copies("DtoH", "pageable", calls=30, ms=4, mib=40)
    example_copies("HtoD", "pageable", calls=32, ms=5, mib=44)
    operator("cudaStreamSynchronize", calls=62, host_ms=4)
    operator("aten::_to_copy", calls=62, host_ms=14)
    CallLine("train.py", 31, "train", "torch/_tensor.py", "Tensor.backward", 0.5)
    CallLine("train.py", 30, "train", "model.py", "Net.forward", 0.4)
    CallLine("model.py", 12, "Net.forward", "torch/autograd/graph.py", "pack_to_cpu", 0.2)
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
    By copies back beyond those of single numbers, or by their bytes. Where as many copies of as
    many bytes come to the device in the same step (activations that save_on_cpu keeps, parameters
    that the host updates), both go; if most conversions of the step are these copies, with all that
    the calls do. The line is the one below which tensors are saved, if samples show that. Steps in
    which a checkpoint is written do not count: that has a cause of its own.
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
    noun = "copy" if windows.format_count(count) == "1" else "copies"
    amount = "Tensors" if copies.bytes is None else windows.format_size(copies.bytes)
    words = f"{amount} a step are copied back to the host, in {windows.format_count(count)} {noun}"
    n_returning = _count_returning(evidence, copies)
    leaves = ("copy.d2h", "idle.sync")
    if n_returning:
        words, leaves = f"{words}, and to the device again", (*leaves, "copy.h2d", "idle.h2d")
    lost_ns = evidence.per_step(*leaves)
    return read_back.detection(
        f"{words}; copying and waiting leave the device without work for "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        *_omit_copies(evidence, count, n_returning),
        location=_find_parking(evidence) if n_returning else None,
        measures=(
            Measure("copies back, a step", count, ""),
            Measure("copying back, a step", copies.ns, "ns"),
            Measure("without work, a step", lost_ns, "ns"),
        ),
        no_remedy=_PARKED_REMEDY if n_returning else _REMEDY,
    )


def _count_returning(evidence: Evidence, copies: windows.CopyStats) -> float:
    """Count the copies by which what was copied back comes to the device again; 0: it stays."""
    returning = windows.sum_copies(evidence, "HtoD")
    n_bytes = copies.bytes or 0.0
    if copies.count < _MIN_PARKED_COPIES or n_bytes < _MIN_PARKED_BYTES:
        return 0.0
    ratios = returning.count / copies.count, (returning.bytes or 0.0) / n_bytes
    is_same = min(ratios) >= _MIN_RETURNING_SHARE and max(ratios) <= _MAX_RETURNING_SHARE
    return copies.count if is_same else 0.0


def _omit_copies(evidence: Evidence, count: float, n_returning: float) -> tuple[Change, ...]:
    """Return the changes without the copies: what comes back goes with all that its calls do.

    Not where most of these calls are of another kind: casts of autocast, or none, as into pinned
    memory.
    """
    n_calls, n_both = windows.sum_calls(evidence, _CONVERSION).count, 2 * n_returning
    back = Scale(ZERO_FACTOR, leaves=("copy.d2h",))
    if n_both and n_both <= n_calls <= _MAX_RETURNING_SHARE * n_both:
        return (Omit((_CONVERSION,), keep=1 - n_both / n_calls), back)
    n_waits = windows.sum_calls(evidence, "*Synchronize").count
    changes = (
        back,
        Drop(("idle.sync",), keep=max(0.0, 1 - (count + n_returning) / n_waits) if n_waits else 0),
    )
    if not n_returning:
        return changes
    remaining = max(0.0, 1 - n_returning / windows.sum_copies(evidence, "HtoD").count)
    return (
        *changes,
        Scale(Estimate(remaining, remaining, remaining), leaves=("copy.h2d",)),
        Drop(("idle.h2d",), keep=remaining),
    )


def _find_parking(evidence: Evidence) -> Location | None:
    """Return the stepping function's line below which tensors are saved to the host, by samples."""
    calls = evidence.call_lines
    file, name = _HOOKS
    hooks = {
        (call.callee_file, call.callee)
        for call in calls
        if call.callee_file.replace("\\", "/").endswith(file)
        and call.callee.rpartition(".")[2].startswith(name)
    }
    savers, steps = add_callers(hooks, calls), find_stepping_functions(calls)
    lines = [
        call
        for call in calls
        if (call.file, call.function) in steps and (call.callee_file, call.callee) in savers
    ]
    line = max(lines, key=lambda call: call.share, default=None)
    return None if line is None else Location(line.file, line.line, line.function)


def _count_large_copies(copies: windows.CopyStats, n_numbers: float) -> float:
    """Count large copies by bytes alone, where values on the host are read, too."""
    is_large = (copies.bytes or 0.0) >= _MIN_BYTES + _NUMBER_BYTES * min(n_numbers, copies.count)
    return copies.count if is_large else 0.0
