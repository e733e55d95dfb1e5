"""Operators whose result's size depends on values, so that the host must wait for it."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Omit
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

SHAPED: Final = (
    "aten::nonzero",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::repeat_interleave",
)
_RARE: Final = 0.01  # a step


@rule(
    "G307",
    "data-dependent-shape",
    since="0.1",
    figures=[
        Figure(
            "A mask that selects rows, in the loss",
            "4 operators a step have results whose size depends on values (aten::nonzero 3, "
            "aten::_unique2 1), and the host waits for each; synchronising leaves the device idle "
            "for 3.0 ms of each 13.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.index": 10, "idle.sync.refill": 3},
                operator("aten::nonzero", calls=3, host_ms=2.5, device_ms=0.1),
                operator("aten::_unique2", calls=1, host_ms=0.5, device_ms=0.1),
            ),
        ),
        Figure(
            "On the host",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 10},
                operator("aten::nonzero", calls=3, host_ms=0.1, device_ms=0),
            ),
        ),
    ],
)
def data_dependent_shape(seen: Seen) -> Loss | None:
    """Recognise operators that the host waits for because it must know how much they found.

    ## Why it costs time
    ``nonzero``, ``unique``, ``masked_select``, ``x[mask]``, ``repeat_interleave`` give as much as
    the values say. The host needs that size to go on, so it waits for the device, which then idles
    until new work arrives.

    ## How it is measured
    By name, where they launched something on a device. The cost is that of the steps replayed
    without them.
    """
    if not seen.on_device:
        return None
    many = windowed.steps(seen)
    rows = [one for one in windowed.operators(seen, *SHAPED) if one.device_total_ns]
    found = windowed.summed(rows, many)
    if found.count < _RARE:
        return None
    lost = seen.per_step("idle.sync")
    each = ", ".join(f"{one.name} {windowed.times(one.calls / many)}" for one in rows)
    names = tuple(one.name for one in rows)
    return data_dependent_shape.loss(
        f"{windowed.times(found.count)} operators a step have results whose size depends on values "
        f"({each}), and the host waits for each; synchronising leaves the device idle for "
        f"{windowed.of_step(seen, lost)}.",
        Omit(names),
        evidence=(
            Measure("calls a step", found.count, ""),
            Measure("waited in them, a step", found.host_ns, "ns"),
            Measure("idle afterwards, a step", lost, "ns"),
        ),
        no_remedy=(
            "keep sizes fixed: torch.where and products with the mask instead of x[mask], "
            "torch.nonzero_static, output_size= of repeat_interleave"
        ),
    )
