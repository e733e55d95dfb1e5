"""CUDA_LAUNCH_BLOCKING, left set."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Hosted
from gapless.model.facts import Precision
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_CALLS: Final = ("*LaunchKernel*",)
_USUAL_NS: Final = Interval(3_000.0, 5_000.0, 10_000.0)  # of a launch that does not wait


@rule(
    "G210",
    "blocking-launches",
    since="0.1",
    figures=[
        Figure(
            "CUDA_LAUNCH_BLOCKING=1",
            "CUDA_LAUNCH_BLOCKING is set: each of 400 launches a step waits for its kernel, for "
            "20.0 ms together.",
            stated(
                examples.gpu(examples.precision(launch_blocking=True)),
                {"busy.tc_math": 18, "idle.host.dispatch": 4},
                operator("cudaLaunchKernel", calls=400, host_ms=20),
            ),
        ),
        Figure(
            "Not set",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 18},
                operator("cudaLaunchKernel", calls=400, host_ms=2),
            ),
        ),
    ],
)
def blocking_launches(seen: Seen, precision: Precision) -> Loss | None:
    """Recognise that each launch waits until its kernel has ended.

    ## Why it costs time
    Host and device work by turns, never at once. It is meant for finding the line of a failing
    kernel.

    ## How it is measured
    The setting is a fact of the run. The gain follows from launches that take as long as usual.
    """
    if not precision.settings.get("launch_blocking") or not seen.on_device:
        return None
    launches = windowed.calls(seen, *_CALLS)
    return blocking_launches.loss(
        "CUDA_LAUNCH_BLOCKING is set: each of "
        f"{windowed.times(launches.count)} launches a step waits for its kernel, for "
        f"{windowed.ms(launches.host_ns)} together.",
        *freed(seen),
        evidence=(Measure("in launches, a step", launches.host_ns, "ns"),),
        helps=("debug-off",),
    )


def freed(seen: Seen) -> tuple[Change, ...]:
    """Give what changes if launches do not wait."""
    mean = windowed.calls(seen, *_CALLS).mean_ns
    if not mean:
        return ()
    ends = (_USUAL_NS.low, _USUAL_NS.mid, _USUAL_NS.high)
    return (Hosted(("idle.launch",), Interval(*(min(1.0, one / mean) for one in ends))),)
