"""Products that half precision would compute several times as fast."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import host_events, in_half, per_step, roof_of, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import amx, h200, worked
from gapless.model.facts import Model
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay import formats
from gapless.replay.roofline import MATH

_LEAST: Final = 0.05  # of the step
_BF16: Final[tuple[int, int]] = (8, 0)
_FP16: Final[tuple[int, int]] = (7, 0)
_FASTER: Final = 1.3  # of a processor, in bf16: below, casts would eat it
_LINEAR: Final = ((4096, 768), (768, 3072))
_TF32: Final = worked("aten::mm", _LINEAR, 12, "busy.tc_math", calls=150)
_ON_CPU: Final = worked(
    "aten::linear", ((512, 1024), (1024, 1024)), 90, "busy.math", calls=20, launches=0
)


@rule(
    "G502",
    "full-precision",
    since="0.1",
    figures=[
        Figure(
            "TF32, and no autocast",
            "Products and convolutions in fp32 take 12.0 ms of each 30.0 ms step.",
            stated(
                examples.gpu(examples.precision(matmul_precision="high")),
                {"busy.tc_math": 12, "busy.elementwise": 18},
                _TF32,
                h200(),
            ),
        ),
        Figure(
            "Sixteen processors that multiply in bf16",
            "Products and convolutions in fp32 take 90.0 ms of each 120.0 ms step.",
            stated(
                examples.cpu(examples.machine(device=None, intra_op_threads=16)),
                {"busy.math": 90, "busy.elementwise": 30},
                _ON_CPU,
                amx(),
            ),
        ),
        Figure(
            "Processors of which that is not known",
            None,
            stated(examples.cpu(), {"busy.math": 90, "busy.elementwise": 30}, _ON_CPU),
        ),
        Figure(
            "Autocast in bf16",
            None,
            stated(
                examples.gpu(examples.precision(autocast={"cuda": "torch.bfloat16"})),
                {"busy.tc_math": 12, "busy.elementwise": 18},
                worked("aten::mm", _LINEAR, 12, "busy.tc_math", dtype="bf16", calls=150),
                h200(),
            ),
        ),
    ],
)
def full_precision(seen: Seen, model: Model) -> Loss | None:
    """Recognise a training in fp32 whose products tensor cores would compute faster in bf16.

    ## Why it costs time
    Half the bits are half the memory to move, and tensor cores compute with them twice as fast as
    with TF32, ten times as fast as with fp32. Autocast casts around each product, which a host that
    is behind, or kernels that are tiny, may not earn back.

    ## How it is measured
    By the operators' inputs, the device's measured peaks, and how close the kernels come to them
    today; the casts that autocast adds are counted, on the device and on the host. On processors
    only where their bf16 was measured to be faster.
    """
    facts = seen.facts
    if facts is None or in_half(facts) or model.dtype not in {None, "torch.float32"}:
        return None
    form = _form(seen)
    rows = [one for one in work_of(seen) if one.leaf in MATH and one.dtype == "fp32"]
    spent = sum(one.ns for one in rows)
    if form is None or share(seen, spent) < _LEAST:
        return None
    return full_precision.loss(
        f"Products and convolutions in fp32 take {windowed.of_step(seen, per_step(seen, spent))}.",
        *formats.in_half(seen.study.work, roof_of(seen), form, host_events(seen)),
        where=model.where,
        evidence=(
            Measure("such products, a step", per_step(seen, spent), "ns"),
            Measure("calls of them, a step", _calls(seen, rows), ""),
        ),
        helps=(form,),
    )


def _form(seen: Seen) -> str | None:
    """Give the format of 16 bits that the machine computes fast with; ``None``: none is known."""
    facts = seen.facts
    if facts is None:
        return None
    if not seen.on_device:
        roof = roof_of(seen)
        if roof is None:
            return None
        half, whole = (roof.peaks.flops.get(one, 0.0) for one in ("bf16", "fp32"))
        return "bf16" if half > _FASTER * whole else None
    have = facts.machine.capability
    if have is None or have >= _BF16:
        return "bf16"
    return "fp16" if have >= _FP16 else None


def _calls(seen: Seen, rows: list[Work]) -> float:
    return per_step(seen, sum(one.calls for one in rows))
