"""Gradients whose norms are computed, and clipped, one by one."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.windows import CallStats
from gapless.model.change import HostChange, Omit
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

NORM_OPERATOR: Final = "aten::linalg_vector_norm"
_MIN_NORMS: Final = 16  # norms a step
_MIN_CALL_SHARE: Final = 0.9  # of the parameters
_MIN_PARAMETER_SHARE: Final = 0.5
_SCALE_OPERATOR: Final = "aten::mul_"
_READ_OPERATOR: Final = "aten::item"
_CLIP_FILE: Final = "torch/nn/utils/clip_grad"
_PYTHON_LEAF: Final = "idle.host.python"
_CALL_NS: Final = 4_000.0  # of Python for each operator, see python-bound
_MIN_STEP_SHARE: Final = 0.01  # of the step
_MAX_PYTHON_SHARE: Final = 0.95  # of the time in Python
_MANUAL_REMEDY: Final = (
    "torch.nn.utils.clip_grad_norm_(parameters, most) handles all gradients at once and reads "
    "nothing back; torch.nn.utils.get_total_norm gives the norm alone"
)


@rule(
    "G206",
    "clip-loop",
    figures="""
    # The norm of each gradient is read back
    > 161 norms a step are taken one by one, each is read back to the host, and as many tensors are
      scaled; the host spends 12.0 ms a step on them.
    gpu()
    busy.tc_math 20, idle.host.dispatch 9
    operator(NORM_OPERATOR, calls=161, host_ms=4, device_ms=0.5)
    operator(_READ_OPERATOR, calls=162, host_ms=6)
    operator(_SCALE_OPERATOR, calls=161, host_ms=2, device_ms=0.4)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5)
    # The same loop on a CPU
    > 84 norms a step are taken and read one by one; calling that takes 0.87 ms a step.
    cpu(optimizer(tensors=84))
    busy.math 4, idle.host.python 2
    operator(NORM_OPERATOR, calls=84, host_ms=0.3)
    operator(_READ_OPERATOR, calls=85, host_ms=0.2)
    # torch.nn.utils.clip_grad_norm_ on a CPU: it loops in C++, and reads one number
    cpu(optimizer(tensors=84))
    busy.math 4, idle.host.python 2
    operator(NORM_OPERATOR, calls=85, host_ms=0.3)
    operator(_READ_OPERATOR, calls=2, host_ms=0.01)
    # The same, and numbers are read elsewhere: the counts of an optimizer that loops
    cpu(optimizer(tensors=84))
    busy.math 4, idle.host.python 2
    operator(NORM_OPERATOR, calls=85, host_ms=0.3)
    operator(_READ_OPERATOR, calls=84, host_ms=0.2)
    CallLine("train.py", 31, "train", "torch/nn/utils/clip_grad.py", "_no_grad_wrapper", 0.2)
    # Norms for a log, read one by one beside those of torch's own function
    > 84 norms a step are taken and read one by one; calling that takes 0.77 ms a step.
    cpu(optimizer(tensors=84))
    busy.math 4, idle.host.python 2
    operator(NORM_OPERATOR, calls=169, host_ms=0.3)
    operator(_READ_OPERATOR, calls=168, host_ms=0.1)
    CallLine("train.py", 31, "train", "torch/nn/utils/clip_grad.py", "_no_grad_wrapper", 0.2)
    # torch.nn.utils.clip_grad_norm_
    gpu()
    busy.tc_math 20
    operator("aten::_foreach_norm", calls=1, host_ms=0.1, device_ms=0.1)
    operator(NORM_OPERATOR, calls=1, host_ms=0.02, device_ms=0.01)
    """,
)
def clip_loop(evidence: Evidence) -> Detection | None:
    """Recognise that gradients are clipped (or their norms logged) in a loop over parameters.

    ## Why it costs time
    A launch for each norm and, if each is read back, a wait for each. torch's own
    ``clip_grad_norm_`` computes all norms in a few kernels and reads nothing back.

    ## How it is measured
    By the norms of a step: as many as parameters, or nearly so. On a CPU torch's own functions loop
    too, in C++: there a loop of the user's shows only if each norm is read, beside those that
    torch's functions take, and costs what calling operators from Python takes, 4 µs each.
    """
    norms, n_parameters = (
        windows.sum_calls(evidence, NORM_OPERATOR),
        optimizer_steps.count_tensors(evidence),
    )
    if norms.count < max(_MIN_NORMS, _MIN_PARAMETER_SHARE * (n_parameters or 0)):
        return None
    reads, scalings = (
        windows.sum_calls(evidence, _READ_OPERATOR),
        windows.sum_calls(evidence, _SCALE_OPERATOR),
    )
    has_reads = reads.count >= _MIN_CALL_SHARE * norms.count
    if not evidence.on_device and norms.count < _MIN_NORMS + _count_own_norms(evidence):
        return None
    if not evidence.on_device:
        return _cpu_detection(evidence, norms, reads) if has_reads else None
    has_scalings = (
        optimizer_steps.find_way(evidence) != "loop"
        and scalings.count >= _MIN_CALL_SHARE * norms.count
    )
    spent_ns = norms.host_ns
    spent_ns += min(1.0, norms.count / reads.count) * reads.host_ns if has_reads else 0
    spent_ns += min(1.0, norms.count / scalings.count) * scalings.host_ns if has_scalings else 0
    changes = [Omit((NORM_OPERATOR,), keep=1 / norms.count)]
    changes += (
        [Omit((_READ_OPERATOR,), keep=_remaining_share(norms.count, reads.count))]
        if has_reads
        else []
    )
    changes += (
        [Omit((_SCALE_OPERATOR,), keep=_remaining_share(norms.count, scalings.count))]
        if has_scalings
        else []
    )
    words = ", each is read back to the host" if has_reads else ""
    words += ", and as many tensors are scaled" if has_scalings else ""
    return clip_loop.detection(
        f"{windows.format_count(norms.count)} norms a step are taken one by one{words}; the host "
        f"spends {windows.ms(spent_ns)} a step on them.",
        *changes,
        measures=(
            Measure("norms a step", norms.count, ""),
            Measure("on the host, a step", spent_ns, "ns"),
        ),
        no_remedy=_MANUAL_REMEDY,
    )


def _count_own_norms(evidence: Evidence) -> float:
    """Return the norms that torch's own function takes in a step, if it was sampled."""
    is_clipped = any(_CLIP_FILE in call.callee_file for call in evidence.call_lines)
    return (optimizer_steps.count_tensors(evidence) or 0) + 1 if is_clipped else 0


