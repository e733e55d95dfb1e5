"""The GradScaler's look for infinities, which waits for the device."""

from gapless.catalogue import examples, windowed
from gapless.catalogue.rules.scalar_read import CALLS, READ, SCALED
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied, operator
from gapless.model.change import Omit
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen


@rule(
    "G309",
    "scaler-wait",
    since="0.1",
    figures=[
        Figure(
            "fp16 with a GradScaler",
            "The GradScaler waits for the device 1 time a step to see whether gradients are "
            "finite; synchronising costs 2.0 ms of each 32.0 ms step.",
            stated(
                examples.gpu(examples.precision(scaler=True)),
                {"busy.tc_math": 30, "idle.sync.refill": 2},
                operator(READ, calls=1, host_ms=20),
                operator(SCALED, calls=1, host_ms=0.02),
                copied("DtoH", "pageable", calls=1, ms=0.002, mib=0),
            ),
        ),
        Figure(
            "bf16, which needs none",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 30, "idle.sync.refill": 2},
                operator(READ, calls=1, host_ms=20),
                copied("DtoH", "pageable", calls=1, ms=0.002, mib=0),
            ),
        ),
    ],
)
def scaler_wait(seen: Seen) -> Loss | None:
    """Recognise that a GradScaler makes the host wait before each step of an optimizer.

    ## Why it costs time
    fp16 needs the loss to be scaled, and steps with infinite gradients to be left out. To know
    that, the host reads a number back between the backward pass and the optimizer's step. bf16 has
    the range of fp32 and needs neither. A fused optimizer takes that number on the device.

    ## How it is measured
    A read from the device for each update of the scale, where that many were seen.
    """
    updates = windowed.calls(seen, SCALED).count
    read = min(windowed.calls(seen, READ).count, windowed.copies(seen, "DtoH").count)
    own = min(updates, read)
    if not own:
        return None
    lost = seen.per_step("idle.sync")
    plural = "times" if windowed.times(own) != "1" else "time"
    return scaler_wait.loss(
        f"The GradScaler waits for the device {windowed.times(own)} {plural} a step to see whether "
        f"gradients are finite; synchronising costs {windowed.of_step(seen, lost)}.",
        Omit(CALLS, keep=1 - own / read),
        evidence=(
            Measure("updates of the scale, a step", updates, ""),
            Measure("idle after reads, a step", lost, "ns"),
        ),
        helps=("bf16", "fused"),
    )
