"""The allocator's memory given back to the driver, and asked for again."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.effects.occasions import DEVICE_MEMORY, uncached
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.facts import World
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_OFTEN: Final = 0.02  # calls a step


@rule(
    "G401",
    "emptied-cache",
    since="0.1",
    figures=[
        Figure(
            "In each step",
            "torch.cuda.empty_cache() is called 1.0 times a step: 14 calls a step free or allocate "
            "memory of the device, 3.0 ms of each 22.0 ms step.",
            stated(
                examples.gpu(empty_cache=312),
                {"busy.tc_math": 20, "idle.alloc": 2},
                operator("cudaMalloc", 7, 1.0),
                operator("cudaFree", 7, 2.0),
            ),
        ),
        Figure("Never", None, stated(examples.gpu(empty_cache=0), {"busy.tc_math": 20})),
        Figure(
            "Once, before the training", None, stated(examples.gpu(empty_cache=1), {"busy.math": 9})
        ),
    ],
)
def emptied_cache(seen: Seen, world: World) -> Loss | None:
    """Recognise that ``torch.cuda.empty_cache()`` is called again and again.

    ## Why it costs time
    Each call waits for the device and gives memory back to the driver; the next step asks for it
    again, and each request takes the driver a tenth of a millisecond or more. It frees nothing that
    the training could not have used anyway.

    ## How it is measured
    By counting the calls, and by what freeing and allocating takes in the windows.
    """
    calls = seen.facts.calls.get("empty_cache") if seen.facts is not None else None
    if calls is None:
        raise NotSeenError("calls", "calls of empty_cache were not counted")
    often = calls / world.steps if world.steps else 0.0
    if often < _OFTEN:
        return None
    found = windowed.calls(seen, *DEVICE_MEMORY)
    return emptied_cache.loss(
        f"torch.cuda.empty_cache() is called {often:.1f} times a step: "
        f"{windowed.times(found.count)} calls a step free or allocate memory of the device, "
        f"{windowed.of_step(seen, found.host_ns)}.",
        *uncached(),
        where=windowed.site(seen, "cudaFree", "hipFree"),
        evidence=(
            Measure("empty_cache, calls a step", often, ""),
            Measure("cudaMalloc and cudaFree, a step", found.count, ""),
            Measure("their time on the host, a step", found.host_ns, "ns"),
        ),
        helps=("no-empty-cache",),
    )
