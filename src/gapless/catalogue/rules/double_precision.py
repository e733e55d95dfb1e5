"""Numbers of 64 bits in a training."""

from collections import Counter
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import roof_of, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import h200, worked
from gapless.model.facts import Model
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import MATH, SAME, kind_of, scales

_LEAST: Final = 0.01  # of the step
_MEMORY: Final = Interval(0.45, 0.55, 0.9)  # half the bytes
_PRODUCT: Final = Interval(0.02, 0.4, 0.95)  # from 64 times as slow to as fast: where not measured
# Of what it takes in fp64 (benchmarks/double_precision.py). Registers of processors hold half as
# many numbers; oneDNN convolves in fp32 and less, for fp64 torch unfolds one image after another.
_ON_HOST: Final = Interval(0.35, 0.45, 0.8)
_CONVOLVED_ON_HOST: Final = Interval(0.06, 0.18, 0.9)
_FOUND: Final = (
    "Find the tensor that begins it (torch.from_numpy of a float64 array, a factor of Python's "
    "numpy) and make it float32."
)
_MODEL: Final = (
    "if nothing in it needs 64 bits (a solver's residuals may): make the model float32 (no "
    ".double(), no default dtype of float64) and its data, too: arrays of NumPy are float64 unless "
    "told otherwise"
)


@rule(
    "G503",
    "double-precision",
    since="0.1",
    figures=[
        Figure(
            "A mask from NumPy",
            "Kernels that compute in fp64 take 6.0 ms of each 26.0 ms step, most of it in "
            "aten::mul.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "busy.elementwise": 6},
                worked(
                    "aten::mul",
                    ((64, 4096, 1024),) * 2,
                    6,
                    "busy.elementwise",
                    dtype="fp64",
                    calls=3,
                ),
                h200(),
            ),
        ),
        Figure(
            "fp32",
            None,
            stated(
                examples.gpu(),
                {"busy.elementwise": 6},
                worked("aten::mul", ((64, 4096, 1024),) * 2, 6, "busy.elementwise", calls=3),
            ),
        ),
        Figure(
            "The model itself",
            "The model computes in fp64: its kernels take 6.0 ms of each 8.0 ms step, most of it "
            "in aten::mm.",
            stated(
                examples.cpu(examples.model(dtype="torch.float64")),
                {"busy.math": 6, "idle.host.python": 2},
                worked("aten::mm", ((512, 512),) * 2, 6, "busy.math", dtype="fp64"),
            ),
        ),
    ],
)
def double_precision(seen: Seen) -> Loss | None:
    """Recognise kernels that compute in fp64.

    ## Why it costs time
    Numbers of 64 bits are twice the memory, and most devices multiply them 32 or 64 times as
    slowly. They come in unasked: NumPy's arrays are float64, and what is computed with one
    becomes so. A model made ``.double()`` to match such data is as slow throughout.

    ## How it is measured
    By the types of the operators' inputs in the windows. Whether a model needs 64 bits is not known
    to gapless.
    """
    rows = [one for one in work_of(seen) if one.dtype == "fp64"]
    spent = sum(one.ns for one in rows)
    if share(seen, spent) < _LEAST:
        return None
    by_name = Counter[str]()
    for one in rows:
        by_name[one.operator] += one.ns
    name = by_name.most_common(1)[0][0]
    model = _model(seen)
    begins = "The model computes in fp64: its kernels" if model else "Kernels that compute in fp64"
    step = seen.step_ns or 0
    of_step = step * share(seen, spent)
    return double_precision.loss(
        f"{begins} take {windowed.of_step(seen, of_step)}, most of it in {name}.",
        *scales(seen.study.work, lambda work: _factor(seen, work)),
        where=(model.where if model else None) or windowed.site(seen, name),
        evidence=(Measure("in fp64, a step", of_step, "ns"),),
        no_remedy=_MODEL if model else _FOUND,
    )


def _model(seen: Seen) -> Model | None:
    """Give the model that computes so itself."""
    models = () if seen.facts is None else seen.facts.models
    return next((one for one in models if one.dtype == "torch.float64"), None)


def _factor(seen: Seen, work: Work) -> Interval:
    if work.dtype != "fp64":
        return SAME
    if work.leaf not in MATH:
        return _MEMORY
    roof = roof_of(seen)
    found = None if roof is None else roof.factor(work, "fp64", "fp32")
    if found is not None or seen.on_device:
        return found or _PRODUCT
    return _CONVOLVED_ON_HOST if kind_of(work) == "convolution" else _ON_HOST
