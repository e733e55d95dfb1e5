"""Memory of the device that is so short that the allocator starts over."""

from gapless.catalogue import examples, windowed
from gapless.catalogue.effects.occasions import DEVICE_MEMORY, uncached
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import allocator, operator
from gapless.catalogue.windowed import of_step
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen


@rule(
    "G402",
    "short-of-memory",
    since="0.1",
    figures=[
        Figure(
            "Forty retries",
            "Memory of the device ran short 40 times: all that the allocator kept was given back "
            "and asked for again, 4.0 ms of each 25.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 21, "idle.alloc.retry": 4},
                operator("cudaMalloc", 3, 1.5),
                operator("cudaFree", 30, 2.5),
                allocator(retries=40, device_frees=1200),
            ),
        ),
        Figure(
            "None", None, stated(examples.gpu(), {"busy.tc_math": 21}, allocator(device_allocs=90))
        ),
    ],
)
def short_of_memory(seen: Seen) -> Loss | None:
    """Recognise that the allocator found no room, and freed all that it kept to try again.

    ## Why it costs time
    It waits for the device, gives back every free block, and asks the driver for memory anew. What
    it gave back it has to ask for in the steps after that.

    ## How it is measured
    By the allocator's own counter of retries, and by what freeing and allocating takes in windows.
    """
    recorded = seen.study.recorded
    uses = () if recorded is None or recorded.footprint is None else recorded.footprint.allocator
    known = [one.retries for one in uses if one.retries is not None]
    if not known and not seen.has_device:
        return None
    if not known:
        raise NotSeenError("allocator", "the allocator's counters were not recorded")
    retries = sum(known)
    if not retries:
        return None
    found = windowed.calls(seen, *DEVICE_MEMORY)
    return short_of_memory.loss(
        f"Memory of the device ran short {retries} times: all that the allocator kept was given "
        f"back and asked for again, {of_step(seen, found.host_ns)}.",
        *uncached(),
        evidence=(
            Measure("retries of the allocator", retries, ""),
            Measure("cudaMalloc and cudaFree, a step", found.count, ""),
        ),
        helps=("allocator",),
        no_remedy="A smaller batch, or activation checkpointing, leaves room as well.",
    )
