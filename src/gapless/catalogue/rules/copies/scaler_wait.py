"""The GradScaler's check for infinities, which waits for the device."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.bf16 import bf16
from gapless.catalogue.fixes.host.fused import fused
from gapless.catalogue.queries import windows
from gapless.catalogue.rules.copies.scalar_read import READ_CALLS, READ_OPERATOR, RESCALING
from gapless.model.change import Omit
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure


@rule(
    "G309",
    "scaler-wait",
    figures="""
    # fp16 with a GradScaler
    > The GradScaler waits for the device 1 time a step to see whether gradients are finite;
      synchronising costs 2.0 ms of each 32.0 ms step.
    gpu(precision(scaler=True))
    busy.tc_math 30, idle.sync.refill 2
    operator(READ_OPERATOR, calls=1, host_ms=20), operator(RESCALING, calls=1, host_ms=0.02)
    example_copies("DtoH", "pageable", calls=1, ms=0.002, mib=0)
    # bf16, which needs none
    gpu()
    busy.tc_math 30, idle.sync.refill 2
    operator(READ_OPERATOR, calls=1, host_ms=20)
    example_copies("DtoH", "pageable", calls=1, ms=0.002, mib=0)
    """,
)
def scaler_wait(evidence: Evidence) -> Detection | None:
    """Recognise that a GradScaler makes the host wait before each step of an optimizer.

    ## Why it costs time
    With fp16 the loss must be scaled, and steps with infinite gradients must be skipped. For that
    the host reads a number back between the backward pass and the optimizer's step. bf16 has the
    range of fp32 and needs neither. A fused optimizer uses that number on the device.

    ## How it is measured
    A read from the device for each update of the scale, where that many were seen.
    """
    n_updates = windows.sum_calls(evidence, RESCALING).count
    n_reads = min(
        windows.sum_calls(evidence, READ_OPERATOR).count, windows.sum_copies(evidence, "DtoH").count
    )
    waits = min(n_updates, n_reads)
    if not waits:
        return None
    lost_ns = evidence.per_step("idle.sync")
    noun = "times" if windows.format_count(waits) != "1" else "time"
    return scaler_wait.detection(
        f"The GradScaler waits for the device {windows.format_count(waits)} {noun} a step to see "
        "whether gradients are finite; synchronising costs "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Omit(READ_CALLS, keep=1 - waits / n_reads),
        measures=(
            Measure("updates of the scale, a step", n_updates, ""),
            Measure("idle after reads, a step", lost_ns, "ns"),
        ),
        helps=(bf16.request(), fused.request()),
    )
