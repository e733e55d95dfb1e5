"""An optimizer that reads and writes its parameters a dozen times."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.fused import fused
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_LEAVES: Final = ("busy.optimizer", "idle.host.optimizer")
_MIN_STEP_SHARE: Final = 0.002  # of the step


@rule(
    "G205",
    "unfused-optimizer",
    figures="""
    # AdamW with torch's defaults on a GPU
    > The optimizer takes 5.0 ms of each 85.0 ms step in 132 kernels, each of which reads and writes
      what the next one needs again.
    gpu()
    busy.tc_math 80, busy.optimizer 5
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=2, device_ms=5)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5)
    kernel("multi_tensor_apply_kernel", calls=132, ms=5, leaf="busy.optimizer")
    # On a CPU, with foreach=True
    > The optimizer takes 5.0 ms of each 25.0 ms step in operators, each of which reads and writes
      what the next one needs again.
    cpu(optimizer(foreach=True))
    busy.math 20, busy.optimizer 5
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=5)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=1)
    # A fused optimizer
    gpu(optimizer(fused=True))
    busy.tc_math 80, busy.optimizer 2
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=2, device_ms=2)
    operator("aten::_fused_adamw_", calls=1, host_ms=0.1, device_ms=2)
    kernel("FusedAdamMathFunctor", calls=8, ms=2, leaf="busy.optimizer")
    # A class that torch cannot fuse
    gpu(optimizer(name="torch.optim.rmsprop.RMSprop"))
    busy.tc_math 80, busy.optimizer 5
    operator("Optimizer.step#RMSprop.step", calls=1, host_ms=2, device_ms=5)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5)
    kernel("multi_tensor_apply_kernel", calls=132, ms=5, leaf="busy.optimizer")
    """,
)
def unfused_optimizer(evidence: Evidence) -> Detection | None:
    """Recognise an optimizer that could do in one kernel what it does in a dozen.

    ## Why it costs time
    Its kernels do little arithmetic: they wait for memory. AdamW moves twenty times the size of the
    parameters operation by operation, and seven times in one kernel.

    ## How it is measured
    By the kernels launched inside ``Optimizer.step``, for an optimizer that handles many parameters
    at a time. The gain follows from what a fused one must read and write.
    """
    if optimizer_steps.find_way(evidence) != "foreach" or optimizer_steps.has_sparse_gradients(
        evidence
    ):
        return None
    if not any(proposal.edits for proposal in fused(evidence.facts)):
        return None
    step_ns, lost_ns = evidence.step_ns, windows.sum_leaves(evidence, *_LEAVES)
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    kernels = windows.sum_kernels(evidence, "busy.optimizer")
    count_words = f"{windows.format_count(kernels.count)} kernels" if kernels.count else "operators"
    return unfused_optimizer.detection(
        f"The optimizer takes {windows.format_step_part(evidence, lost_ns)} in {count_words}, "
        "each of which reads and writes what the next one needs again.",
        *optimizer_steps.change_way(evidence, "fused"),
        location=optimizer_steps.find_optimizer_line(evidence),
        measures=(
            Measure("kernels of the optimizer, a step", kernels.count, ""),
            Measure("the optimizer, a step", lost_ns, "ns"),
        ),
        helps=(fused.request(),),
    )
