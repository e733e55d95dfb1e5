"""Kernels of convolutions that were chosen by a table, not by their time."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import ns_per_window_step, window_share, work_of
from gapless.catalogue.effects.kernels import choose_by_time
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.work_examples import example_work
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence
from gapless.replay.roofline import MATH, kind_of

_MIN_STEP_SHARE: Final = 0.2  # of the step
_MAX_SHAPES: Final = 200  # of convolutions in some steps: more are shapes that change
_CONVOLUTION: Final = example_work(
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
        RuleFigure(
            "A network of convolutions",
            "Convolutions take 30.0 ms of each 50.0 ms step, by kernels that cuDNN chose without "
            "measuring them.",
            stated(examples.gpu(), {"busy.tc_math": 30, "busy.norm_reduce": 20}, _CONVOLUTION),
        ),
        RuleFigure(
            "cuDNN measures",
            None,
            stated(
                examples.gpu(examples.precision(cudnn_benchmark=True)),
                {"busy.tc_math": 30, "busy.norm_reduce": 20},
                _CONVOLUTION,
            ),
        ),
        RuleFigure(
            "The same result each time is asked for",
            None,
            stated(
                examples.gpu(examples.precision(cudnn_deterministic=True)),
                {"busy.tc_math": 30, "busy.norm_reduce": 20},
                _CONVOLUTION,
            ),
        ),
    ],
)
def untried_convolutions(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise convolutions of few shapes, and cuDNN that does not try which kernel is fastest.

    ## Why it costs time
    cuDNN has several kernels for each convolution and chooses by a table. Told to, it tries them
    once for each shape and keeps the fastest: mostly the same, at times one that is much better.

    ## How it is measured
    By the time of convolutions in the windows. What trying would find is not known, so the gain is
    an interval that begins at nothing.
    """
    settings = precision.settings
    if settings.get("cudnn_benchmark") is not False or not evidence.on_device:
        return None
    if settings.get("cudnn_deterministic") or settings.get("deterministic"):
        return None
    rows = [row for row in work_of(evidence) if row.leaf in MATH and kind_of(row) == "convolution"]
    rows_ns = sum(row.ns for row in rows)
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE or len(rows) > _MAX_SHAPES:
        return None
    return untried_convolutions.detection(
        f"Convolutions take {windowed.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}, "
        "by kernels that cuDNN chose without measuring "
        "them.",
        *choose_by_time(evidence.study.work),
        measures=(
            Measure("convolutions, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure("different ones", len(rows), ""),
        ),
        helps=("cudnn-benchmark",),
    )
