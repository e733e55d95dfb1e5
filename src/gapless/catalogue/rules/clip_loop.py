"""Gradients that are measured and clipped one by one."""

from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.windowed import Calls
from gapless.model.change import Hosted, Omit
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

NORM: Final = "aten::linalg_vector_norm"
_MANY: Final = 16  # norms a step
_NEARLY: Final = 0.9  # as many as parameters, but for a few
_HALF: Final = 0.5
_SCALING: Final = "aten::mul_"
_READING: Final = "aten::item"
_PYTHON: Final = "idle.host.python"
_CALL_NS: Final = 4_000.0  # of Python for each operator that it calls, see python-bound
_LEAST: Final = 0.01  # of the step
_MOST: Final = 0.95  # of Python
_AT_ONCE: Final = (
    "torch.nn.utils.clip_grad_norm_(parameters, most) treats all gradients at once and reads "
    "nothing back; torch.nn.utils.get_total_norm gives the norm alone"
)


@rule(
    "G206",
    "clip-loop",
    since="0.1",
    figures=[
        Figure(
            "The norm of each gradient is read back",
            "161 norms a step are taken one by one, each is read back to the host, and as many "
            "tensors are scaled; the host spends 12.0 ms a step on them.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "idle.host.dispatch": 9},
                operator(NORM, calls=161, host_ms=4, device_ms=0.5),
                operator(_READING, calls=162, host_ms=6),
                operator(_SCALING, calls=161, host_ms=2, device_ms=0.4),
                operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5),
            ),
        ),
        Figure(
            "The same loop on a CPU",
            "84 norms a step are taken and read one by one; calling that takes 0.87 ms a step.",
            stated(
                examples.cpu(examples.optimizer(tensors=84)),
                {"busy.math": 4, "idle.host.python": 2},
                operator(NORM, calls=84, host_ms=0.3),
                operator(_READING, calls=85, host_ms=0.2),
            ),
        ),
        Figure(
            "torch.nn.utils.clip_grad_norm_ on a CPU: it loops in C++, and reads one number",
            None,
            stated(
                examples.cpu(examples.optimizer(tensors=84)),
                {"busy.math": 4, "idle.host.python": 2},
                operator(NORM, calls=85, host_ms=0.3),
                operator(_READING, calls=2, host_ms=0.01),
            ),
        ),
        Figure(
            "torch.nn.utils.clip_grad_norm_",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 20},
                operator("aten::_foreach_norm", calls=1, host_ms=0.1, device_ms=0.1),
                operator(NORM, calls=1, host_ms=0.02, device_ms=0.01),
            ),
        ),
    ],
)
def clip_loop(seen: Seen) -> Loss | None:
    """Recognise that gradients are clipped (or their norms logged) in a loop over parameters.

    ## Why it costs time
    A launch for each norm, and, where each is read back, a wait for each. torch's own
    ``clip_grad_norm_`` takes all norms in a few kernels and reads nothing back.

    ## How it is measured
    By the norms of a step: as many as parameters, or nearly so. On a CPU torch's own functions loop
    too, in C++: there a loop of the user's shows if each norm is read, and costs what calling
    operators from Python takes, 4 µs each.
    """
    norms, many = windowed.calls(seen, NORM), optimizing.tensors(seen)
    if norms.count < max(_MANY, _HALF * (many or 0)):
        return None
    reads, scaled = windowed.calls(seen, _READING), windowed.calls(seen, _SCALING)
    reading = reads.count >= _NEARLY * norms.count
    if not seen.on_device:
        return _on_processors(seen, norms, reads) if reading else None
    scaling = optimizing.way(seen) != "loop" and scaled.count >= _NEARLY * norms.count
    spent = norms.host_ns
    spent += min(1.0, norms.count / reads.count) * reads.host_ns if reading else 0
    spent += min(1.0, norms.count / scaled.count) * scaled.host_ns if scaling else 0
    changes = [Omit((NORM,), keep=1 / norms.count)]
    changes += [Omit((_READING,), keep=_left(norms.count, reads.count))] if reading else []
    changes += [Omit((_SCALING,), keep=_left(norms.count, scaled.count))] if scaling else []
    words = ", each is read back to the host" if reading else ""
    words += ", and as many tensors are scaled" if scaling else ""
    return clip_loop.loss(
        f"{windowed.times(norms.count)} norms a step are taken one by one{words}; the host spends "
        f"{windowed.ms(spent)} a step on them.",
        *changes,
        evidence=(
            Measure("norms a step", norms.count, ""),
            Measure("on the host, a step", spent, "ns"),
        ),
        no_remedy=_AT_ONCE,
    )


def _on_processors(seen: Seen, norms: Calls, reads: Calls) -> Loss | None:
    """Give the loss of a loop that reads each norm, on a CPU: Python, and what reading takes."""
    python = seen.per_step(_PYTHON)
    spent = min(_MOST * python, 2 * _CALL_NS * norms.count)
    if not python or spent < _LEAST * (seen.step_ns or 0):
        return None
    left = 1 - spent / python
    return clip_loop.loss(
        f"{windowed.times(norms.count)} norms a step are taken and read one by one; calling that "
        f"takes {windowed.ms(spent + reads.host_ns)} a step.",
        Hosted((_PYTHON,), Interval(max(0.0, 1.5 * left - 0.5), left, min(1.0, left + 0.1))),
        Omit((_READING,), keep=_left(norms.count, reads.count)),
        where=windowed.site(seen, NORM),
        evidence=(
            Measure("norms a step", norms.count, ""),
            Measure("calling them from Python, a step", spent, "ns"),
        ),
        no_remedy=_AT_ONCE,
    )


def _left(gone: float, of: float) -> float:
    return max(0.0, 1 - gone / of)
