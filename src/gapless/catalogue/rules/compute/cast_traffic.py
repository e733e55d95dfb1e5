"""Casts from one type to another, and back."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import dilute_factor, share_outside_attention
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.03  # of the step
_REMAINS: Final = Estimate(0.2, 0.6, 1.0)  # mixed precision needs some casts


@rule(
    "G508",
    "cast-traffic",
    figures="""
    # Casts that take half as long as the products
    > 240 kernels a step only turn numbers into another type: 6.0 ms of each 26.0 ms step.
    gpu()
    busy.tc_math 20, busy.cast 6
    kernel("bfloat16_copy_kernel_cuda", 240, 6, "busy.cast")
    # The casts of autocast
    gpu()
    busy.tc_math 40, busy.cast 0.8
    kernel("bfloat16_copy_kernel_cuda", 240, 0.8, "busy.cast")
    """,
)
def cast_traffic(evidence: Evidence) -> Detection | None:
    """Recognise that casts take a considerable part of the step.

    ## Why it costs time
    A cast reads a tensor and writes it again, and computes nothing. Autocast needs some; a layer
    that insists on fp32 between layers in half precision doubles them.

    ## How it is measured
    By kernels whose operator has inputs and outputs of different types. Some of them must remain.
    """
    casts, spent_ns = windows.sum_kernels(evidence, "busy.cast"), evidence.per_step("busy.cast")
    outside_share = share_outside_attention(evidence, "busy.cast")
    if outside_share * evidence.share("busy.cast") < _MIN_STEP_SHARE or not casts.count:
        return None
    return cast_traffic.detection(
        f"{windows.format_count(casts.count)} kernels a step only turn numbers into another type: "
        f"{windows.format_step_part(evidence, spent_ns)}.",
        Scale(dilute_factor(_REMAINS, outside_share), leaves=("busy.cast",)),
        location=windows.find_calling_function(evidence, "aten::to", "aten::_to_copy"),
        measures=(
            Measure("casts, a step", casts.count, ""),
            Measure("their time, a step", spent_ns, "ns"),
        ),
        no_remedy="Look for .float() and .to() within the model, and for layers that autocast "
        "keeps in fp32 between others; one region of autocast around the whole forward caches "
        "the weights' casts.",
    )
