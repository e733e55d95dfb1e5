"""A device that waits because its kernels are too short for the host to keep up."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.compile import compiled
from gapless.catalogue.fixes.compute.compile_reduce_overhead import compile_reduce_overhead
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.lines import training_calls
from gapless.model.change import ZERO_FACTOR, HostChange
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.host_code import CallLine

HOST_LEAVES: Final = (
    "idle.host.python",
    "idle.host.dispatch",
    "idle.host.engine",
    "idle.host.optimizer",
    "idle.launch",
)
_MAX_KERNEL_NS: Final = 50_000.0  # a first filter, not a verdict
_MIN_KERNELS: Final = 30  # kernels a step
_MIN_STEP_SHARE: Final = 0.02  # of the step
_COMPILED_REGIONS: Final = ("Torch-Compiled Region*", "CompiledFunction*")
_MANUAL_REMEDY: Final = (
    "larger batches: while the device waits for the host, more samples take hardly longer; fewer "
    "and larger operators"
)
_COMPILE_OTHERS: Final = (
    f"module.compile() for each module that the step calls; or {_MANUAL_REMEDY}"
)
_MIN_COMPILED_SHARE: Final = 0.5  # of the forward passes: less of them is hardly the host's time
# What calls a model, and what is called beside one: no pass of another model.
_NO_MODELS: Final = (
    "torch/nn/parallel/",
    "torch/nn/modules/loss",
    "torch/_dynamo/",
    "torchmetrics/",
    "torchvision/transforms/",
)
_FORWARD: Final = ".forward"
_MAX_READS: Final = 1.0  # reads a step: a logged loss comes after the compiled part


@rule(
    "G201",
    "launch-bound",
    figures="""
    # A thousand kernels of four microseconds
    > 1000 kernels a step, of 4.0 µs each, are launched one by one; the device waits for the host
      for 16.0 ms of each 20.0 ms step.
    gpu()
    busy.elementwise 4, idle.host.dispatch 8, idle.host.python 5, idle.launch.api 3
    kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise")
    # The same, and numbers are read between the kernels
    > 1000 kernels a step, of 4.0 µs each, are launched one by one; the device waits for the host
      for 16.0 ms of each 20.0 ms step. What can be compiled ends at each of 48 values a step that
      the host reads.
    gpu()
    busy.elementwise 4, idle.host.dispatch 16
    kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise")
    example_copies("DtoH", "pageable", calls=48, ms=0.1, mib=0)
    # Kernels of a millisecond: the host is far ahead
    gpu()
    busy.tc_math 100, idle.host.dispatch 1
    kernel("nvjet_tst_128x256_64x4", calls=100, ms=100, leaf="busy.tc_math")
    # Small kernels, and the device waits for data
    gpu()
    busy.elementwise 4, idle.data.decode 40
    kernel("vectorized_elementwise_kernel", calls=1000, ms=4, leaf="busy.elementwise")
    """,
)
def launch_bound(evidence: Evidence) -> Detection | None:
    """Recognise that the host cannot launch kernels as fast as the device completes them.

    ## Why it costs time
    Each operation costs the host five to fifty microseconds: Python, torch's dispatch, autograd,
    the launch. A kernel that takes less leaves the device idle until the next one comes.

    ## How it is measured
    By the time in which the device is idle because the training thread (or autograd's) has not yet
    made the next launch, in steps whose kernels are short.

    What compiling or capturing leaves of that wait is not known before it is tried: of five
    trainings in which compiling was measured, one became 1.9 times as fast, three did not change
    and one became a tenth slower. So no gain is predicted: the figure reported is the step if the
    device never waited for the host, which is the upper bound. The cause is named if that would be
    less than half of the step, below all causes that have a price. Values that the host reads
    within the step weigh against it: each of them ends a compiled region. Where gradients are taken
    by torch.autograd.grad, compiling is not advised: what is compiled cannot be differentiated
    twice. Nor is it where samples show that the models which would be compiled take less than half
    of the forward passes: compiling an encoder leaves the launches of its decoder as they are.
    """
    if not evidence.on_device:
        return None
    step_ns, lost_ns = evidence.step_ns, evidence.per_step(*HOST_LEAVES)
    work = windows.sum_kernels(evidence, "busy.")
    if (
        not step_ns
        or lost_ns < _MIN_STEP_SHARE * step_ns
        or work.count < _MIN_KERNELS
        or work.mean_ns > _MAX_KERNEL_NS
    ):
        return None
    n_reads = windows.sum_copies(evidence, "DtoH").count
    reads_words = (
        f" What can be compiled ends at each of {windows.format_count(n_reads)} values a step that "
        "the host reads."
        if n_reads > _MAX_READS
        else ""
    )
    return launch_bound.detection(
        f"{windows.format_count(work.count)} kernels a step, of {work.mean_ns / 1000:.1f} µs "
        "each, are launched one by one; the device waits for the host for "
        f"{windows.format_step_part(evidence, lost_ns)}.{reads_words}",
        HostChange(HOST_LEAVES, ZERO_FACTOR),
        measures=(
            Measure("kernels a step", work.count, ""),
            Measure("a kernel", work.mean_ns, "ns"),
            Measure("waiting for the host, a step", lost_ns, "ns"),
            Measure("values that the host reads, a step", n_reads, ""),
        ),
        helps=_helps(evidence),
        no_remedy=_advise(evidence),
        to_try=True,
    )


def _advise(evidence: Evidence) -> str:
    """Return what to do by hand: compile other modules, but not where gradients are taken aside."""
    if _takes_gradients_aside(evidence) or not _compiles_little(evidence):
        return _MANUAL_REMEDY
    return _COMPILE_OTHERS


def _takes_gradients_aside(evidence: Evidence) -> bool:
    return any(map(training_calls.is_pass_aside, evidence.call_lines))


def _helps(evidence: Evidence) -> tuple[FixRequest, ...]:
    """Return the fixes: none where gradients are taken aside, or other modules take most."""
    if _takes_gradients_aside(evidence) or _compiles_little(evidence):
        return ()
    is_compiled = windows.sum_calls(evidence, *_COMPILED_REGIONS).count > 0
    return (compile_reduce_overhead.request(), *(() if is_compiled else (compiled.request(),)))


def _compiles_little(evidence: Evidence) -> bool:
    """Return whether the function that steps calls modules other than the models for longer.

    Not where a model was seen in no call: it may be called by the name of a class that it inherits
    its forward pass from.
    """
    steps = training_calls.find_stepping_functions(evidence.call_lines)
    names = {model.name.rpartition(".")[2] for model in evidence.facts.models}
    passes = [
        call
        for call in evidence.call_lines
        if training_calls.is_forward(call) and (call.file, call.function) in steps
    ]
    if not names <= {_module_of(call) for call in passes}:
        return False
    own_share = sum(call.share for call in passes if _module_of(call) in names)
    other_share = sum(
        call.share
        for call in passes
        if _module_of(call) not in names
        and not any(part in call.callee_file.replace("\\", "/") for part in _NO_MODELS)
    )
    return 0 < own_share < _MIN_COMPILED_SHARE * (own_share + other_share)


def _module_of(call: CallLine) -> str:
    """Return the class of the module that a call passes through."""
    return call.callee.removesuffix(_FORWARD).rpartition(".")[2]
