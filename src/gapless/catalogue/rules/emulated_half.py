"""Products in half precision on processors that have no instructions for it."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import in_half, per_step, roof_of, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.edit import Where
from gapless.model.facts import Facts, Machine
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import MATH, SAME, Roof, scales

_LEAST: Final = 0.02  # of the step
# Of such products, where the processors' peaks were not measured: torch's loops took 1.1 to 72
# times as long as fp32 (matrices of one row to 512); what is hardly computed with takes as long.
_WIDE: Final = ((512, 96), (96, 384))
_UNMEASURED: Final = Interval(0.02, 0.2, 0.9)
_SLOWEST: Final = 5e9  # operations a second, fp32: one processor with AVX2 comes to ten times that
_CALL_NS: Final = 20_000.0  # of a product of hardly anything, and more


def _run(*, able: bool | None, dtype: str = "bf16") -> Seen:
    facts = examples.cpu(
        examples.machine(device=None, capability=None, bf16=able),
        examples.precision(autocast={"cpu": "torch.bfloat16"} if dtype == "bf16" else None),
    )
    return stated(
        facts,
        {"busy.math": 90, "busy.elementwise": 30},
        worked("aten::addmm", _WIDE, 90, "busy.math", dtype=dtype, calls=20, launches=0),
    )


@rule(
    "G512",
    "emulated-half",
    since="0.1",
    figures=[
        Figure(
            "Autocast on processors without AVX-512",
            "Products in half precision take 90.0 ms of each 120.0 ms step, on processors that "
            "have no instructions for them.",
            _run(able=False),
        ),
        Figure("Processors that multiply in bf16", None, _run(able=True)),
        Figure("Processors of which that is not known", None, _run(able=None)),
        Figure("fp32", None, _run(able=False, dtype="fp32")),
    ],
)
def emulated_half(seen: Seen, machine: Machine) -> Loss | None:
    """Recognise products in half precision on processors that have no instructions for it.

    ## Why it costs time
    oneDNN multiplies in bf16 with AVX-512 (fast with its bf16 instructions, or AMX). Elsewhere
    torch does so by loops of its own, which turn each number into fp32 and back and block nothing:
    large products took seventy times as long as in fp32.

    ## How it is measured
    The recorder asks torch whether oneDNN takes bf16 on these processors; the operators' inputs
    tell which products ran so. Where the processors' peaks were not measured (``gapless try
    --machine``) the gain is a wide interval.
    """
    facts = seen.facts
    if seen.on_device or machine.bf16 is not False or facts is None or not in_half(facts):
        return None
    rows = [one for one in work_of(seen) if _is_half(one)]
    spent = sum(one.ns for one in rows)
    if share(seen, spent) < _LEAST:
        return None
    roof = roof_of(seen)
    return emulated_half.loss(
        f"Products in half precision take {windowed.of_step(seen, per_step(seen, spent))}, "
        "on processors that have no instructions for them.",
        *scales(seen.study.work, lambda work: _factor(work, roof)),
        where=_autocast(facts) or windowed.site(seen, rows[0].operator),
        evidence=(
            Measure("such products, a step", per_step(seen, spent), "ns"),
            Measure("calls of them, a step", per_step(seen, sum(one.calls for one in rows)), ""),
        ),
        no_remedy="Leave out autocast (enabled=False), and keep the weights in float32, where this "
        "training runs on such processors.",
    )


def _autocast(facts: Facts) -> Where | None:
    return None if facts.precision is None else facts.precision.where


def _is_half(work: Work) -> bool:
    return work.leaf in MATH and work.dtype in {"bf16", "fp16"}


def _factor(work: Work, roof: Roof | None) -> Interval:
    if not _is_half(work):
        return SAME
    found = None if roof is None else roof.factor(work, work.dtype or "bf16", "fp32")
    return found or _reckoned(work)


def _reckoned(work: Work) -> Interval:
    """Give what products take in fp32 where no peak was measured: no more than on slow processors.

    What others take from the processors is in the time that was seen, hence the wide margins.
    """
    if work.flops is None or not work.ns:
        return _UNMEASURED
    needs = (work.flops / _SLOWEST * 1e9 + work.calls * _CALL_NS) / work.ns
    high = max(_UNMEASURED.low, min(_UNMEASURED.high, needs))
    return Interval(_UNMEASURED.low, min(_UNMEASURED.mid, high), high)
