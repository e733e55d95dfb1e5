"""Numbers that are turned from one type into another, and back."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import beside_attention, part
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import kernel
from gapless.model.change import Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_LEAST: Final = 0.03  # of the step
_LEFT: Final = Interval(0.2, 0.6, 1.0)  # some casts are what mixed precision is


@rule(
    "G508",
    "cast-traffic",
    since="0.1",
    figures=[
        Figure(
            "Half as long as the products",
            "240 kernels a step only turn numbers into another type: 6.0 ms of each 26.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "busy.cast": 6},
                kernel("bfloat16_copy_kernel_cuda", 240, 6, "busy.cast"),
            ),
        ),
        Figure(
            "The casts of autocast",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 40, "busy.cast": 0.8},
                kernel("bfloat16_copy_kernel_cuda", 240, 0.8, "busy.cast"),
            ),
        ),
    ],
)
def cast_traffic(seen: Seen) -> Loss | None:
    """Recognise that casts take a part of the step that is worth a look.

    ## Why it costs time
    A cast reads a tensor and writes it again, and computes nothing. Autocast needs some; a layer
    that insists on fp32 between layers in half precision doubles them.

    ## How it is measured
    By kernels whose operator has inputs and outputs of different types. Some of them must stay.
    """
    found, spent = windowed.kernels(seen, "busy.cast"), seen.per_step("busy.cast")
    beside = beside_attention(seen, "busy.cast")
    if beside * seen.share("busy.cast") < _LEAST or not found.count:
        return None
    return cast_traffic.loss(
        f"{windowed.times(found.count)} kernels a step only turn numbers into another type: "
        f"{windowed.of_step(seen, spent)}.",
        Scale(part(_LEFT, beside), leaves=("busy.cast",)),
        where=windowed.site(seen, "aten::to", "aten::_to_copy"),
        evidence=(
            Measure("casts, a step", found.count, ""),
            Measure("their time, a step", spent, "ns"),
        ),
        no_remedy="Look for .float() and .to() within the model, and for layers that autocast "
        "keeps in fp32 between others; one region of autocast around the whole forward caches "
        "the weights' casts.",
    )
