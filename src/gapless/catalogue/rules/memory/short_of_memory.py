"""Device memory so short that the allocator starts over."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.allocator import allocator
from gapless.catalogue.fixes.host.no_empty_cache import DEVICE_MEMORY, omit_allocations
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.windows import format_step_part
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.finding import Detection, Measure


@rule(
    "G402",
    "short-of-memory",
    figures="""
    # Forty retries
    > Memory of the device ran short 40 times: the allocator's cache was given back and allocated
      again, 4.0 ms of each 25.0 ms step.
    gpu()
    busy.tc_math 21, idle.alloc.retry 4
    operator("cudaMalloc", 3, 1.5), operator("cudaFree", 30, 2.5)
    example_allocator(retries=40, device_frees=1200)
    # None
    gpu()
    busy.tc_math 21
    example_allocator(device_allocs=90)
    """,
)
def short_of_memory(evidence: Evidence) -> Detection | None:
    """Recognise that the allocator found no room, and freed its entire cache to try again.

    ## Why it costs time
    It waits for the device, gives back every free block, and asks the driver for memory again. The
    next steps have to ask for what it gave back.

    ## How it is measured
    By the allocator's own counter of retries, and by what freeing and allocating takes in windows.
    """
    uses = () if evidence.footprint is None else evidence.footprint.allocator
    retry_counts = [use.retries for use in uses if use.retries is not None]
    if not retry_counts and not evidence.has_device:
        return None
    if not retry_counts:
        raise NotObservedError("allocator", "the allocator's counters were not recorded")
    n_retries = sum(retry_counts)
    if not n_retries:
        return None
    driver_calls = windows.sum_calls(evidence, *DEVICE_MEMORY)
    return short_of_memory.detection(
        f"Memory of the device ran short {n_retries} times: the allocator's cache was given back "
        f"and allocated again, {format_step_part(evidence, driver_calls.host_ns)}.",
        *omit_allocations(evidence),
        measures=(
            Measure("retries of the allocator", n_retries, ""),
            Measure("cudaMalloc and cudaFree, a step", driver_calls.count, ""),
        ),
        helps=(allocator.request(),),
        no_remedy="A smaller batch, or activation checkpointing, leaves room as well.",
    )
