"""Numbers that the host reads back from the device in the step."""

from collections.abc import Iterator
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.occasions.cadence import log_every
from gapless.catalogue.queries import windows
from gapless.model.change import Omit
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.tables import Line

READ_OPERATOR: Final = "aten::_local_scalar_dense"
READ_CALLS: Final = ("aten::item", "aten::is_nonzero")  # the outermost ones
RESCALING: Final = "aten::_amp_update_scale_"  # once a step of a GradScaler, which reads one number
_MIN_READS_PER_STEP: Final = 0.01  # a step


@rule(
    "G305",
    "scalar-read",
    figures="""
    # Twenty numbers a step, in a step that the host can hardly keep up with
    > The host reads 20 numbers a step back from the device (item, float, bool, print) and waits for
      it each time; that leaves the device idle for 8.2 ms of each 18.2 ms step.
    gpu()
    busy.elementwise 10, idle.sync.return 0.2, idle.sync.refill 8
    operator(READ_OPERATOR, calls=20, host_ms=9)
    example_copies("DtoH", "pageable", calls=20, ms=0.04, mib=0)
    # The loss, at the end of a step of matrix products: seen, and worth hardly anything
    > The host reads 1 number a step back from the device (item, float, bool, print) and waits for
      it each time; that leaves the device idle for 0.1 ms of each 100.1 ms step.
    gpu()
    busy.tc_math 100, idle.sync.refill 0.1
    operator(READ_OPERATOR, calls=1, host_ms=80)
    example_copies("DtoH", "pageable", calls=1, ms=0.002, mib=0)
    # Numbers of tensors that lie on the host
    gpu()
    busy.tc_math 100
    operator(READ_OPERATOR, calls=20, host_ms=0.05)
    # One number, and it is the GradScaler's
    gpu(precision(scaler=True))
    busy.tc_math 100, idle.sync.refill 0.1
    operator(READ_OPERATOR, calls=1, host_ms=80), operator(RESCALING, calls=1, host_ms=0.02)
    example_copies("DtoH", "pageable", calls=1, ms=0.002, mib=0)
    # A tensor is printed
    > The host reads 12 numbers a step back from the device (item, float, bool, print) and waits for
      it each time; that leaves the device idle for 1.0 ms of each 11.0 ms step.
    gpu()
    busy.tc_math 10, idle.sync.refill 1
    operator(READ_OPERATOR, calls=12, host_ms=2)
    example_copies("DtoH", "pageable", calls=12, ms=0.02, mib=0)
    source_line("torch/_tensor_str.py", 650, "_str", host=2)
    """,
)
def scalar_read(evidence: Evidence) -> Detection | None:
    """Recognise that the host asks the device for single numbers, and waits for each.

    ## Why it costs time
    ``item()``, ``float(tensor)``, ``if tensor:``, ``print(tensor)`` return when the device has
    completed all work queued so far. Then it is idle until the host has launched new work: for as
    long as the host needs to get ahead again. If steps are long and launches short that is nearly
    nothing; twenty such calls in a row may cost no more than one.

    ## How it is measured
    Calls are counted where a copy back from the device belongs to them: numbers of tensors on the
    host cost nothing. Their cost is found by replaying the steps without them, never from their
    number. The read of a GradScaler is a cause of its own.
    """
    n_copies = windows.sum_copies(evidence, "DtoH").count
    n_reads = min(windows.sum_calls(evidence, READ_OPERATOR).count, n_copies)
    n_scaler_reads = min(windows.sum_calls(evidence, RESCALING).count, n_reads)
    count = n_reads - n_scaler_reads
    if count < _MIN_READS_PER_STEP:
        return None
    lost_ns = evidence.per_step("idle.sync")
    has_prints = any(True for _ in find_prints(evidence))
    noun = "numbers" if windows.format_count(count) != "1" else "number"
    return scalar_read.detection(
        f"The host reads {windows.format_count(count)} {noun} a step back from the device (item, "
        "float, bool, print) and waits for it each time; that leaves the device idle for "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Omit(READ_CALLS, keep=n_scaler_reads / n_reads),
        measures=(
            Measure("numbers read back, a step", count, ""),
            Measure("waited for, a step", windows.sum_calls(evidence, READ_OPERATOR).host_ns, "ns"),
            Measure("idle afterwards, a step", lost_ns, "ns"),
        ),
        helps=(log_every.request(),) if has_prints else (),
        no_remedy=(
            "add such numbers up on the device (total += loss.detach()) and read them every "
            "n-th step; decide with torch.where, not with if"
        ),
    )


def find_prints(evidence: Evidence) -> Iterator[Line]:
    """Return the lines of torch that format a tensor as text, if they ran."""
    for line in evidence.study.tables.lines:
        if line.file.endswith("torch/_tensor_str.py") and line.calls:
            yield line
