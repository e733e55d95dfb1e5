"""Operators whose result size depends on values, so that the host must wait for it."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Omit
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

DYNAMIC_OPERATORS: Final = (
    "aten::nonzero",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::repeat_interleave",
)
_MIN_CALLS_PER_STEP: Final = 0.01  # a step


@rule(
    "G307",
    "data-dependent-shape",
    figures="""
    # A mask that selects rows, in the loss
    > 4 operators a step have results whose size depends on values (aten::nonzero 3, aten::_unique2
      1), and the host waits for each; synchronising leaves the device idle for 3.0 ms of each 13.0
      ms step.
    gpu()
    busy.index 10, idle.sync.refill 3
    operator("aten::nonzero", calls=3, host_ms=2.5, device_ms=0.1)
    operator("aten::_unique2", calls=1, host_ms=0.5, device_ms=0.1)
    # On the host
    gpu()
    busy.tc_math 10
    operator("aten::nonzero", calls=3, host_ms=0.1, device_ms=0)
    """,
)
def data_dependent_shape(evidence: Evidence) -> Detection | None:
    """Recognise operators that the host waits for because it must know how much they found.

    ## Why it costs time
    The result size of ``nonzero``, ``unique``, ``masked_select``, ``x[mask]`` and
    ``repeat_interleave`` depends on values. The host needs that size to continue, so it waits for
    the device, which then idles until new work arrives.

    ## How it is measured
    By name, where they launched something on a device. The cost is that of the steps replayed
    without them.
    """
    if not evidence.on_device:
        return None
    n_steps = windows.count_steps(evidence)
    rows = [
        row for row in windows.select_operators(evidence, *DYNAMIC_OPERATORS) if row.device_total_ns
    ]
    calls = windows.sum_operators(rows, n_steps)
    if calls.count < _MIN_CALLS_PER_STEP:
        return None
    lost_ns = evidence.per_step("idle.sync")
    listing = ", ".join(f"{row.name} {windows.format_count(row.calls / n_steps)}" for row in rows)
    names = tuple(row.name for row in rows)
    return data_dependent_shape.detection(
        f"{windows.format_count(calls.count)} operators a step have results whose size depends on "
        f"values ({listing}), and the host waits for each; synchronising leaves the device idle "
        f"for {windows.format_step_part(evidence, lost_ns)}.",
        Omit(names),
        measures=(
            Measure("calls a step", calls.count, ""),
            Measure("waited in them, a step", calls.host_ns, "ns"),
            Measure("idle afterwards, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "keep sizes fixed: torch.where and products with the mask instead of x[mask], "
            "torch.nonzero_static, output_size= of repeat_interleave"
        ),
    )
