"""An optimizer that loops over its parameters."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.fix import Fix
from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.foreach import foreach
from gapless.catalogue.fixes.host.fused import fused
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.model.change import Change
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_KERNELS: Final = 30  # kernels a step
_MIN_PARAMETERS: Final = 8  # parameters
_LEAVES: Final = ("busy.optimizer", "idle.host.optimizer")
_FLAT_STEP: Final = "Optimizer.step#LBFGS.step"  # concatenates all parameters, and steps that


@rule(
    "G204",
    "optimizer-loop",
    figures="""
    loop_optimizer = optimizer(foreach=False)
    # foreach=False
    > The optimizer treats its parameters one by one: 1610 kernels a step, of 2.0 µs each, and the
      host's time for them; 13.2 ms of each 33.2 ms step.
    gpu(loop_optimizer)
    busy.tc_math 20, busy.optimizer 3.2, idle.host.optimizer 10
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=14, device_ms=3.2)
    operator("aten::addcdiv_", calls=161, host_ms=2, device_ms=0.3)
    kernel("vectorized_elementwise_kernel", 1610, 3.22, leaf="busy.optimizer")
    # On a CPU, where torch does so by default
    > The optimizer treats its 161 parameters one by one: 8.0 ms of each 28.0 ms step.
    cpu()
    busy.math 20, busy.optimizer 7, idle.host.optimizer 1
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=8)
    operator("aten::addcdiv_", calls=161, host_ms=2)
    # Few parameters, and large: each is read and written a dozen times
    > The optimizer treats its 6 parameters one by one: 8.0 ms of each 28.0 ms step.
    cpu(optimizer(tensors=6, device="cpu"))
    busy.math 20, busy.optimizer 8
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=8)
    operator("aten::addcdiv_", calls=6, host_ms=1)
    # Sparse gradients, which torch always handles in a loop
    cpu()
    busy.math 20, busy.optimizer 7
    operator("Optimizer.step#SGD.step", calls=1, host_ms=8)
    operator("aten::_embedding_bag_sparse_backward", calls=26, host_ms=2)
    # LBFGS, which concatenates all parameters
    cpu()
    busy.math 20, busy.optimizer 7
    operator("Optimizer.step#LBFGS.step", calls=1, host_ms=8)
    operator("aten::dot", calls=100, host_ms=2)
    # A group for each parameter, and a fused optimizer that treats a group at a time
    > To the optimizer each parameter is a group of its own, treated by itself: 322 kernels a step,
      of 10.0 µs each, and the host's time for them; 13.2 ms of each 33.2 ms step.
    gpu(optimizer(fused=True))
    busy.tc_math 20, busy.optimizer 3.2, idle.host.optimizer 10
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=14, device_ms=3.2)
    operator("aten::_fused_adamw_", calls=161, host_ms=2, device_ms=3)
    kernel("FusedAdamMathFunctor", 322, 3.22, leaf="busy.optimizer")
    # torch's default on a GPU
    gpu()
    busy.tc_math 20, busy.optimizer 1
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=1, device_ms=1)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.1)
    kernel("multi_tensor_apply_kernel", calls=60, ms=1, leaf="busy.optimizer")
    """,
)
def optimizer_loop(evidence: Evidence) -> Detection | None:
    """Recognise an optimizer whose step is a loop over parameters.

    ## Why it costs time
    A dozen operations for each of hundreds of parameters: a launch each, for kernels of two
    microseconds. With ``foreach=True`` a kernel handles many parameters, with ``fused=True`` it
    does the entire step for them.

    ## How it is measured
    By the operators inside ``Optimizer.step``, and the kernels launched there; a forward and
    backward pass that ``step`` gets as a closure does not count. The gain follows from the number
    of launches of the other way. A step that treats many parameters at once does so group by group:
    where it makes a call for three of four parameters and more, groups are of one each.
    """
    if optimizer_steps.treats_singly(evidence):
        return _single_groups(evidence)
    n_flat_steps = windows.sum_calls(evidence, _FLAT_STEP).count
    if (
        optimizer_steps.find_way(evidence) != "loop"
        or optimizer_steps.has_sparse_gradients(evidence)
        or n_flat_steps
    ):
        return None
    kernels, n_parameters = (
        windows.sum_kernels(evidence, "busy.optimizer"),
        optimizer_steps.count_tensors(evidence),
    )
    fixes = _usable_fixes(evidence)
    min_count = (
        2 if fixes else _MIN_PARAMETERS
    )  # few but large ones are read and written a dozen times anyway
    if (kernels.count < _MIN_KERNELS) if evidence.on_device else ((n_parameters or 0) < min_count):
        return None
    subject = f"parameters one by one: {_describe_kernels(kernels)}"
    if not evidence.on_device:
        subject = f"{n_parameters} parameters one by one: "
    return _loop_detection(
        evidence,
        f"The optimizer treats its {subject}",
        optimizer_steps.change_way(evidence, "foreach" if fixes == (foreach,) else "fused"),
        None if fixes else "torch._foreach_ functions treat lists of tensors at once",
        [fix.request() for fix in fixes],
    )


def _single_groups(evidence: Evidence) -> Detection:
    kernels = windows.sum_kernels(evidence, "busy.optimizer")
    return _loop_detection(
        evidence,
        "To the optimizer each parameter is a group of its own, treated by itself: "
        f"{_describe_kernels(kernels)}",
        (optimizer_steps.join_groups(evidence),),
        "give it parameters of the same settings in one group",
    )


def _describe_kernels(kernels: windows.KernelStats) -> str:
    return (
        f"{windows.format_count(kernels.count)} kernels a step, of {kernels.mean_ns / 1000:.1f} µs "
        "each, and the host's time for them; "
    )


def _loop_detection(
    evidence: Evidence,
    subject: str,
    changes: Sequence[Change],
    no_remedy: str | None,
    helps: Sequence[FixRequest] = (),
) -> Detection:
    lost_ns = windows.sum_leaves(evidence, *_LEAVES)
    n_kernels = windows.sum_kernels(evidence, "busy.optimizer").count
    return optimizer_loop.detection(
        f"{subject}{windows.format_step_part(evidence, lost_ns)}.",
        *changes,
        location=optimizer_steps.find_optimizer_line(evidence),
        measures=(
            Measure("kernels of the optimizer, a step", n_kernels, ""),
            Measure("the optimizer, a step", lost_ns, "ns"),
        ),
        helps=helps,
        no_remedy=no_remedy,
    )


def _usable_fixes(evidence: Evidence) -> tuple[Fix, ...]:
    """Return the applicable fixes, the better first."""
    return tuple(
        fix for fix in (fused, foreach) if any(proposal.edits for proposal in fix(evidence.facts))
    )
