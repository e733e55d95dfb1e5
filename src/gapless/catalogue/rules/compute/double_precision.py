"""Numbers of 64 bits in a training."""

from collections import Counter
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import roof_of, window_share, work_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Model
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import MATH, NO_CHANGE, kind_of, scale_changes

_MIN_STEP_SHARE: Final = 0.01  # of the step
_MEMORY: Final = Estimate(0.45, 0.55, 0.9)  # half the bytes
_PRODUCT: Final = Estimate(0.02, 0.4, 0.95)  # from 64 times as slow to as fast, if not measured
# Relative to fp64 (benchmarks/double_precision.py). Registers of processors hold half as many fp64
# numbers; oneDNN convolves in fp32 and below, for fp64 torch unfolds one image after another.
_CPU_FACTOR: Final = Estimate(0.35, 0.45, 0.8)
_CPU_CONV_FACTOR: Final = Estimate(0.06, 0.18, 0.9)
_TENSOR_REMEDY: Final = (
    "Find the tensor where it begins (torch.from_numpy of a float64 array, a factor of Python's "
    "numpy) and make it float32."
)
_MODEL_REMEDY: Final = (
    "if nothing in it needs 64 bits (a solver's residuals may): make the model float32 (no "
    ".double(), no default dtype of float64) and its data, too: arrays of NumPy are float64 unless "
    "told otherwise"
)


@rule(
    "G503",
    "double-precision",
    figures="""
    # A mask from NumPy
    > Kernels that compute in fp64 take 6.0 ms of each 26.0 ms step, most of it in aten::mul.
    gpu()
    busy.tc_math 20, busy.elementwise 6
    example_work("aten::mul", ((64, 4096, 1024),) * 2, 6, "busy.elementwise", dtype="fp64", calls=3)
    h200()
    # fp32
    gpu()
    busy.elementwise 6
    example_work("aten::mul", ((64, 4096, 1024),) * 2, 6, "busy.elementwise", calls=3)
    # The model itself
    > The model computes in fp64: its kernels take 6.0 ms of each 8.0 ms step, most of it in
      aten::mm.
    cpu(model(dtype="torch.float64"))
    busy.math 6, idle.host.python 2
    example_work("aten::mm", ((512, 512),) * 2, 6, "busy.math", dtype="fp64")
    """,
)
def double_precision(evidence: Evidence) -> Detection | None:
    """Recognise kernels that compute in fp64.

    ## Why it costs time
    64-bit numbers take twice the memory, and most devices multiply them 32 or 64 times as slowly.
    They often slip in: NumPy's arrays are float64, and so is everything computed with one. A model
    made ``.double()`` to match such data is equally slow throughout.

    ## How it is measured
    By the types of the operators' inputs in the windows. Whether a model needs 64 bits is not
    known to gapless.
    """
    rows = [row for row in work_of(evidence) if row.dtype == "fp64"]
    rows_ns = sum(row.ns for row in rows)
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    ns_by_name = Counter[str]()
    for row in rows:
        ns_by_name[row.operator] += row.ns
    name = ns_by_name.most_common(1)[0][0]
    model = _double_model(evidence)
    subject = "The model computes in fp64: its kernels" if model else "Kernels that compute in fp64"
    step_ns = evidence.step_ns or 0
    spent_ns = step_ns * window_share(evidence, rows_ns)
    return double_precision.detection(
        f"{subject} take {windows.format_step_part(evidence, spent_ns)}, most of it in {name}.",
        *scale_changes(evidence.study.work, lambda work: _factor(evidence, work)),
        location=(model.location if model else None)
        or windows.find_calling_function(evidence, name),
        measures=(Measure("in fp64, a step", spent_ns, "ns"),),
        no_remedy=_MODEL_REMEDY if model else _TENSOR_REMEDY,
    )


def _double_model(evidence: Evidence) -> Model | None:
    """Return the model that itself computes in fp64."""
    models = evidence.facts.models
    return next((model for model in models if model.dtype == "torch.float64"), None)


def _factor(evidence: Evidence, work: Work) -> Estimate:
    if work.dtype != "fp64":
        return NO_CHANGE
    if work.leaf not in MATH:
        return _MEMORY
    roof = roof_of(evidence)
    factor = None if roof is None else roof.factor(work, "fp64", "fp32")
    if factor is not None or evidence.on_device:
        return factor or _PRODUCT
    return _CPU_CONV_FACTOR if kind_of(work) == "convolution" else _CPU_FACTOR
