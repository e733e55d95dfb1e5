"""Attention as three operators, with its scores written to memory between them."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.sdpa import sdpa
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, roof_of, window_share, work_of
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.roofline.attention import find_unfused, fusion_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
_FALLBACK_OPERATOR: Final = "aten::_scaled_dot_product_attention_math"


@rule(
    "G505",
    "unfused-attention",
    figures="""
    score_sizes = (96, 1024, 1024)
    naive_work = (example_work("aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, "busy.tc_math",
      dtype="bf16", calls=36), example_work("aten::bmm", (score_sizes, (96, 1024, 64)), 4,
      "busy.tc_math", dtype="bf16", calls=36), example_work("aten::_softmax", (score_sizes,), 14,
      "busy.norm_reduce", calls=24), example_work("aten::masked_fill_", (score_sizes,), 10,
      "busy.elementwise", dtype="bf16", calls=36))
    amp = precision(autocast={"cuda": "torch.bfloat16"})
    # Two products and a softmax
    > Attention writes its scores to memory: its products, softmax and mask take 32.0 ms of each
      50.0 ms step.
    gpu(amp)
    busy.tc_math 18, busy.norm_reduce 14, busy.elementwise 18
    *naive_work, h200()
    # scaled_dot_product_attention, in a case that no fused kernel supports
    > Attention writes its scores to memory, since scaled_dot_product_attention falls back to single
      operators: its products, softmax and mask take 32.0 ms of each 50.0 ms step.
    gpu(amp)
    busy.tc_math 18, busy.norm_reduce 14, busy.elementwise 18
    *naive_work, operator("aten::_scaled_dot_product_attention_math", 12, 2, 30), h200()
    # Flash attention
    gpu(amp)
    busy.tc_math 20
    example_work("aten::_flash_attention_forward", ((8, 1024, 12, 64),) * 3, 2, "busy.tc_math",
      dtype="bf16", calls=12)
    h200()
    """,
)
def unfused_attention(evidence: Evidence) -> Detection | None:
    """Recognise attention that writes its scores to memory and reads them again.

    ## Why it costs time
    Scores are as large as the square of the sequence length, and mask, softmax and dropout each
    read and write all of them. A fused kernel keeps them on the chip.

    ## How it is measured
    By the inputs of the operators: whatever reads or writes a tensor of the shape of the softmax's
    input. What a fused kernel takes follows from the products that remain; on processors from the
    speed of the run's best products. With dropout torch has no fused kernel for processors, and
    little is gained there.
    """
    rows = work_of(evidence)
    attention = find_unfused(rows)
    if (
        attention is None
        or not attention.flops
        or window_share(evidence, attention.ns) < _MIN_STEP_SHARE
    ):
        return None
    has_fallback = (
        bool(windows.select_operators(evidence, _FALLBACK_OPERATOR)) and not evidence.is_trace_only
    )
    reason = (
        ", since scaled_dot_product_attention falls back to single operators"
        if has_fallback
        else ""
    )
    spent_ns = ns_per_window_step(evidence, attention.ns)
    return unfused_attention.detection(
        f"Attention writes its scores to memory{reason}: its products, softmax and mask take "
        f"{windows.format_step_part(evidence, spent_ns)}.",
        *fusion_changes(rows, attention, roof_of(evidence)),
        location=windows.find_calling_function(evidence, "aten::softmax", _FALLBACK_OPERATOR),
        measures=(
            Measure("attention, a step", spent_ns, "ns"),
            Measure("its kernels, a step", ns_per_window_step(evidence, attention.launches), ""),
        ),
        helps=(sdpa.request(),) if has_fallback else (),
        no_remedy=None
        if has_fallback
        else "Call torch.nn.functional.scaled_dot_product_attention in place of the products "
        "and the softmax; in fp16 or bf16 it is a single kernel.",
    )
