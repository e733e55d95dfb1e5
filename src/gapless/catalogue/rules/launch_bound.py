"""A device that waits because its work comes in pieces too small for the host to keep up with."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import example_copies, kernel
from gapless.model.change import ZERO_FACTOR, HostChange
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence

HOST_LEAVES: Final = (
    "idle.host.python",
    "idle.host.dispatch",
    "idle.host.engine",
    "idle.host.optimizer",
    "idle.launch",
)
_MAX_KERNEL_NS: Final = 50_000.0  # gpu-idle 25 µs, once 50: a first look, no verdict
_MIN_KERNELS: Final = 30  # kernels a step
_MIN_STEP_SHARE: Final = 0.02  # of the step
_COMPILED_REGIONS: Final = ("Torch-Compiled Region*", "CompiledFunction*")
_MAX_READS: Final = 1.0  # reads a step: a loss that is logged stands behind what is compiled


@rule(
    "G201",
    "launch-bound",
    since="0.1",
    figures=[
        RuleFigure(
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
        RuleFigure(
            "The same, and numbers are read between the kernels",
            "1000 kernels a step, of 4.0 µs each, are launched one by one; the device waits for "
            "the host for 16.0 ms of each 20.0 ms step. What can be compiled ends at each of 48 "
            "values a step that the host reads.",
            stated(
                examples.gpu(),
                {"busy.elementwise": 4, "idle.host.dispatch": 16},
                kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise"),
                example_copies("DtoH", "pageable", calls=48, ms=0.1, mib=0),
            ),
        ),
        RuleFigure(
            "Kernels of a millisecond: the host is far ahead",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 100, "idle.host.dispatch": 1},
                kernel("nvjet_tst_128x256_64x4", calls=100, ms=100, leaf="busy.tc_math"),
            ),
        ),
        RuleFigure(
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
def launch_bound(evidence: Evidence) -> Detection | None:
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
    if not evidence.on_device:
        return None
    step_ns, lost_ns = evidence.step_ns, evidence.per_step(*HOST_LEAVES)
    work = windowed.sum_kernels(evidence, "busy.")
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns or work.count < _MIN_KERNELS or work.mean_ns > _MAX_KERNEL_NS:
        return None
    is_compiled = windowed.sum_calls(evidence, *_COMPILED_REGIONS).count > 0
    n_reads = windowed.sum_copies(evidence, "DtoH").count
    reads_words = (
        f" What can be compiled ends at each of {windowed.format_count(n_reads)} values a step that the "
        "host reads."
        if n_reads > _MAX_READS
        else ""
    )
    return launch_bound.detection(
        f"{windowed.format_count(work.count)} kernels a step, of {work.mean_ns / 1000:.1f} µs each, are "
        f"launched one by one; the device waits for the host for {windowed.format_step_part(evidence, lost_ns)}."
        f"{reads_words}",
        HostChange(HOST_LEAVES, ZERO_FACTOR),
        measures=(
            Measure("kernels a step", work.count, ""),
            Measure("a kernel", work.mean_ns, "ns"),
            Measure("waiting for the host, a step", lost_ns, "ns"),
            Measure("values that the host reads, a step", n_reads, ""),
        ),
        helps=("compile-reduce-overhead",) if is_compiled else ("compile-reduce-overhead", "compile"),
        to_try=True,
    )
