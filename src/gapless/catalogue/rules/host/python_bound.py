"""Python in the training thread that the device, or the training, waits for."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import loops, samples, windows
from gapless.catalogue.queries.between_operators import (
    PYTHON,
    SILENT,
    Excess,
    estimate_direct_calls,
    find_hold_up,
    find_whole_function,
    include_samples,
    measure_excess,
)
from gapless.catalogue.queries.lines.loop_functions import find_loop_function
from gapless.catalogue.queries.loops import Loop
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.host_code import HostCode

_MIN_STEP_SHARE: Final = 0.02  # of the step
_MAX_NAMES: Final = 3  # operators
# Of a device that waits for a function, whatever that does: what windows do not show, too.
_WHOLE_LEAVES: Final = (*samples.HOST_LEAVES, "idle.h2d", "copy.", samples.UNRECORDED)
_LOOP_REMEDY: Final = (
    "call operators once for all samples, objects, nodes or time steps: stack or pad and mask, "
    "index with tensors, index_add, nn.LSTM in place of cells (in fp32); where rounds depend on "
    "one another, take out of the loop what does not, or compile it (torch.compile)"
)
_TENSOR_REMEDY: Final = (
    "keep the data in tensors and index these; or make one array of a batch (numpy.array, "
    "numpy.stack) and one tensor of that (torch.from_numpy)"
)


@rule(
    "G202",
    "python-bound",
    figures="""
    # A metric in pure Python after each step
    > Python of the training thread, beside what calling operators takes, holds up 16.0 ms of each
      40.0 ms step.
    gpu()
    busy.tc_math 20, idle.host.python 20
    operator("aten::addmm", calls=1000, host_ms=10, device_ms=20)
    # A tokenizer in pure Python, sampled
    > Python in `Tokenizer.encode` (data.py:88) takes 41.0 ms of each 60.0 ms step.
    cpu()
    busy.math 19, idle.host.unframed 41
    operator("aten::addmm", calls=100, host_ms=19)
    HostCode("python", 0.7, 0.98, "data.py", 88, "Tokenizer.encode")
    # Waiting for an answer in each step
    > Waiting for a socket in `fetch` (train.py:12) takes 20.0 ms of each 30.0 ms step.
    cpu()
    busy.math 10, idle.host.unframed 20
    operator("aten::addmm", calls=100, host_ms=10)
    HostCode("socket", 0.66, 1.0, "train.py", 12, "fetch")
    # A simulator that sleeps, between thousands of small operators
    > A sleep in `Simulator.step` (train.py:13) takes 11.5 ms of each 24.0 ms step.
    cpu()
    busy.math 8, idle.host.python 16
    operator("aten::add", calls=3000, host_ms=8)
    HostCode("sleep", 0.48, 1.0, "train.py", 13, "Simulator.step", None, 0.525, 400)
    HostCode("python", 0.1, 0.8, "train.py", 13, "Simulator.step", None, 0.525, 400)
    # Arrays prepared in NumPy before each step, by samples and windows
    > numpy, called in `prepare` (train.py:20), takes 11.0 ms of each 24.0 ms step.
    cpu()
    busy.math 10, idle.host.python 14
    operator("aten::add", calls=1500, host_ms=8)
    HostCode("python", 0.5, 0.96, "train.py", 20, "prepare", "numpy", 0.5, 400)
    Site("aten::lift_fresh", "train.py", 18, "prepare", 10_000_000, 10)
    # A function that is sampled as often, but calls operators all the time
    cpu()
    busy.math 20, idle.host.python 4
    operator("aten::mul", calls=1000, host_ms=12)
    HostCode("python", 0.5, 1.0, "train.py", 20, "update", None, 0.5, 400)
    Site("aten::mul", "train.py", 18, "update", 120_000_000, 10_000)
    # A pass through modules, little of it at lines of its own
    cpu()
    busy.math 20, idle.host.python 4
    operator("aten::mul", calls=1000, host_ms=12)
    HostCode("python", 0.3, 0.7, "model.py", 20, "Net.forward", None, 0.2, 400)
    HotLine("training", "model.py", 20, "Net.forward", 4, 0.01)
    CallLine("model.py", 20, "Net.forward", "block.py", "Block.forward", 0.5)
    # On a CPU: a loop over samples
    > Python of the training thread, beside what calling operators takes, holds up 29.6 ms of each
      50.0 ms step.
    cpu()
    busy.math 20, idle.host.python 30
    operator("aten::addmm", calls=100, host_ms=20)
    # Many small operators: Python is spread over them
    gpu()
    busy.elementwise 4, idle.host.python 16
    operator("aten::add", calls=5000, host_ms=20, device_ms=4)
    # Gates of a recurrent cell, at each of 60 time steps
    > Loops over data call 420 small operators one by one in each step, mostly aten::mul 180×,
      aten::sigmoid 180×, aten::linear 60×: calling them, not computing, takes 7.1 ms of each 12.0
      ms step.
    cpu(optimizer(tensors=4))
    busy.elementwise 2, busy.math 4, idle.host.python 6
    example_work("aten::mul", ((32, 48), (32, 48)), 0.5, "busy.elementwise", calls=180)
    example_work("aten::sigmoid", ((32, 48),), 0.5, "busy.elementwise", calls=180)
    example_work("aten::linear", ((32, 56), (192, 56)), 1.0, "busy.math", calls=60)
    example_work("aten::conv2d", ((8, 3, 64, 64), (16, 3, 3, 3)), 4, "busy.math", calls=1)
    # A loop over nodes, sampled, without stacks of windows
    > Loops over data call 800 small operators one by one in each step, mostly aten::index 800×:
      calling them, not computing, takes 16.0 ms of each 20.0 ms step.
    cpu(optimizer(tensors=4))
    busy.index 8, idle.host.python 12
    example_work("aten::index", ((32, 48), (3,)), 8, "busy.index", calls=800)
    HostCode("python", 0.7, 0.9, "model.py", 22, "Sage.forward", None, 0.7, 400)
    # As many operators, one for each parameter
    cpu()
    busy.elementwise 2, busy.math 4, idle.host.python 1
    operator("aten::mul", calls=480, host_ms=2)
    example_work("aten::mul", ((32, 48), (32, 48)), 2, "busy.elementwise", calls=480)
    # torch.tensor for each transition of a batch
    > torch.tensor makes 1280 tensors of Python's numbers in each step, one by one; with what is
      done to each, calling that takes 11.6 ms of each 16.0 ms step.
    cpu(optimizer(tensors=6))
    busy.other 2, busy.math 4, idle.host.python 10
    operator("aten::empty", calls=1280, host_ms=1.5)
    operator("aten::lift_fresh", calls=1280, host_ms=0.1)
    example_work("aten::empty", (), 1.5, "busy.other", calls=1280)
    example_work("aten::lift_fresh", (), 0.1, "busy.other", calls=1280)
    example_work("aten::detach_", (), 0, "busy.other", calls=1280)
    example_work("aten::addmm", ((256, 256), (256, 256)), 4, "busy.math", calls=6)
    # A decoder in pure Python every tenth step, seen in a few samples alone
    > Python in `decode` (train.py:34) takes 3.5 ms of each 13.0 ms step.
    cpu()
    busy.math 8, idle.host.python 5
    operator("aten::mm", calls=1200, host_ms=8)
    HostCode("python", 0.3, 0.9, "train.py", 34, "decode", None, 0.28, 46)
    # One of two ranks is silent for long: that is its own matter
    cpu(ddp(), world(ranks=2))
    rank busy.math 20, comm.straggler_wait 8
    rank busy.math 20, idle.host.unframed 8
    operator("aten::addmm", calls=100, host_ms=20)
    # A thread that is silent for long, and workers that wait for processors
    cpu(worker_loader())
    busy.math 20, idle.host.unframed 6
    example_use(worker_loader(), {"decode": 1}, example_workers(8, {"decode": 4}, run_queue=0.3))
    operator("aten::addmm", calls=100, host_ms=20)
    """,
)
def python_bound(evidence: Evidence) -> Detection | None:
    """Recognise that Python, or calling many small operators from it, takes long.

    ## Why it costs time
    While the launching thread computes something in Python or NumPy, nothing new is launched. Once
    the device has completed its queue, it waits. On a CPU an operator costs some microseconds of
    Python and of torch's dispatch, however little it computes: a loop over samples, objects, nodes
    or time steps pays that in each round, and again in the backward pass. One call on a tensor of
    all of them pays once.

    ## How it is measured
    By the time between the training thread's operators that nothing else explains, in which the
    device is idle; without a device, that time itself. The maximum overhead of calling the step's
    operators, 4 µs each, is subtracted. Times without frames in any thread count too; if processes
    were seen to wait for processors, only as far as sampled stacks show them, and what most steps
    of the windows do not have, only as far as these show it in one function. The function in which
    most of it was sampled is named, and what it does there:
    Python, a library, or a wait. Samples tell how long it takes, within their statistical error;
    then only a quarter of the 4 µs is subtracted; of a pass through modules windows alone tell it,
    unless a quarter is at its own lines. Where a device waits for a function of Python that neither
    trains nor calls what does, it goes with all that it copies and launches. Without a device the
    interval holds what windows and what samples show. Operators that the function itself calls do
    not count as Python. Calls of files, and of what writes text, are other causes (files-in-step,
    chores-in-step). Of several ranks the minimum counts: an excess of one belongs to that rank
    (straggling-rank).

    On the CPU alone, loops over data are looked for: operators of less than 100 µs, or of one
    sample or time step at a time, that are called twenty times for each backward pass and four
    times for each parameter tensor, and make up most of the calls of the forward pass. Of several,
    as far as stacks of windows tell them apart by the function of which one call goes through the
    rounds, the one that calls most counts. Its cost is the time that is not computing; a backward
    pass has a part in it where some node of it is called at least half as often as one of them. How
    much is saved is not known before the loop is rewritten: nearly all if rounds do not depend on
    one another, little if they do; and a single call may also compute faster. So the interval is
    wide.
    """
    loop, excess = loops.find_loop(evidence), measure_excess(evidence)
    if loop is None or loops.calling_ns(evidence, loop) < excess.lost_ns:
        return _python_detection(evidence, excess)
    other_code = _find_other_code(evidence, loop)
    if other_code is not None and 2 * _code_ns(evidence, other_code) > loops.calling_ns(
        evidence, loop
    ):
        return _python_detection(evidence, excess)
    return _loop_detection(evidence, loop, other_code)


def _python_detection(evidence: Evidence, excess: Excess) -> Detection | None:
    step_ns, code, held_ns = evidence.step_ns, *find_hold_up(evidence, excess)
    lost_ns = held_ns.mid
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    leaves = (PYTHON, SILENT) if excess.silent_ns else (PYTHON,)
    if code is not None and not evidence.on_device:
        leaves, held_ns = (
            samples.thread_leaves(evidence),
            include_samples(evidence, code, held_ns),
        )
    total_ns = max(evidence.per_step(*leaves), held_ns.high)
    remaining = Estimate(*(1 - ns / total_ns for ns in (held_ns.high, lost_ns, held_ns.low)))
    shares = () if code is None else (code.share * code.inside,)
    whole_share = find_whole_function(evidence, code, lost_ns)
    stated_ns = lost_ns if whole_share is None else max(lost_ns, whole_share.mid * step_ns)
    return python_bound.detection(
        samples.begin_sentence(code) + f" {windows.format_step_part(evidence, stated_ns)}.",
        HostChange(leaves, remaining)
        if whole_share is None
        else samples.remove_share(evidence, whole_share, _WHOLE_LEAVES),
        measures=(
            Measure("Python between operators, a step", excess.python_ns + excess.silent_ns, "ns"),
            Measure("of that for calling them", excess.usual_ns, "ns"),
            *(Measure(samples.SAMPLED_IN_FUNCTION, share, "share") for share in shares),
        ),
        location=samples.code_location(code),
        no_remedy=samples.suggest_remedy(evidence, code),
        inferred=excess.silent_ns > lost_ns / 2 and code is None,
    )


def _find_other_code(evidence: Evidence, loop: Loop) -> HostCode | None:
    """Return the code that was sampled beside a loop over data, and calls no operators."""
    top = samples.find_top_code(evidence)
    if top is None or top.function is None:
        return None
    location = find_loop_function(evidence, loop)
    is_inside = location is not None and location.function == top.function.rpartition(".")[2]
    is_costly = _MIN_STEP_SHARE * (evidence.step_ns or 0) <= _code_ns(evidence, top)
    return top if is_costly and not is_inside else None


def _code_ns(evidence: Evidence, code: HostCode) -> float:
    """Return how long sampled code takes in a step."""
    calls_ns = estimate_direct_calls(evidence, measure_excess(evidence))
    estimate = samples.estimate_held_ns(evidence, code, calls_ns)
    return samples.code_ns(evidence, code) if estimate is None else estimate.mid


def _loop_detection(
    evidence: Evidence, loop: Loop, other_code: HostCode | None
) -> Detection | None:
    step_ns, lost_ns = evidence.step_ns, loops.calling_ns(evidence, loop)
    code_words = ""
    if other_code is not None:
        lost_ns -= _code_ns(evidence, other_code)
        code_words = (
            f" {samples.begin_sentence(other_code)} {windows.ms(_code_ns(evidence, other_code))} "
            "more."
        )
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    cost_words = f"{windows.format_step_part(evidence, lost_ns)}."
    listing = ", ".join(
        f"{name} {windows.format_count(count)}×" for name, count in loop.main_operators[:_MAX_NAMES]
    )
    summary = (
        f"Loops over data call {windows.format_count(loop.calls)} small operators one by one in "
        f"each step, mostly {listing}: calling them, not computing, takes {cost_words}"
    )
    if loop.n_tensors:
        summary = (
            f"torch.tensor makes {windows.format_count(loop.n_tensors)} tensors of Python's "
            "numbers in each step, one by one; with what is done to each, calling that takes "
            f"{cost_words}"
        )
    return python_bound.detection(
        summary + code_words,
        loops.rewrite_loop(evidence, loop),
        location=find_loop_function(evidence, loop),
        measures=(
            Measure("small operators in loops, a step", loop.calls, ""),
            Measure("calling them, a step", lost_ns, "ns"),
            Measure(samples.IN_BACKWARD, loop.engine_share, "share"),
        ),
        no_remedy=_TENSOR_REMEDY if loop.n_tensors else _LOOP_REMEDY,
        inferred=True,
    )
