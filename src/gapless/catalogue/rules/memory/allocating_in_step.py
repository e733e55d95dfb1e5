"""Memory that each step asks the driver for."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.allocator import allocator
from gapless.catalogue.fixes.host.no_empty_cache import DEVICE_MEMORY, omit_allocations
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_CALLS_PER_STEP: Final = 0.5  # calls a step: a warm cache makes none


@rule(
    "G403",
    "allocating-in-step",
    figures="""
    # Batches of another length each time
    > 4 calls a step ask the driver for memory of the device or give it back, 1.2 ms of each 21.2 ms
      step.
    gpu(empty_cache=0)
    busy.tc_math 20, idle.alloc 1.2
    operator("cudaMalloc", 3, 0.8), operator("cudaFree", 1, 0.4)
    # A warm cache
    gpu()
    busy.tc_math 20
    # The cache is emptied: another cause
    gpu(empty_cache=312)
    busy.tc_math 20, idle.alloc 1.2
    operator("cudaMalloc", 3, 0.8)
    """,
)
def allocating_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that ordinary steps, not only the first ones, ask the driver for memory.

    ## Why it costs time
    torch keeps freed memory and hands it out again in a microsecond. If no block fits, because
    shapes change from step to step, it asks the driver, which takes a hundred times as long and may
    wait for the device.

    ## How it is measured
    By the driver's calls in the windows, which come after the first steps.
    """
    facts = evidence.facts
    if (facts.calls.get("empty_cache") or 0) > facts.world.steps // 50:
        return None
    calls = windows.sum_calls(evidence, *DEVICE_MEMORY)
    if calls.count < _MIN_CALLS_PER_STEP:
        return None
    return allocating_in_step.detection(
        f"{windows.format_count(calls.count)} calls a step ask the driver for memory of the "
        f"device or give it back, {windows.format_step_part(evidence, calls.host_ns)}.",
        *omit_allocations(evidence),
        measures=(
            Measure("cudaMalloc and cudaFree, a step", calls.count, ""),
            Measure("their time on the host, a step", calls.host_ns, "ns"),
        ),
        helps=(allocator.request(),) if not evidence.is_trace_only else (),
        no_remedy="With few different lengths, or the largest batch first, blocks are reused.",
    )
