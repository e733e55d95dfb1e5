"""Libraries of operators that are switched off."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import setting_location
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import window_share, work_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE, kind_of, scale_changes

_MIN_STEP_SHARE: Final = 0.05  # of the step
# Time of convolutions with oneDNN relative to without (benchmarks/libraries_off.py); cuDNN has more
# kernels to choose from, and its own for recurrent layers.
_CPU_FACTOR: Final = Estimate(0.2, 0.5, 1.0)
_DEVICE_FACTOR: Final = Estimate(0.1, 0.4, 1.0)


@rule(
    "G518",
    "library-off",
    figures="""
    convolution = example_work("aten::_slow_conv2d_forward", ((32, 64, 32, 32), (64, 64, 3, 3)), 30,
      "busy.math", calls=4)
    # Convolutions on processors, without oneDNN
    > torch.backends.mkldnn.enabled is False: convolutions take 30.0 ms of each 40.0 ms step without
      oneDNN.
    cpu(precision(mkldnn_enabled=False))
    busy.math 30, busy.elementwise 10
    convolution
    # Convolutions on a device, without cuDNN
    > torch.backends.cudnn.enabled is False: convolutions take 30.0 ms of each 40.0 ms step without
      cuDNN.
    gpu(precision(cudnn_enabled=False))
    busy.math 30, busy.elementwise 10
    convolution
    # On a device, oneDNN is not used
    gpu(precision(mkldnn_enabled=False))
    busy.math 30, busy.elementwise 10
    convolution
    # Both are on
    cpu()
    busy.math 30, busy.elementwise 10
    convolution
    # Nothing that it would compute
    cpu(precision(mkldnn_enabled=False))
    busy.math 30, busy.elementwise 10
    example_work("aten::mm", ((512, 512),) * 2, 30, "busy.math")
    """,
)
def library_off(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise convolutions that are computed without the library that is made for them.

    ## Why it costs time
    torch computes convolutions by oneDNN on processors and by cuDNN on NVIDIA devices. Both can be
    switched off, to look for a bug or to work around one, and the fallback unfolds each picture
    into a matrix: often several times as slow.

    ## How it is measured
    The recorder notes ``torch.backends.mkldnn.enabled`` and ``torch.backends.cudnn.enabled``, and
    windows show how long convolutions, and on a device recurrent layers, take. What the library
    would take is known for a few shapes only: the interval is wide.
    """
    flag, library, factor = (
        ("cudnn", "cuDNN", _DEVICE_FACTOR)
        if evidence.on_device
        else ("mkldnn", "oneDNN", _CPU_FACTOR)
    )
    if precision.settings.get(f"{flag}_enabled") is not False:
        return None
    rows_ns = sum(
        row.ns for row in work_of(evidence) if _uses_library(row, on_device=evidence.on_device)
    )
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    spent_ns = (evidence.step_ns or 0.0) * window_share(evidence, rows_ns)
    return library_off.detection(
        f"torch.backends.{flag}.enabled is False: convolutions take "
        f"{windows.format_step_part(evidence, spent_ns)} without {library}.",
        *scale_changes(
            evidence.study.work,
            lambda work: factor if _uses_library(work, on_device=evidence.on_device) else NO_CHANGE,
        ),
        location=setting_location(evidence.facts, "library_at"),
        measures=(Measure(f"without {library}, a step", spent_ns, "ns"),),
        no_remedy=f"leave torch.backends.{flag}.enabled as it is from the start: True",
    )


def _uses_library(work: Work, *, on_device: bool) -> bool:
    """Return whether a library would compute a row; on processors that is known for fp32."""
    if work.dtype != "fp32" and not on_device:
        return False
    return kind_of(work) == "convolution" or (on_device and "rnn" in work.operator)
