"""Gradients that are filled with zeros before each step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Omit
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_ZERO: Final = "Optimizer.zero_grad#*"
_ACCUMULATE: Final = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
_LEFT: Final = 0.1  # of a zero_grad, if it only drops references
_HANDED: Final = 0.4  # of accumulating, if a gradient is taken over and not added


@rule(
    "G213",
    "zeroed-gradients",
    since="0.1",
    figures=[
        Figure(
            "zero_grad(set_to_none=False)",
            "Gradients are filled with zeros, and the next ones added to them: 1.2 ms of the "
            "host's and 0.5 ms of the device's in each 22.0 ms step.",
            stated(
                examples.gpu(zero_grad_to_zero=312),
                {"busy.tc_math": 20, "busy.zero_grad": 0.5, "busy.elementwise": 1.5},
                operator("Optimizer.zero_grad#AdamW.zero_grad", 1, 1.2, 0.5),
            ),
        ),
        Figure(
            "Dropped, as torch does by itself",
            None,
            stated(
                examples.gpu(zero_grad_to_zero=0),
                {"busy.tc_math": 20},
                operator("Optimizer.zero_grad#AdamW.zero_grad", 1, 0.1, 0),
            ),
        ),
    ],
)
def zeroed_gradients(seen: Seen) -> Loss | None:
    """Recognise that gradients are set to zero where they could be dropped.

    ## Why it costs time
    Zeros are written, read again and added to. A gradient that is dropped is replaced by the next
    one: nothing is written or added.

    ## How it is measured
    By calls that ask for zeros; in other traces by the kernels launched in ``zero_grad``.
    """
    zeroing = windowed.calls(seen, _ZERO)
    facts = seen.facts
    known = None if facts is None else facts.calls.get("zero_grad_to_zero")
    if known == 0 or (known is None and not zeroing.device_ns):
        return None
    return zeroed_gradients.loss(
        "Gradients are filled with zeros, and the next ones added to them: "
        f"{windowed.ms(zeroing.host_ns)} of the host's and {windowed.ms(zeroing.device_ns)} of the "
        f"device's in each {windowed.ms(seen.step_ns or 0)} step.",
        *dropped(seen),
        evidence=(
            Measure("zero_grad on the host, a step", zeroing.host_ns, "ns"),
            Measure("zero_grad on the device, a step", zeroing.device_ns, "ns"),
        ),
        helps=("set-to-none",),
    )


def dropped(seen: Seen) -> tuple[Change, ...]:
    """Give what changes if gradients are dropped."""
    passes = (seen.facts.world.micro_batches if seen.facts else None) or 1.0
    again = (passes - 1 + _HANDED) / passes  # later passes of a step add up all the same
    return (Omit((_ZERO,), keep=_LEFT), Omit((_ACCUMULATE,), keep=min(1.0, again)))
