"""Casts from one type to another, and back."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import (
    StoredCasts,
    dilute_factor,
    find_stored_casts,
    share_outside_attention,
)
from gapless.model.change import Change, Omit, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.03  # of the step
_REMAINS: Final = Estimate(0.2, 0.6, 1.0)  # mixed precision needs some casts
_STORED_REMEDY: Final = (
    "Keep what the backward pass needs as it is, without hooks (saved_tensors_hooks) that cast it; "
    "if memory is short, compute in bfloat16 (torch.autocast), which needs as little."
)
_MIN_STORED_SHARE: Final = 0.8  # of the casts, to a type that nothing computes with, and back


@rule(
    "G508",
    "cast-traffic",
    figures="""
    # Casts that take half as long as the products
    > 240 kernels a step only turn numbers into another type: 6.0 ms of each 26.0 ms step.
    gpu()
    busy.tc_math 20, busy.cast 6
    kernel("bfloat16_copy_kernel_cuda", 240, 6, "busy.cast")
    # Activations kept in half precision, by hooks, though all products are in fp32
    > 240 kernels a step only turn numbers into another type: 6.0 ms of each 26.0 ms step. They are
      to fp16 and back, and no operator computes in it.
    gpu()
    busy.tc_math 20, busy.cast 6
    kernel("float16_copy_kernel_cuda", 240, 6, "busy.cast")
    example_work("aten::copy_", ((4096, 4096),) * 2, 2, "busy.cast", dtype="fp16", calls=120)
    example_work("aten::copy_", ((4096, 4096),) * 2, 4, "busy.cast", dtype="fp32", calls=120)
    example_work("aten::mm", ((4096, 4096),) * 2, 20, "busy.tc_math", dtype="fp32", calls=10)
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
    By kernels whose operator has inputs and outputs of different types. Some of them must remain,
    unless they go to half precision and back, and no operator computes in it.
    """
    casts, spent_ns = windows.sum_kernels(evidence, "busy.cast"), evidence.per_step("busy.cast")
    outside_share = share_outside_attention(evidence, "busy.cast")
    stored = find_stored_casts(evidence)
    is_stored = stored.share >= _MIN_STORED_SHARE
    share = (1.0 if is_stored else outside_share) * evidence.share("busy.cast")
    if share < _MIN_STEP_SHARE or not casts.count:
        return None
    words = f" They are to {stored.dtype} and back, and no operator computes in it."
    return cast_traffic.detection(
        f"{windows.format_count(casts.count)} kernels a step only turn numbers into another type: "
        f"{windows.format_step_part(evidence, spent_ns)}.{words if is_stored else ''}",
        *_changes(evidence, outside_share, stored),
        location=windows.find_calling_function(evidence, "aten::to", "aten::_to_copy"),
        measures=(
            Measure("casts, a step", casts.count, ""),
            Measure("their time, a step", spent_ns, "ns"),
        ),
        no_remedy=_STORED_REMEDY
        if is_stored
        else "Look for .float() and .to() within the model, and for layers that autocast "
        "keeps in fp32 between others; one region of autocast around the whole forward caches "
        "the weights' casts.",
    )


def _changes(evidence: Evidence, outside_share: float, stored: StoredCasts) -> Sequence[Change]:
    """Return what goes: calls and all where casts only store, else a part of the device's time.

    Calls that copy between devices stay.
    """
    if stored.share >= _MIN_STORED_SHARE:
        n_casts = windows.sum_kernels(evidence, "busy.cast").count
        n_calls = max(n_casts, windows.sum_calls(evidence, "aten::_to_copy").count)
        return [Omit(("aten::_to_copy",), keep=1 - stored.share * n_casts / n_calls)]
    return [Scale(dilute_factor(_REMAINS, outside_share), leaves=("busy.cast",))]
