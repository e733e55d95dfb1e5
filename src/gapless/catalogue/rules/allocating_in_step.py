"""Memory that is asked of the driver in each step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.effects.occasions import DEVICE_MEMORY, omit_allocations
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence

_MIN_CALLS_PER_STEP: Final = 0.5  # calls a step: a cache that is warm makes none


@rule(
    "G403",
    "allocating-in-step",
    since="0.1",
    figures=[
        RuleFigure(
            "Batches of another length each time",
            "4 calls a step ask the driver for memory of the device or give it back, 1.2 ms of "
            "each 21.2 ms step.",
            stated(
                examples.gpu(empty_cache=0),
                {"busy.tc_math": 20, "idle.alloc": 1.2},
                operator("cudaMalloc", 3, 0.8),
                operator("cudaFree", 1, 0.4),
            ),
        ),
        RuleFigure("A warm cache", None, stated(examples.gpu(), {"busy.tc_math": 20})),
        RuleFigure(
            "The cache is emptied: another cause",
            None,
            stated(
                examples.gpu(empty_cache=312),
                {"busy.tc_math": 20, "idle.alloc": 1.2},
                operator("cudaMalloc", 3, 0.8),
            ),
        ),
    ],
)
def allocating_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that memory is asked of the driver in ordinary steps, not only in the first ones.

    ## Why it costs time
    torch keeps what was freed and hands it out again in a microsecond. Where no block fits, since
    shapes change from step to step, it asks the driver, which takes a hundred times as long and may
    wait for the device.

    ## How it is measured
    By the driver's calls in the windows, which lie behind the first steps.
    """
    facts = evidence.facts
    if facts is not None and (facts.calls.get("empty_cache") or 0) > facts.world.steps // 50:
        return None
    calls = windowed.sum_calls(evidence, *DEVICE_MEMORY)
    if calls.count < _MIN_CALLS_PER_STEP:
        return None
    return allocating_in_step.detection(
        f"{windowed.format_count(calls.count)} calls a step ask the driver for memory of the device or "
        f"give it back, {windowed.format_step_part(evidence, calls.host_ns)}.",
        *omit_allocations(),
        measures=(
            Measure("cudaMalloc and cudaFree, a step", calls.count, ""),
            Measure("their time on the host, a step", calls.host_ns, "ns"),
        ),
        helps=("allocator",) if not evidence.is_trace_only else (),
        no_remedy="Batches of few different lengths, or a largest one first, keep blocks in use.",
    )
