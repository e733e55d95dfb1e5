"""Tensors that the training thread computes on the host while the device waits."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import kernel, operator
from gapless.model.change import Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.tables import Operator

_LONG_NS: Final = 150_000  # on the host, without calls: no dispatch takes that
_DISPATCH_NS: Final = 20_000
_WAITING: Final = ("aten::_local_scalar_dense", "aten::item", "aten::to", "aten::_to_copy")
_LEAST: Final = 0.01  # of the step


@rule(
    "G203",
    "preprocessing-in-step",
    since="0.1",
    figures=[
        Figure(
            "Images are normalised in the training loop, before the copy",
            "The training thread computes on tensors of the host, mainly in aten::sub 6.0 ms, "
            "aten::div 6.0 ms; that holds up 10.0 ms of each 31.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "idle.host.dispatch": 11},
                operator("aten::sub", calls=1, host_ms=6, device_ms=0),
                operator("aten::div", calls=1, host_ms=6, device_ms=0),
                operator("aten::convolution", calls=50, host_ms=3, device_ms=18),
                kernel("nvjet_tst_128x256_64x4", calls=50, ms=20, leaf="busy.tc_math"),
            ),
        ),
        Figure(
            "In the loader's workers",
            None,
            stated(
                examples.gpu(examples.fed()),
                {"busy.tc_math": 20, "idle.host.dispatch": 0.3},
                operator("aten::convolution", calls=50, host_ms=3, device_ms=18),
                kernel("nvjet_tst_128x256_64x4", calls=50, ms=20, leaf="busy.tc_math"),
            ),
        ),
    ],
)
def preprocessing_in_step(seen: Seen) -> Loss | None:
    """Recognise that the training thread itself computes on host tensors in the step.

    ## Why it costs time
    What is computed on the host in the training loop (normalising, masking, one-hot encoding) is
    computed by one process while the device waits. In a loader's workers it runs beside the step,
    on the device it takes a hundredth of the time.

    ## How it is measured
    By operators that launch nothing and take far longer on the host than dispatch does; at most as
    much as the device waited for operators of the training thread. What a loader computes in the
    training process is counted as waiting for data, not here.
    """
    step = seen.step_ns
    if not step or not seen.on_device:
        return None
    waited = seen.per_step("idle.host.dispatch")
    rows = [one for one in windowed.operators(seen, "aten::*") if _on_host(one)]
    many = windowed.steps(seen)
    spent = sum(one.host_self_ns - one.calls * _DISPATCH_NS for one in rows) / many
    usual = _DISPATCH_NS * windowed.kernels(seen, "busy.").count
    lost = min(spent, max(waited - usual, waited / 2))
    if lost < _LEAST * step:
        return None
    rows.sort(key=lambda one: -one.host_self_ns)
    mainly = ", ".join(f"{one.name} {windowed.ms(one.host_self_ns / many)}" for one in rows[:3])
    left = 1 - lost / waited
    return preprocessing_in_step.loss(
        f"The training thread computes on tensors of the host, mainly in {mainly}; that holds up "
        f"{windowed.of_step(seen, lost)}.",
        Hosted(("idle.host.dispatch",), Interval(left, left, min(1.0, left + 0.2))),
        where=windowed.site(seen, *(one.name for one in rows[:3])),
        evidence=(
            Measure("computed on the host, a step", spent, "ns"),
            Measure("the device waits for operators, a step", waited, "ns"),
        ),
        no_remedy=(
            "do it in the data set or in collate_fn, where workers do it beside the step, or copy "
            "first and do it on the device"
        ),
    )


def _on_host(one: Operator) -> bool:
    """Tell whether an operator computed on the host: it launched nothing, and took long."""
    launched = bool(one.device_total_ns)
    return not launched and one.name not in _WAITING and one.host_self_ns > one.calls * _LONG_NS
