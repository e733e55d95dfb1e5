"""Products in half precision on processors that have no instructions for it."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import (
    ns_per_window_step,
    roof_of,
    uses_half_precision,
    window_share,
    work_of,
)
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Machine
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import MATH, NO_CHANGE, Roof, scale_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
# For such products without measured peaks: torch's loops took 1.1 to 72 times as long as fp32
# (matrices of one row to 512); tiny ones take as long.
_UNMEASURED_FACTOR: Final = Estimate(0.02, 0.2, 0.9)
_SLOWEST: Final = 5e9  # fp32 operations a second: a processor with AVX2 does ten times that
_CALL_NS: Final = 20_000.0  # of a product of tiny matrices, and more


@rule(
    "G512",
    "emulated-half",
    figures="""
    product_sizes = ((512, 96), (96, 384))
    example_run(*, has_bf16, dtype="bf16") = evidence_of(cpu(machine(device=None, capability=None,
      bf16=has_bf16), precision(autocast={"cpu": "torch.bfloat16"} if dtype == "bf16" else None)),
      {"busy.math": 90, "busy.elementwise": 30}, example_work("aten::addmm", product_sizes, 90,
      "busy.math", dtype=dtype, calls=20, launches=0))
    # Autocast on processors without AVX-512
    > Products in half precision take 90.0 ms of each 120.0 ms step, on processors that have no
      instructions for them.
    example_run(has_bf16=False)
    # Processors that multiply in bf16
    example_run(has_bf16=True)
    # Processors for which that is not known
    example_run(has_bf16=None)
    # fp32
    example_run(has_bf16=False, dtype="fp32")
    """,
)
def emulated_half(evidence: Evidence, machine: Machine) -> Detection | None:
    """Recognise products in half precision on processors that have no instructions for it.

    ## Why it costs time
    oneDNN multiplies in bf16 with AVX-512 (fast with its bf16 instructions, or AMX). Elsewhere
    torch uses loops of its own, which convert each number to fp32 and back, without blocking: large
    products took seventy times as long as in fp32.

    ## How it is measured
    The recorder asks torch whether oneDNN supports bf16 on these processors; the operators' inputs
    show which products used it. If the processors' peaks were not measured (``gapless try
    --machine``) the gain is a wide interval.
    """
    if evidence.on_device or machine.bf16 is not False or not uses_half_precision(evidence.facts):
        return None
    rows = [row for row in work_of(evidence) if _is_half(row)]
    rows_ns = sum(row.ns for row in rows)
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    roof = roof_of(evidence)
    return emulated_half.detection(
        "Products in half precision take "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}, on "
        "processors that have no instructions for them.",
        *scale_changes(evidence.study.work, lambda work: _factor(work, roof)),
        location=_autocast_location(evidence.facts)
        or windows.find_calling_function(evidence, rows[0].operator),
        measures=(
            Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure(
                "calls of them, a step",
                ns_per_window_step(evidence, sum(row.calls for row in rows)),
                "",
            ),
        ),
        no_remedy="Leave out autocast (enabled=False), and keep the weights in float32, where this "
        "training runs on such processors.",
    )


def _autocast_location(facts: Facts) -> Location | None:
    return None if facts.precision is None else facts.precision.location


def _is_half(work: Work) -> bool:
    return work.leaf in MATH and work.dtype in {"bf16", "fp16"}


def _factor(work: Work, roof: Roof | None) -> Estimate:
    if not _is_half(work):
        return NO_CHANGE
    factor = None if roof is None else roof.factor(work, work.dtype or "bf16", "fp32")
    return factor or _estimate_factor(work)


def _estimate_factor(work: Work) -> Estimate:
    """Return the time of products in fp32 without a measured peak: at most that of slow processors.

    Other processes may be included in the observed time, hence the wide margins.
    """
    if work.flops is None or not work.ns:
        return _UNMEASURED_FACTOR
    needed_share = (work.flops / _SLOWEST * 1e9 + work.calls * _CALL_NS) / work.ns
    high = max(_UNMEASURED_FACTOR.low, min(_UNMEASURED_FACTOR.high, needed_share))
    return Estimate(_UNMEASURED_FACTOR.low, min(_UNMEASURED_FACTOR.mid, high), high)
