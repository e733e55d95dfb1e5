"""Products in fp32 on units of the device that are a tenth as fast as its tensor cores."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.bf16 import bf16
from gapless.catalogue.fixes.compute.tf32 import tf32
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import (
    ns_per_window_step,
    roof_of,
    rounds_products,
    window_share,
    work_of,
)
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.roofline.formats import tf32_changes
from gapless.roofline.roofline import kind_of

_MIN_STEP_SHARE: Final = 0.02  # of the step
_TF32_CAPABILITY: Final = (8, 0)


@rule(
    "G501",
    "single-precision",
    figures="""
    linear_sizes = ((4096, 768), (768, 3072))
    simt_work = example_work("aten::mm", linear_sizes, 60, "busy.tc_eligible_not_used", calls=150)
    # fp32, torch's default
    > Matrix products in fp32 take 60.0 ms of each 80.0 ms step, and use no tensor cores.
    gpu()
    busy.tc_eligible_not_used 60, busy.elementwise 20
    simt_work, h200()
    # On an older device
    gpu(machine(capability=(7, 0)))
    busy.tc_eligible_not_used 60, busy.elementwise 20
    simt_work
    # bf16
    gpu(precision(autocast={"cuda": "torch.bfloat16"}))
    busy.tc_math 9, busy.elementwise 20
    example_work("aten::mm", linear_sizes, 9, "busy.tc_math", dtype="bf16", calls=150)
    """,
)
def single_precision(evidence: Evidence) -> Detection | None:
    """Recognise matrix products in fp32 that tensor cores could compute in TF32.

    ## Why it costs time
    torch multiplies in full fp32 unless it is told that rounding the factors to ten bits of
    mantissa will do. Tensor cores then compute the same products several times as fast.

    ## How it is measured
    By the kernels' names and the operators' inputs. What TF32 would take follows from the sizes,
    the device's measured peaks, and how close the kernels come to their own peak today.
    """
    facts = evidence.facts
    if not evidence.on_device or (
        (facts.machine.capability or _TF32_CAPABILITY) < _TF32_CAPABILITY
    ):
        return None
    rows = [
        row
        for row in work_of(evidence)
        if row.leaf == "busy.tc_eligible_not_used"
        and row.dtype == "fp32"
        and kind_of(row) == "product"
    ]
    rows_ns = sum(row.ns for row in rows)
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE or (rounds_products(facts)):
        return None
    roof = roof_of(evidence)
    flops_and_ns = [(row.flops, row.ns) for row in rows if row.flops]
    rate = sum(flops for flops, _ in flops_and_ns) / max(1, sum(ns for _, ns in flops_and_ns)) * 1e9
    return single_precision.detection(
        "Matrix products in fp32 take "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}, and use no "
        "tensor cores.",
        *tf32_changes(evidence.study.work, roof, convolutions=False),
        measures=(
            Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure("their speed", rate, "FLOP/s"),
        ),
        helps=(tf32.request(), bf16.request()) if not evidence.is_trace_only else (),
        no_remedy=None
        if not evidence.is_trace_only
        else 'torch.set_float32_matmul_precision("high").',
    )
