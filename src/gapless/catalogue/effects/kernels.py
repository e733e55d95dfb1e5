"""Effects of fixes that run other kernels: in another format or layout, or chosen otherwise."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gapless.catalogue.declare.selectors import torch_setting
from gapless.catalogue.queries.compute import (
    count_host_events,
    roof_of,
    rounds_convolutions,
    uses_half_precision,
)
from gapless.model.change import Change, Scale
from gapless.model.edit import Proposal, SetGlobal
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.model.work import Work
from gapless.roofline import formats
from gapless.roofline.attention import find_unfused, fusion_changes
from gapless.roofline.recomputed import keep_activations
from gapless.roofline.roofline import MATH, NO_CHANGE, kind_of, scale_changes

_BENCHMARK_FACTOR: Final = Estimate(
    0.8, 0.97, 1.01
)  # of convolutions: measured, not chosen by a table
_MATH_BACKEND: Final = "_scaled_dot_product_attention_math"
Changes = tuple[Change, ...]
_NO_EFFECT: Final[Changes] = (Scale(NO_CHANGE, leaves=("busy.",)),)  # known to change nothing


def kernel_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what a fix changes in the kernels; ``None``: not known before it is tried."""
    if evidence.facts is None or not evidence.study.work:
        return None
    changes = _EFFECTS_BY_FIX[proposal.fix](evidence, proposal, evidence.facts)
    return _NO_EFFECT if changes == () else changes


def _change_tf32(evidence: Evidence, proposal: Proposal, _facts: Facts) -> Changes | None:
    if not evidence.on_device:
        return None  # what a processor computes in depends on its instructions
    targets = {edit.target for edit in proposal.edits if isinstance(edit, SetGlobal)}
    convolutions = "torch.backends.cudnn.allow_tf32" in targets
    return formats.tf32_changes(evidence.study.work, roof_of(evidence), convolutions=convolutions)


def _change_bf16(evidence: Evidence, _proposal: Proposal, _facts: Facts) -> Changes | None:
    roof = roof_of(evidence)
    if not evidence.on_device and (roof is None or "bf16" not in roof.peaks.flops):
        return None  # a processor may have no instructions for it
    return formats.half_changes(evidence.study.work, roof, "bf16", count_host_events(evidence))


def _change_fp16(evidence: Evidence, _proposal: Proposal, _facts: Facts) -> Changes | None:
    if not evidence.on_device:
        return None
    return formats.half_changes(
        evidence.study.work, roof_of(evidence), "fp16", count_host_events(evidence)
    )


def _change_layout(evidence: Evidence, _proposal: Proposal, facts: Facts) -> Changes | None:
    if not evidence.on_device:
        return None
    return formats.channels_last_changes(
        evidence.study.work,
        roof_of(evidence),
        half=uses_half_precision(facts),
        tf32=rounds_convolutions(facts),
    )


def _change_benchmark(evidence: Evidence, _proposal: Proposal, _facts: Facts) -> Changes:
    return choose_by_time(evidence.study.work)


def choose_by_time(rows: Sequence[Work]) -> Changes:
    """Return what changes if kernels of convolutions are chosen by their time."""

    def factor(work: Work) -> Estimate:
        return (
            _BENCHMARK_FACTOR if work.leaf in MATH and kind_of(work) == "convolution" else NO_CHANGE
        )

    return scale_changes(rows, factor)


def _change_attention(evidence: Evidence, proposal: Proposal, facts: Facts) -> Changes | None:
    """Return what leaving the fallback changes; which fused kernel is best has to be tried."""
    uses_fallback = any(
        _MATH_BACKEND in operator.name for operator in evidence.study.tables.operators
    )
    attention = find_unfused(evidence.study.work) if uses_fallback else None
    if (
        attention is None
        or torch_setting(facts, "flash_sdp") is False
        or "math" in proposal.summary
    ):
        return None
    return fusion_changes(evidence.study.work, attention, roof_of(evidence))


def _change_checkpointing(evidence: Evidence, _proposal: Proposal, _facts: Facts) -> Changes | None:
    return keep_activations(evidence.study.work) or None


_EFFECTS_BY_FIX: Final[Mapping[str, Callable[[Evidence, Proposal, Facts], Changes | None]]] = {
    "tf32": _change_tf32,
    "bf16": _change_bf16,
    "fp16": _change_fp16,
    "channels-last": _change_layout,
    "cudnn-benchmark": _change_benchmark,
    "sdpa": _change_attention,
    "checkpointing-off": _change_checkpointing,
}
KERNEL_FIXES: Final = tuple(_EFFECTS_BY_FIX)
