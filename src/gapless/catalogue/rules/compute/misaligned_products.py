"""Matrices whose sides tensor cores cannot divide evenly."""

import re
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, roof_of, window_share, work_of
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import MATH, NO_CHANGE, Roof, kind_of, scale_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
_ALIGNMENTS: Final = {"bf16": 8, "fp16": 8}  # elements, of 16 bytes
_MIN_SIDE: Final = 64  # smaller sides are not padded
_PADDED_FACTOR: Final = Estimate(0.4, 0.7, 1.0)
# Kernels that read rows of any length, element by element, say so by their name. With other rows
# large products are assumed to come to these parts of the peak.
_UNALIGNED: Final = "_align1>"
_REACHED: Final = Estimate(0.9, 0.7, 0.4)


@rule(
    "G509",
    "misaligned-products",
    figures="""
    odd_sizes = ((8192, 768), (768, 50_257))
    # A vocabulary of 50,257 words
    > Products with a side that 8 does not divide take 9.0 ms of each 29.0 ms step: [8192, 768]
      [768, 50257].
    gpu()
    busy.tc_math 20, busy.tc_eligible_not_used 9
    example_work("aten::mm", odd_sizes, 9, "busy.tc_eligible_not_used", dtype="bf16")
    # 50,304 words
    gpu()
    busy.tc_math 25
    example_work("aten::mm", ((8192, 768), (768, 50_304)), 5, "busy.tc_math", dtype="bf16")
    """,
)
def misaligned_products(evidence: Evidence) -> Detection | None:
    """Recognise matrix products in half precision with a side that is no multiple of eight.

    ## Why it costs time
    Tensor cores read rows in pieces of 16 bytes. A row that is no multiple of that is read element
    by element, or by kernels that use no tensor cores at all.

    ## How it is measured
    By the sizes of the operators' inputs. The effect of padding is taken from other runs, not from
    this one, so the gain is a wide interval. Where the kernel says by its name that it reads rows
    of any length, another one is assumed to come to 40 to 90 % of the device's peak.
    """
    rows = [row for row in work_of(evidence) if _is_odd(row)]
    rows_ns = sum(row.ns for row in rows)
    if not rows or window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    roof = roof_of(evidence)
    return misaligned_products.detection(
        f"Products with a side that 8 does not divide take "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}: "
        f"{rows[0].inputs}.",
        *scale_changes(evidence.study.work, lambda work: _factor(work, roof)),
        location=_find_caller(evidence, rows[0]),
        measures=(Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),),
        no_remedy="Pad that side (vocabulary, channels, heads) to a multiple of 64: it changes the "
        "parameters, so it is for a new training.",
    )


def _find_caller(evidence: Evidence, work: Work) -> Location | None:
    """Return the function that called the operator as often as it had these sides, or nearly so."""
    sites = [site for site in evidence.study.sites if site.name == work.operator]
    site = min(sites, key=lambda site: abs(site.calls - work.calls), default=None)
    return site and Location(site.file, site.line, site.function)


def _factor(work: Work, roof: Roof | None) -> Estimate:
    if not _is_odd(work):
        return NO_CHANGE
    efficiency = roof and roof.efficiency(work, work.dtype or "")
    if not efficiency or _UNALIGNED not in (work.kernel or ""):
        return _PADDED_FACTOR
    reached = (_REACHED.low, _REACHED.mid, _REACHED.high)
    return Estimate(*(min(1.0, efficiency / share) for share in reached))


def _is_odd(work: Work) -> bool:
    alignment = _ALIGNMENTS.get(work.dtype or "")
    if alignment is None or work.leaf not in MATH or kind_of(work) != "product":
        return False
    sides = [int(number) for number in re.findall(r"\d+(?=[,\]])", work.inputs or "")]
    return any(side > _MIN_SIDE and side % alignment for side in sides)
