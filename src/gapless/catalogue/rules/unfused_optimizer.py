"""An optimizer that reads and writes its parameters a dozen times."""

from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.fixes.fused import fused
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import kernel, operator
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_TIME: Final = ("busy.optimizer", "idle.host.optimizer")
_LEAST: Final = 0.002  # of the step


@rule(
    "G205",
    "unfused-optimizer",
    since="0.1",
    figures=[
        Figure(
            "AdamW as torch makes it on a GPU",
            "The optimizer takes 5.0 ms of each 85.0 ms step in 132 kernels, each of which reads "
            "and writes what the next one needs again.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 80, "busy.optimizer": 5},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=2, device_ms=5),
                operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5),
                kernel("multi_tensor_apply_kernel", calls=132, ms=5, leaf="busy.optimizer"),
            ),
        ),
        Figure(
            "On a CPU, told to treat many at a time",
            "The optimizer takes 5.0 ms of each 25.0 ms step in operators, each of which reads and "
            "writes what the next one needs again.",
            stated(
                examples.cpu(examples.optimizer(foreach=True)),
                {"busy.math": 20, "busy.optimizer": 5},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=5),
                operator("aten::_foreach_addcdiv_", calls=1, host_ms=1),
            ),
        ),
        Figure(
            "A fused one",
            None,
            stated(
                examples.gpu(examples.optimizer(fused=True)),
                {"busy.tc_math": 80, "busy.optimizer": 2},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=2, device_ms=2),
                operator("aten::_fused_adamw_", calls=1, host_ms=0.1, device_ms=2),
                kernel("FusedAdamMathFunctor", calls=8, ms=2, leaf="busy.optimizer"),
            ),
        ),
        Figure(
            "A class that torch cannot fuse",
            None,
            stated(
                examples.gpu(examples.optimizer(name="torch.optim.rmsprop.RMSprop")),
                {"busy.tc_math": 80, "busy.optimizer": 5},
                operator("Optimizer.step#RMSprop.step", calls=1, host_ms=2, device_ms=5),
                operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5),
                kernel("multi_tensor_apply_kernel", calls=132, ms=5, leaf="busy.optimizer"),
            ),
        ),
    ],
)
def unfused_optimizer(seen: Seen) -> Loss | None:
    """Recognise an optimizer that could do in one kernel what it does in a dozen.

    ## Why it costs time
    Its kernels do little arithmetic: they wait for memory. AdamW step by step moves twenty times
    the size of the parameters, in one kernel seven times.

    ## How it is measured
    By the kernels launched inside ``Optimizer.step``, of an optimizer that treats many parameters
    at a time. The gain follows from what a fused one must read and write.
    """
    if optimizing.way(seen) != "foreach" or optimizing.sparse(seen):
        return None
    if seen.facts is not None and not any(one.edits for one in fused(seen.facts)):
        return None
    step, lost = seen.step_ns, windowed.under(seen, *_TIME)
    if not step or lost < _LEAST * step:
        return None
    work = windowed.kernels(seen, "busy.optimizer")
    parts = f"{windowed.times(work.count)} kernels" if work.count else "operators"
    return unfused_optimizer.loss(
        f"The optimizer takes {windowed.of_step(seen, lost)} in {parts}, "
        "each of which reads and writes what the next one needs again.",
        *optimizing.faster(seen, "fused"),
        where=optimizing.place(seen),
        evidence=(
            Measure("kernels of the optimizer, a step", work.count, ""),
            Measure("the optimizer, a step", lost, "ns"),
        ),
        helps=("fused",),
    )
