"""An optimizer that goes from parameter to parameter."""

from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.fixes.foreach import foreach
from gapless.catalogue.fixes.fused import fused
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import kernel, operator
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_MANY: Final = 30  # kernels a step
_FEW: Final = 8  # parameters
_TIME: Final = ("busy.optimizer", "idle.host.optimizer")
_FLAT: Final = "Optimizer.step#LBFGS.step"  # lays all parameters end to end, and steps that
_LOOP: Final = examples.optimizer(foreach=False)


@rule(
    "G204",
    "optimizer-loop",
    since="0.1",
    figures=[
        Figure(
            "foreach=False",
            "The optimizer treats its parameters one by one: 1610 kernels a step, of 2.0 µs each, "
            "and the host's time for them; 13.2 ms of each 33.2 ms step.",
            stated(
                examples.gpu(_LOOP),
                {"busy.tc_math": 20, "busy.optimizer": 3.2, "idle.host.optimizer": 10},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=14, device_ms=3.2),
                operator("aten::addcdiv_", calls=161, host_ms=2, device_ms=0.3),
                kernel("vectorized_elementwise_kernel", 1610, 3.22, leaf="busy.optimizer"),
            ),
        ),
        Figure(
            "On a CPU, where torch does so by itself",
            "The optimizer treats its 161 parameters one by one: 8.0 ms of each 28.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.optimizer": 7, "idle.host.optimizer": 1},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=8),
                operator("aten::addcdiv_", calls=161, host_ms=2),
            ),
        ),
        Figure(
            "Few parameters, and large: each is read and written a dozen times",
            "The optimizer treats its 6 parameters one by one: 8.0 ms of each 28.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=6, device="cpu")),
                {"busy.math": 20, "busy.optimizer": 8},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=8),
                operator("aten::addcdiv_", calls=6, host_ms=1),
            ),
        ),
        Figure(
            "Sparse gradients, which torch treats so in any case",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.optimizer": 7},
                operator("Optimizer.step#SGD.step", calls=1, host_ms=8),
                operator("aten::_embedding_bag_sparse_backward", calls=26, host_ms=2),
            ),
        ),
        Figure(
            "LBFGS, which lays all parameters end to end",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.optimizer": 7},
                operator("Optimizer.step#LBFGS.step", calls=1, host_ms=8),
                operator("aten::dot", calls=100, host_ms=2),
            ),
        ),
        Figure(
            "As torch does it on a GPU",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "busy.optimizer": 1},
                operator("Optimizer.step#AdamW.step", calls=1, host_ms=1, device_ms=1),
                operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.1),
                kernel("multi_tensor_apply_kernel", calls=60, ms=1, leaf="busy.optimizer"),
            ),
        ),
    ],
)
def optimizer_loop(seen: Seen) -> Loss | None:
    """Recognise an optimizer whose step is a loop over parameters.

    ## Why it costs time
    A dozen operations for each of hundreds of parameters: a launch each, for kernels of two
    microseconds. With ``foreach=True`` a kernel treats many parameters, with ``fused=True`` it does
    the whole step for them.

    ## How it is measured
    By the operators inside ``Optimizer.step``, and the kernels that were launched there; a forward
    and backward pass that ``step`` is given as a closure is not counted. The gain follows from
    launching as many as the other way would.
    """
    flat = windowed.calls(seen, _FLAT).count
    if optimizing.way(seen) != "loop" or optimizing.sparse(seen) or flat:
        return None
    work, many = windowed.kernels(seen, "busy.optimizer"), optimizing.tensors(seen)
    able = _able(seen)
    least = 2 if able else _FEW  # few, if large, are gone through a dozen times all the same
    if (work.count < _MANY) if seen.on_device else ((many or 0) < least):
        return None
    lost = windowed.under(seen, *_TIME)
    each = f"{windowed.times(work.count)} kernels a step, of {work.mean_ns / 1000:.1f} µs each, "
    what = f"parameters one by one: {each}and the host's time for them; "
    if not seen.on_device:
        what = f"{many} parameters one by one: "
    return optimizer_loop.loss(
        f"The optimizer treats its {what}{windowed.of_step(seen, lost)}.",
        *optimizing.faster(seen, "foreach" if able == ("foreach",) else "fused"),
        where=optimizing.place(seen),
        evidence=(
            Measure("kernels of the optimizer, a step", work.count, ""),
            Measure("the optimizer, a step", lost, "ns"),
        ),
        helps=able,
        no_remedy=None if able else "torch._foreach_ functions treat lists of tensors at once",
    )


def _able(seen: Seen) -> tuple[str, ...]:
    """Give the fixes that can be, the better first; in a foreign trace both may."""
    if seen.facts is None:
        return (fused.name, foreach.name)
    return tuple(
        one.name for one in (fused, foreach) if any(found.edits for found in one(seen.facts))
    )
