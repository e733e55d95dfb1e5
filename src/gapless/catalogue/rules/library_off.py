"""Libraries of operators that are switched off."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.facts import Precision
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, kind_of, scales

_LEAST: Final = 0.05  # of the step
# What convolutions take by oneDNN, of what they take without (benchmarks/libraries_off.py); cuDNN
# has more to choose from, and its own kernels for recurrent layers.
_ON_HOST: Final = Interval(0.2, 0.5, 1.0)
_ON_DEVICE: Final = Interval(0.1, 0.4, 1.0)
_CONVOLVED: Final = worked(
    "aten::_slow_conv2d_forward", ((32, 64, 32, 32), (64, 64, 3, 3)), 30, "busy.math", calls=4
)
_LEAVES: Final = {"busy.math": 30, "busy.elementwise": 10}


@rule(
    "G518",
    "library-off",
    since="0.1",
    figures=[
        Figure(
            "Convolutions on processors, without oneDNN",
            "torch.backends.mkldnn.enabled is False: convolutions take 30.0 ms of each 40.0 ms "
            "step without oneDNN.",
            stated(examples.cpu(examples.precision(mkldnn_enabled=False)), _LEAVES, _CONVOLVED),
        ),
        Figure(
            "Convolutions on a device, without cuDNN",
            "torch.backends.cudnn.enabled is False: convolutions take 30.0 ms of each 40.0 ms "
            "step without cuDNN.",
            stated(examples.gpu(examples.precision(cudnn_enabled=False)), _LEAVES, _CONVOLVED),
        ),
        Figure(
            "On a device, oneDNN is not asked",
            None,
            stated(examples.gpu(examples.precision(mkldnn_enabled=False)), _LEAVES, _CONVOLVED),
        ),
        Figure("Both are on", None, stated(examples.cpu(), _LEAVES, _CONVOLVED)),
        Figure(
            "Nothing that it would compute",
            None,
            stated(
                examples.cpu(examples.precision(mkldnn_enabled=False)),
                _LEAVES,
                worked("aten::mm", ((512, 512),) * 2, 30, "busy.math"),
            ),
        ),
    ],
)
def library_off(seen: Seen, precision: Precision) -> Loss | None:
    """Recognise convolutions that are computed without the library that is made for them.

    ## Why it costs time
    torch has convolutions computed by oneDNN on processors and by cuDNN on NVIDIA's devices. Both
    can be switched off, to look for a fault or to get around one, and what stands in for them
    unfolds each picture into a matrix: often several times as slow.

    ## How it is measured
    The recorder notes ``torch.backends.mkldnn.enabled`` and ``torch.backends.cudnn.enabled``, and
    windows tell how long convolutions, and on a device recurrent layers, take. What the library
    would take is known from a few shapes only: the interval is wide.
    """
    flag, library, factor = (
        ("cudnn", "cuDNN", _ON_DEVICE) if seen.on_device else ("mkldnn", "oneDNN", _ON_HOST)
    )
    if precision.settings.get(f"{flag}_enabled") is not False:
        return None
    spent = sum(one.ns for one in work_of(seen) if _is_meant(one, on_device=seen.on_device))
    if share(seen, spent) < _LEAST:
        return None
    of_step = (seen.step_ns or 0.0) * share(seen, spent)
    return library_off.loss(
        f"torch.backends.{flag}.enabled is False: convolutions take "
        f"{windowed.of_step(seen, of_step)} without {library}.",
        *scales(
            seen.study.work,
            lambda work: factor if _is_meant(work, on_device=seen.on_device) else SAME,
        ),
        evidence=(Measure(f"without {library}, a step", of_step, "ns"),),
        no_remedy=f"leave torch.backends.{flag}.enabled as it is from the start: True",
    )


def _is_meant(work: Work, *, on_device: bool) -> bool:
    """Tell whether a library would compute it: on processors that is known of fp32."""
    if work.dtype != "fp32" and not on_device:
        return False
    return kind_of(work) == "convolution" or (on_device and "rnn" in work.operator)
