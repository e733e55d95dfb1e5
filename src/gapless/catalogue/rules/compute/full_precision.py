"""Products that half precision would compute several times as fast."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.bf16 import bf16
from gapless.catalogue.fixes.compute.fp16 import fp16
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import (
    count_host_events,
    ns_per_window_step,
    roof_of,
    uses_half_precision,
    window_share,
    work_of,
)
from gapless.model.evidence import Evidence
from gapless.model.facts import Model
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline import formats
from gapless.roofline.roofline import MATH

_MIN_STEP_SHARE: Final = 0.05  # of the step
_BF16_CAPABILITY: Final[tuple[int, int]] = (8, 0)
_FP16_CAPABILITY: Final[tuple[int, int]] = (7, 0)
_FIXES: Final = {"bf16": bf16, "fp16": fp16}  # by format
_MIN_SPEEDUP: Final = 1.3  # of a processor, in bf16: below it, casts would undo it


@rule(
    "G502",
    "full-precision",
    figures="""
    linear_sizes = ((4096, 768), (768, 3072))
    tf32_work = example_work("aten::mm", linear_sizes, 12, "busy.tc_math", calls=150)
    cpu_work = example_work("aten::linear", ((512, 1024), (1024, 1024)), 90, "busy.math", calls=20,
      launches=0)
    # TF32, and no autocast
    > Products and convolutions in fp32 take 12.0 ms of each 30.0 ms step.
    gpu(precision(matmul_precision="high"))
    busy.tc_math 12, busy.elementwise 18
    tf32_work, h200()
    # Sixteen processors that multiply in bf16
    > Products and convolutions in fp32 take 90.0 ms of each 120.0 ms step.
    cpu(machine(device=None, intra_op_threads=16))
    busy.math 90, busy.elementwise 30
    cpu_work, amx()
    # Processors for which that is not known
    cpu()
    busy.math 90, busy.elementwise 30
    cpu_work
    # Autocast in bf16
    gpu(precision(autocast={"cuda": "torch.bfloat16"}))
    busy.tc_math 12, busy.elementwise 18
    example_work("aten::mm", linear_sizes, 12, "busy.tc_math", dtype="bf16", calls=150), h200()
    """,
)
def full_precision(evidence: Evidence, model: Model) -> Detection | None:
    """Recognise a training in fp32 whose products tensor cores would compute faster in bf16.

    ## Why it costs time
    Half the bits are half the memory to move, and tensor cores compute with them twice as fast as
    with TF32, ten times as fast as with fp32. Autocast casts around each product, which may not pay
    off if the host is behind, or kernels are tiny.

    ## How it is measured
    By the operators' inputs, the device's measured peaks, and how close the kernels come to them
    today; the casts that autocast adds are included, on the device and on the host. On processors
    only if their bf16 was measured to be faster.
    """
    facts = evidence.facts
    if uses_half_precision(facts) or model.dtype not in {None, "torch.float32"}:
        return None
    form = _form(evidence)
    rows = [row for row in work_of(evidence) if row.leaf in MATH and row.dtype == "fp32"]
    rows_ns = sum(row.ns for row in rows)
    if form is None or window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    return full_precision.detection(
        "Products and convolutions in fp32 take "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}.",
        *formats.half_changes(
            evidence.study.work, roof_of(evidence), form, count_host_events(evidence)
        ),
        location=model.location,
        measures=(
            Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure("calls of them, a step", _calls_per_step(evidence, rows), ""),
        ),
        helps=(_FIXES[form].request(),),
    )


def _form(evidence: Evidence) -> str | None:
    """Return the 16-bit format in which the machine computes fast; ``None``: none is known."""
    if not evidence.on_device:
        roof = roof_of(evidence)
        if roof is None:
            return None
        half_flops, full_flops = (roof.peaks.flops.get(name, 0.0) for name in ("bf16", "fp32"))
        return "bf16" if half_flops > _MIN_SPEEDUP * full_flops else None
    capability = evidence.facts.machine.capability
    if capability is None or capability >= _BF16_CAPABILITY:
        return "bf16"
    return "fp16" if capability >= _FP16_CAPABILITY else None


def _calls_per_step(evidence: Evidence, rows: list[Work]) -> float:
    return ns_per_window_step(evidence, sum(row.calls for row in rows))
