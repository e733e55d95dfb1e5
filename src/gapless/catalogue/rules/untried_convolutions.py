"""Kernels of convolutions that were chosen by a table, not by their time."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, share, work_of
from gapless.catalogue.effects.kernels import chosen
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.facts import Precision
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.replay.roofline import MATH, kind_of

_LEAST: Final = 0.2  # of the step
_SHAPES: Final = 200  # of convolutions in some steps: more are shapes that change
_CONV: Final = worked(
    "aten::cudnn_convolution",
    ((64, 64, 56, 56), (64, 64, 3, 3)),
    30,
    "busy.tc_math",
    calls=50,
    concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"),
)


@rule(
    "G507",
    "untried-convolutions",
    since="0.1",
    figures=[
        Figure(
            "A network of convolutions",
            "Convolutions take 30.0 ms of each 50.0 ms step, by kernels that cuDNN chose without "
            "measuring them.",
            stated(examples.gpu(), {"busy.tc_math": 30, "busy.norm_reduce": 20}, _CONV),
        ),
        Figure(
            "cuDNN measures",
            None,
            stated(
                examples.gpu(examples.precision(cudnn_benchmark=True)),
                {"busy.tc_math": 30, "busy.norm_reduce": 20},
                _CONV,
            ),
        ),
        Figure(
            "The same result each time is asked for",
            None,
            stated(
                examples.gpu(examples.precision(cudnn_deterministic=True)),
                {"busy.tc_math": 30, "busy.norm_reduce": 20},
                _CONV,
            ),
        ),
    ],
)
def untried_convolutions(seen: Seen, precision: Precision) -> Loss | None:
    """Recognise convolutions of few shapes, and cuDNN that does not try which kernel is fastest.

    ## Why it costs time
    cuDNN has several kernels for each convolution and chooses by a table. Told to, it tries them
    once for each shape and keeps the fastest: mostly the same, at times one that is much better.

    ## How it is measured
    By the time of convolutions in the windows. What trying would find is not known, so the gain is
    an interval that begins at nothing.
    """
    settings = precision.settings
    if settings.get("cudnn_benchmark") is not False or not seen.on_device:
        return None
    if settings.get("cudnn_deterministic") or settings.get("deterministic"):
        return None
    rows = [one for one in work_of(seen) if one.leaf in MATH and kind_of(one) == "convolution"]
    spent = sum(one.ns for one in rows)
    if share(seen, spent) < _LEAST or len(rows) > _SHAPES:
        return None
    return untried_convolutions.loss(
        f"Convolutions take {windowed.of_step(seen, per_step(seen, spent))}, "
        "by kernels that cuDNN chose without measuring "
        "them.",
        *chosen(seen.study.work),
        evidence=(
            Measure("convolutions, a step", per_step(seen, spent), "ns"),
            Measure("different ones", len(rows), ""),
        ),
        helps=("cudnn-benchmark",),
    )
