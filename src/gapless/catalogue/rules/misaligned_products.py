"""Matrices whose sides tensor cores cannot divide evenly."""

import re
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import MATH, SAME, kind_of, scales

_LEAST: Final = 0.02  # of the step
_STEPS: Final = {"bf16": 8, "fp16": 8}  # elements, of 16 bytes
_SMALL: Final = 64  # a side below it is no matter of padding
_PADDED: Final = Interval(0.4, 0.7, 1.0)
_ODD: Final = ((8192, 768), (768, 50257))


@rule(
    "G509",
    "misaligned-products",
    since="0.1",
    figures=[
        Figure(
            "A vocabulary of 50,257 words",
            "Products with a side that 8 does not divide take 9.0 ms of each 29.0 ms step: "
            "[8192, 768] [768, 50257].",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "busy.tc_eligible_not_used": 9},
                worked("aten::mm", _ODD, 9, "busy.tc_eligible_not_used", dtype="bf16"),
            ),
        ),
        Figure(
            "50,304 words",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 25},
                worked("aten::mm", ((8192, 768), (768, 50304)), 5, "busy.tc_math", dtype="bf16"),
            ),
        ),
    ],
)
def misaligned_products(seen: Seen) -> Loss | None:
    """Recognise matrix products in half precision with a side that is no multiple of eight.

    ## Why it costs time
    Tensor cores read rows in pieces of 16 bytes. A row that is no multiple of them is read piece by
    piece, or by kernels that use no tensor cores at all.

    ## How it is measured
    By the sizes of the operators' inputs. What padding gives is taken from other runs, not from
    this one, so the gain is a wide interval.
    """
    rows = [one for one in work_of(seen) if _is_odd(one)]
    spent = sum(one.ns for one in rows)
    if not rows or share(seen, spent) < _LEAST:
        return None
    return misaligned_products.loss(
        f"Products with a side that 8 does not divide take "
        f"{windowed.of_step(seen, per_step(seen, spent))}: {rows[0].inputs}.",
        *scales(seen.study.work, lambda work: _PADDED if _is_odd(work) else SAME),
        where=windowed.site(seen, rows[0].operator),
        evidence=(Measure("such products, a step", per_step(seen, spent), "ns"),),
        no_remedy="Pad that side (vocabulary, channels, heads) to a multiple of 64: it changes the "
        "parameters, so it is for a new training.",
    )


def _is_odd(work: Work) -> bool:
    step = _STEPS.get(work.dtype or "")
    if step is None or work.leaf not in MATH or kind_of(work) != "product":
        return False
    sides = [int(one) for one in re.findall(r"\d+(?=[,\]])", work.inputs or "")]
    return any(side > _SMALL and side % step for side in sides)
