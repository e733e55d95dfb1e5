"""Matrices whose sides tensor cores cannot divide evenly."""

import re
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import ns_per_window_step, window_share, work_of
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.work_examples import example_work
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.model.work import Work
from gapless.replay.roofline import MATH, NO_CHANGE, kind_of, scale_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
_ALIGNMENTS: Final = {"bf16": 8, "fp16": 8}  # elements, of 16 bytes
_MIN_SIDE: Final = 64  # a side below it is no matter of padding
_PADDED_FACTOR: Final = Estimate(0.4, 0.7, 1.0)
_ODD_SIZES: Final = ((8192, 768), (768, 50257))


@rule(
    "G509",
    "misaligned-products",
    since="0.1",
    figures=[
        RuleFigure(
            "A vocabulary of 50,257 words",
            "Products with a side that 8 does not divide take 9.0 ms of each 29.0 ms step: "
            "[8192, 768] [768, 50257].",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "busy.tc_eligible_not_used": 9},
                example_work("aten::mm", _ODD_SIZES, 9, "busy.tc_eligible_not_used", dtype="bf16"),
            ),
        ),
        RuleFigure(
            "50,304 words",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 25},
                example_work("aten::mm", ((8192, 768), (768, 50304)), 5, "busy.tc_math", dtype="bf16"),
            ),
        ),
    ],
)
def misaligned_products(evidence: Evidence) -> Detection | None:
    """Recognise matrix products in half precision with a side that is no multiple of eight.

    ## Why it costs time
    Tensor cores read rows in pieces of 16 bytes. A row that is no multiple of them is read piece by
    piece, or by kernels that use no tensor cores at all.

    ## How it is measured
    By the sizes of the operators' inputs. What padding gives is taken from other runs, not from
    this one, so the gain is a wide interval.
    """
    rows = [row for row in work_of(evidence) if _is_odd(row)]
    rows_ns = sum(row.ns for row in rows)
    if not rows or window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    return misaligned_products.detection(
        f"Products with a side that 8 does not divide take "
        f"{windowed.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}: {rows[0].inputs}.",
        *scale_changes(evidence.study.work, lambda work: _PADDED_FACTOR if _is_odd(work) else NO_CHANGE),
        location=windowed.find_calling_function(evidence, rows[0].operator),
        measures=(Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),),
        no_remedy="Pad that side (vocabulary, channels, heads) to a multiple of 64: it changes the "
        "parameters, so it is for a new training.",
    )


def _is_odd(work: Work) -> bool:
    alignment = _ALIGNMENTS.get(work.dtype or "")
    if alignment is None or work.leaf not in MATH or kind_of(work) != "product":
        return False
    sides = [int(number) for number in re.findall(r"\d+(?=[,\]])", work.inputs or "")]
    return any(side > _MIN_SIDE and side % alignment for side in sides)
