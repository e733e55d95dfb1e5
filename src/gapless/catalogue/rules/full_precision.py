"""Products that half precision would compute several times as fast."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import count_host_events, uses_half_precision, ns_per_window_step, roof_of, window_share, work_of
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.work_examples import amx, h200, example_work
from gapless.model.facts import Model
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence
from gapless.model.work import Work
from gapless.replay import formats
from gapless.replay.roofline import MATH

_MIN_STEP_SHARE: Final = 0.05  # of the step
_BF16_CAPABILITY: Final[tuple[int, int]] = (8, 0)
_FP16_CAPABILITY: Final[tuple[int, int]] = (7, 0)
_MIN_SPEEDUP: Final = 1.3  # of a processor, in bf16: below, casts would eat it
_LINEAR_SIZES: Final = ((4096, 768), (768, 3072))
_TF32_WORK: Final = example_work("aten::mm", _LINEAR_SIZES, 12, "busy.tc_math", calls=150)
_CPU_WORK: Final = example_work(
    "aten::linear", ((512, 1024), (1024, 1024)), 90, "busy.math", calls=20, launches=0
)


@rule(
    "G502",
    "full-precision",
    since="0.1",
    figures=[
        RuleFigure(
            "TF32, and no autocast",
            "Products and convolutions in fp32 take 12.0 ms of each 30.0 ms step.",
            stated(
                examples.gpu(examples.precision(matmul_precision="high")),
                {"busy.tc_math": 12, "busy.elementwise": 18},
                _TF32_WORK,
                h200(),
            ),
        ),
        RuleFigure(
            "Sixteen processors that multiply in bf16",
            "Products and convolutions in fp32 take 90.0 ms of each 120.0 ms step.",
            stated(
                examples.cpu(examples.machine(device=None, intra_op_threads=16)),
                {"busy.math": 90, "busy.elementwise": 30},
                _CPU_WORK,
                amx(),
            ),
        ),
        RuleFigure(
            "Processors of which that is not known",
            None,
            stated(examples.cpu(), {"busy.math": 90, "busy.elementwise": 30}, _CPU_WORK),
        ),
        RuleFigure(
            "Autocast in bf16",
            None,
            stated(
                examples.gpu(examples.precision(autocast={"cuda": "torch.bfloat16"})),
                {"busy.tc_math": 12, "busy.elementwise": 18},
                example_work("aten::mm", _LINEAR_SIZES, 12, "busy.tc_math", dtype="bf16", calls=150),
                h200(),
            ),
        ),
    ],
)
def full_precision(evidence: Evidence, model: Model) -> Detection | None:
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
    facts = evidence.facts
    if facts is None or uses_half_precision(facts) or model.dtype not in {None, "torch.float32"}:
        return None
    form = _form(evidence)
    rows = [row for row in work_of(evidence) if row.leaf in MATH and row.dtype == "fp32"]
    rows_ns = sum(row.ns for row in rows)
    if form is None or window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    return full_precision.detection(
        f"Products and convolutions in fp32 take {windowed.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}.",
        *formats.half_changes(evidence.study.work, roof_of(evidence), form, count_host_events(evidence)),
        location=model.location,
        measures=(
            Measure("such products, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure("calls of them, a step", _calls_per_step(evidence, rows), ""),
        ),
        helps=(form,),
    )


def _form(evidence: Evidence) -> str | None:
    """Return the format of 16 bits that the machine computes fast with; ``None``: none is known."""
    facts = evidence.facts
    if facts is None:
        return None
    if not evidence.on_device:
        roof = roof_of(evidence)
        if roof is None:
            return None
        half_flops, full_flops = (roof.peaks.flops.get(name, 0.0) for name in ("bf16", "fp32"))
        return "bf16" if half_flops > _MIN_SPEEDUP * full_flops else None
    capability = facts.machine.capability
    if capability is None or capability >= _BF16_CAPABILITY:
        return "bf16"
    return "fp16" if capability >= _FP16_CAPABILITY else None


def _calls_per_step(evidence: Evidence, rows: list[Work]) -> float:
    return ns_per_window_step(evidence, sum(row.calls for row in rows))
