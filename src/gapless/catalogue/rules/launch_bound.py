"""A device that waits because its work comes in pieces too small for the host to keep up with."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import copied, kernel
from gapless.model.change import EXACTLY_NONE, Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

HOST: Final = (
    "idle.host.python",
    "idle.host.dispatch",
    "idle.host.engine",
    "idle.host.optimizer",
    "idle.launch",
)
_SHORT_NS: Final = 50_000.0  # gpu-idle 25 µs, once 50: a first look, no verdict
_MANY: Final = 30  # kernels a step
_LEAST: Final = 0.02  # of the step
_REGIONS: Final = ("Torch-Compiled Region*", "CompiledFunction*")
_FEW: Final = 1.0  # reads a step: a loss that is logged stands behind what is compiled


@rule(
    "G201",
    "launch-bound",
    since="0.1",
    figures=[
        Figure(
            "A thousand kernels of four microseconds",
            "1000 kernels a step, of 4.0 µs each, are launched one by one; the device waits for "
            "the host for 16.0 ms of each 20.0 ms step.",
            stated(
                examples.gpu(),
                {
                    "busy.elementwise": 4,
                    "idle.host.dispatch": 8,
                    "idle.host.python": 5,
                    "idle.launch.api": 3,
                },
                kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise"),
            ),
        ),
        Figure(
            "The same, and numbers are read between the kernels",
            "1000 kernels a step, of 4.0 µs each, are launched one by one; the device waits for "
            "the host for 16.0 ms of each 20.0 ms step. What can be compiled ends at each of 48 "
            "values a step that the host reads.",
            stated(
                examples.gpu(),
                {"busy.elementwise": 4, "idle.host.dispatch": 16},
                kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise"),
                copied("DtoH", "pageable", calls=48, ms=0.1, mib=0),
            ),
        ),
        Figure(
            "Kernels of a millisecond: the host is far ahead",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 100, "idle.host.dispatch": 1},
                kernel("nvjet_tst_128x256_64x4", calls=100, ms=100, leaf="busy.tc_math"),
            ),
        ),
        Figure(
            "Small kernels, and the device waits for data",
            None,
            stated(
                examples.gpu(),
                {"busy.elementwise": 4, "idle.data.decode": 40},
                kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise"),
            ),
        ),
    ],
)
def launch_bound(seen: Seen) -> Loss | None:
    """Recognise that the host cannot launch kernels as fast as the device works them off.

    ## Why it costs time
    Each operation costs the host five to fifty microseconds: Python, torch's dispatch, autograd,
    the launch. A kernel that takes less leaves the device idle until the next one comes.

    ## How it is measured
    By the time in which the device has nothing to do because the training thread (or autograd's)
    is still on its way to the next launch, in steps whose kernels are short.

    What compiling or capturing leaves of that wait is not known before it is tried: of five
    trainings in which compiling was measured, one became 1.9 times as fast, three stayed as they
    were and one became a tenth slower. So no gain is predicted: what is told is what the step would
    take if the device never waited for the host, which is the most that can be had. The cause is
    named where that would be less than half of the step, below all causes that have a price.
    Values that the host reads within the step speak against it: each ends what is compiled.
    """
    if not seen.on_device:
        return None
    step, lost = seen.step_ns, seen.per_step(*HOST)
    work = windowed.kernels(seen, "busy.")
    if not step or lost < _LEAST * step or work.count < _MANY or work.mean_ns > _SHORT_NS:
        return None
    compiled = windowed.calls(seen, *_REGIONS).count > 0
    breaks = windowed.copies(seen, "DtoH").count
    against = (
        f" What can be compiled ends at each of {windowed.times(breaks)} values a step that the "
        "host reads."
        if breaks > _FEW
        else ""
    )
    return launch_bound.loss(
        f"{windowed.times(work.count)} kernels a step, of {work.mean_ns / 1000:.1f} µs each, are "
        f"launched one by one; the device waits for the host for {windowed.of_step(seen, lost)}."
        f"{against}",
        Hosted(HOST, EXACTLY_NONE),
        evidence=(
            Measure("kernels a step", work.count, ""),
            Measure("a kernel", work.mean_ns, "ns"),
            Measure("waiting for the host, a step", lost, "ns"),
            Measure("values that the host reads, a step", breaks, ""),
        ),
        helps=("compile-reduce-overhead",) if compiled else ("compile-reduce-overhead", "compile"),
        to_try=True,
    )
