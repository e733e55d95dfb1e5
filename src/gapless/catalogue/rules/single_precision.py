"""Products in fp32 on processors of the device that are a tenth as fast as its tensor cores."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, roof_of, rounds_products, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import h200, worked
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.replay.formats import in_tf32
from gapless.replay.roofline import kind_of

_LEAST: Final = 0.02  # of the step
_SINCE: Final = (8, 0)
_LINEAR: Final = ((4096, 768), (768, 3072))
_SIMT: Final = worked("aten::mm", _LINEAR, 60, "busy.tc_eligible_not_used", calls=150)


@rule(
    "G501",
    "single-precision",
    since="0.1",
    figures=[
        Figure(
            "fp32, as torch has it by default",
            "Matrix products in fp32 take 60.0 ms of each 80.0 ms step, and use no tensor cores.",
            stated(
                examples.gpu(),
                {"busy.tc_eligible_not_used": 60, "busy.elementwise": 20},
                _SIMT,
                h200(),
            ),
        ),
        Figure(
            "On an older device",
            None,
            stated(
                examples.gpu(examples.machine(capability=(7, 0))),
                {"busy.tc_eligible_not_used": 60, "busy.elementwise": 20},
                _SIMT,
            ),
        ),
        Figure(
            "bf16",
            None,
            stated(
                examples.gpu(examples.precision(autocast={"cuda": "torch.bfloat16"})),
                {"busy.tc_math": 9, "busy.elementwise": 20},
                worked("aten::mm", _LINEAR, 9, "busy.tc_math", dtype="bf16", calls=150),
            ),
        ),
    ],
)
def single_precision(seen: Seen) -> Loss | None:
    """Recognise matrix products in fp32 that tensor cores could compute in TF32.

    ## Why it costs time
    torch multiplies in full fp32 unless it is told that rounding the factors to ten bits of
    mantissa will do. Tensor cores then compute the same products several times as fast.

    ## How it is measured
    By the kernels' names and the operators' inputs. What TF32 would take follows from the sizes,
    the device's measured peaks, and how close the kernels come to their own peak today.
    """
    facts = seen.facts
    if not seen.on_device or (facts is not None and (facts.machine.capability or _SINCE) < _SINCE):
        return None
    rows = [
        one
        for one in work_of(seen)
        if one.leaf == "busy.tc_eligible_not_used"
        and one.dtype == "fp32"
        and kind_of(one) == "product"
    ]
    spent = sum(one.ns for one in rows)
    if share(seen, spent) < _LEAST or (facts is not None and rounds_products(facts)):
        return None
    roof = roof_of(seen)
    known = [(one.flops, one.ns) for one in rows if one.flops]
    rate = sum(flops for flops, _ in known) / max(1, sum(ns for _, ns in known)) * 1e9
    return single_precision.loss(
        f"Matrix products in fp32 take {windowed.of_step(seen, per_step(seen, spent))}, "
        "and use no tensor cores.",
        *in_tf32(seen.study.work, roof, convolutions=False),
        evidence=(
            Measure("such products, a step", per_step(seen, spent), "ns"),
            Measure("their speed", rate, "FLOP/s"),
        ),
        helps=("tf32", "bf16") if not seen.foreign else (),
        no_remedy=None if not seen.foreign else 'torch.set_float32_matmul_precision("high").',
    )