def _cpu_detection(evidence: Evidence, norms: CallStats, reads: CallStats) -> Detection | None:
    """Return the detection of a loop on a CPU that reads each norm: Python, and the reads."""
    python_ns = evidence.per_step(_PYTHON_LEAF)
    count = norms.count - _count_own_norms(evidence)  # torch's own function reads none of its norms
    spent_ns = min(_MAX_PYTHON_SHARE * python_ns, 2 * _CALL_NS * count)
    if not python_ns or spent_ns < _MIN_STEP_SHARE * (evidence.step_ns or 0):
        return None
    remaining = 1 - spent_ns / python_ns
    return clip_loop.detection(
        f"{windows.format_count(count)} norms a step are taken and read one by one; calling "
        f"that takes {windows.ms(spent_ns + reads.host_ns)} a step.",
        HostChange(
            (_PYTHON_LEAF,),
            Estimate(max(0.0, 1.5 * remaining - 0.5), remaining, min(1.0, remaining + 0.1)),
        ),
        Omit((_READ_OPERATOR,), keep=_remaining_share(count, reads.count)),
        location=windows.find_calling_function(evidence, NORM_OPERATOR),
        measures=(
            Measure("norms a step", count, ""),
            Measure("calling them from Python, a step", spent_ns, "ns"),
        ),
        no_remedy=_MANUAL_REMEDY,
    )


def _remaining_share(removed_count: float, count: float) -> float:
    return max(0.0, 1 - removed_count / count)
