"""Kernels of convolutions that are chosen by a table, not by their time."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.cudnn_benchmark import choose_by_time, cudnn_benchmark
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, window_share, work_of
from gapless.model.evidence import Evidence
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure
from gapless.roofline.roofline import MATH, kind_of

_MIN_STEP_SHARE: Final = 0.2  # of the step
_MAX_SHAPES: Final = 200  # of convolutions: more are shapes that change


@rule(
    "G507",
    "untried-convolutions",
    figures="""
    convolution = example_work("aten::cudnn_convolution", ((64, 64, 56, 56), (64, 64, 3, 3)), 30,
      "busy.tc_math", calls=50, concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"))
    # A network of convolutions
    > Convolutions take 30.0 ms of each 50.0 ms step, by kernels that cuDNN chose without measuring
      them.
    gpu()
    busy.tc_math 30, busy.norm_reduce 20
    convolution
    # cuDNN measures
    gpu(precision(cudnn_benchmark=True))
    busy.tc_math 30, busy.norm_reduce 20
    convolution
    # Reproducible results are asked for
    gpu(precision(cudnn_deterministic=True))
    busy.tc_math 30, busy.norm_reduce 20
    convolution
    """,
)
def untried_convolutions(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise convolutions of few shapes for which cuDNN does not try which kernel is fastest.

    ## Why it costs time
    cuDNN has several kernels for each convolution and chooses by a table. On request it tries them
    once for each shape and keeps the fastest: mostly the same, sometimes a much better one.

    ## How it is measured
    By the time of convolutions in the windows. The result of trying is not known, so the gain is an
    interval that begins at nothing.
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
        "Convolutions take "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, rows_ns))}, by kernels "
        "that cuDNN chose without measuring them.",
        *choose_by_time(evidence.study.work),
        measures=(
            Measure("convolutions, a step", ns_per_window_step(evidence, rows_ns), "ns"),
            Measure("different ones", len(rows), ""),
        ),
        helps=(cudnn_benchmark.request(),),
    )
