"""The allocator's memory given back to the driver, and asked for again."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.no_empty_cache import (
    DEVICE_MEMORY,
    no_empty_cache,
    omit_allocations,
)
from gapless.catalogue.queries import samples, windows
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_MIN_CALLS_PER_STEP: Final = 0.02  # calls a step


@rule(
    "G401",
    "emptied-cache",
    figures="""
    # In each step
    > torch.cuda.empty_cache() is called 1.0 times a step: 14 calls a step free or allocate memory
      of the device, 3.0 ms of each 22.0 ms step.
    gpu(empty_cache=312)
    busy.tc_math 20, idle.alloc 2
    operator("cudaMalloc", 7, 1.0), operator("cudaFree", 7, 2.0)
    # Never
    gpu(empty_cache=0)
    busy.tc_math 20
    # Once, before the training
    gpu(empty_cache=1)
    busy.math 9
    """,
)
def emptied_cache(evidence: Evidence, world: World) -> Detection | None:
    """Recognise that ``torch.cuda.empty_cache()`` is called again and again.

    ## Why it costs time
    Each call waits for the device and gives memory back to the driver; the next step asks for it
    again, and each request takes the driver a tenth of a millisecond or more. It frees nothing that
    the training could not have used anyway.

    ## How it is measured
    By counting the calls, and by what freeing and allocating takes in the windows. The line is the
    one at which samples show most of the calls, else the function that frees.
    """
    n_calls = evidence.facts.calls.get("empty_cache")
    if n_calls is None:
        raise NotObservedError("calls", "calls of empty_cache were not counted")
    calls_per_step = n_calls / world.steps if world.steps else 0.0
    if calls_per_step < _MIN_CALLS_PER_STEP:
        return None
    driver_calls = windows.sum_calls(evidence, *DEVICE_MEMORY)
    return emptied_cache.detection(
        f"torch.cuda.empty_cache() is called {calls_per_step:.1f} times a step: "
        f"{windows.format_count(driver_calls.count)} calls a step free or allocate memory of the "
        f"device, {windows.format_step_part(evidence, driver_calls.host_ns)}.",
        *omit_allocations(evidence),
        location=samples.find_sampled_call(evidence, "empty_cache")
        or windows.find_calling_function(evidence, "cudaFree", "hipFree"),
        measures=(
            Measure("empty_cache, calls a step", calls_per_step, ""),
            Measure("cudaMalloc and cudaFree, a step", driver_calls.count, ""),
            Measure("their time on the host, a step", driver_calls.host_ns, "ns"),
        ),
        helps=(no_empty_cache.request(),),
    )
