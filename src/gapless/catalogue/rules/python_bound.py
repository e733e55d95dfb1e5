"""Python in the training thread that the device, or the training, waits for."""

from typing import Final

from gapless.catalogue import examples, looping, sampled, windowed
from gapless.catalogue.between import PYTHON, SILENT, Excess, direct, excess_of, held
from gapless.catalogue.looping import Loop
from gapless.catalogue.rank_examples import together
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.catalogue.work_examples import worked
from gapless.model.change import Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.host_code import HostCode
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Site

_LEAST: Final = 0.02  # of the step
_NAMED: Final = 3  # operators
_WHOLE: Final = (
    "call operators once for all samples, objects, nodes or time steps: stack or pad and mask, "
    "index with tensors, index_add, nn.LSTM in place of cells; where rounds depend on one another, "
    "take out of the loop what does not, or compile it (torch.compile)"
)
_TENSORS: Final = (
    "keep the data in tensors and index these; or make one array of a batch (numpy.array, "
    "numpy.stack) and one tensor of that (torch.from_numpy)"
)


@rule(
    "G202",
    "python-bound",
    since="0.1",
    figures=[
        Figure(
            "A metric in pure Python after each step",
            "Python of the training thread, beside what calling operators takes, holds up 16.0 ms "
            "of each 40.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, "idle.host.python": 20},
                operator("aten::addmm", calls=1000, host_ms=10, device_ms=20),
            ),
        ),
        Figure(
            "A tokenizer in pure Python, sampled",
            "Python in `Tokenizer.encode` (data.py:88) takes 41.0 ms of each 60.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 19, "idle.host.unframed": 41},
                operator("aten::addmm", calls=100, host_ms=19),
                HostCode("python", 0.7, 0.98, "data.py", 88, "Tokenizer.encode"),
            ),
        ),
        Figure(
            "An answer that is waited for in each step",
            "Waiting for a socket in `fetch` (train.py:12) takes 20.0 ms of each 30.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 10, "idle.host.unframed": 20},
                operator("aten::addmm", calls=100, host_ms=10),
                HostCode("socket", 0.66, 1.0, "train.py", 12, "fetch"),
            ),
        ),
        Figure(
            "A simulator that sleeps, between thousands of small operators",
            "A sleep in `Simulator.step` (train.py:13) takes 12.6 ms of each 24.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 8, "idle.host.python": 16},
                operator("aten::add", calls=3000, host_ms=8),
                HostCode("sleep", 0.48, 1.0, "train.py", 13, "Simulator.step", None, 0.525, 400),
                HostCode("python", 0.1, 0.8, "train.py", 13, "Simulator.step", None, 0.525, 400),
            ),
        ),
        Figure(
            "Arrays prepared in NumPy before each step, as samples and windows tell",
            "numpy, called in `prepare` (train.py:20), takes 11.0 ms of each 24.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 10, "idle.host.python": 14},
                operator("aten::add", calls=1500, host_ms=8),
                HostCode("python", 0.5, 0.96, "train.py", 20, "prepare", "numpy", 0.5, 400),
                Site("aten::lift_fresh", "train.py", 18, "prepare", 10_000_000, 10),
            ),
        ),
        Figure(
            "A function that is sampled as often, but calls operators all the time",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 4},
                operator("aten::mul", calls=1000, host_ms=12),
                HostCode("python", 0.5, 1.0, "train.py", 20, "update", None, 0.5, 400),
                Site("aten::mul", "train.py", 18, "update", 120_000_000, 10_000),
            ),
        ),
        Figure(
            "On a CPU: a loop over samples",
            "Python of the training thread, beside what calling operators takes, holds up 29.6 ms "
            "of each 50.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 30},
                operator("aten::addmm", calls=100, host_ms=20),
            ),
        ),
        Figure(
            "Many small operators: Python is spread over them",
            None,
            stated(
                examples.gpu(),
                {"busy.elementwise": 4, "idle.host.python": 16},
                operator("aten::add", calls=5000, host_ms=20, device_ms=4),
            ),
        ),
        Figure(
            "Gates of a recurrent cell, at each of 60 time steps",
            "Loops over data call 420 small operators one by one in each step, mostly aten::mul "
            "180×, aten::sigmoid 180×, aten::linear 60×: calling them, not computing, takes 7.1 ms "
            "of each 12.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=4)),
                {"busy.elementwise": 2, "busy.math": 4, "idle.host.python": 6},
                worked("aten::mul", ((32, 48), (32, 48)), 0.5, "busy.elementwise", calls=180),
                worked("aten::sigmoid", ((32, 48),), 0.5, "busy.elementwise", calls=180),
                worked("aten::linear", ((32, 56), (192, 56)), 1.0, "busy.math", calls=60),
                worked("aten::conv2d", ((8, 3, 64, 64), (16, 3, 3, 3)), 4, "busy.math", calls=1),
            ),
        ),
        Figure(
            "As many operators, one for each parameter",
            None,
            stated(
                examples.cpu(),
                {"busy.elementwise": 2, "busy.math": 4, "idle.host.python": 1},
                operator("aten::mul", calls=480, host_ms=2),
                worked("aten::mul", ((32, 48), (32, 48)), 2, "busy.elementwise", calls=480),
            ),
        ),
        Figure(
            "torch.tensor for each transition of a batch",
            "torch.tensor makes 1280 tensors of Python's numbers in each step, one by one; with "
            "what is done to each, calling that takes 11.6 ms of each 16.0 ms step.",
            stated(
                examples.cpu(examples.optimizer(tensors=6)),
                {"busy.other": 2, "busy.math": 4, "idle.host.python": 10},
                operator("aten::empty", calls=1280, host_ms=1.5),
                operator("aten::lift_fresh", calls=1280, host_ms=0.1),
                worked("aten::empty", (), 1.5, "busy.other", calls=1280),
                worked("aten::lift_fresh", (), 0.1, "busy.other", calls=1280),
                worked("aten::detach_", (), 0, "busy.other", calls=1280),
                worked("aten::addmm", ((256, 256), (256, 256)), 4, "busy.math", calls=6),
            ),
        ),
        Figure(
            "A decoder in pure Python every tenth step, seen in a few samples alone",
            "Python in `decode` (train.py:34) takes 3.5 ms of each 13.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 8, "idle.host.python": 5},
                operator("aten::mm", calls=1200, host_ms=8),
                HostCode("python", 0.3, 0.9, "train.py", 34, "decode", None, 0.28, 46),
            ),
        ),
        Figure(
            "One of two ranks is silent for long: that is its own",
            None,
            together(
                examples.cpu(examples.ddp(), examples.world(ranks=2)),
                {"busy.math": 20, "comm.straggler_wait": 8},
                {"busy.math": 20, "idle.host.unframed": 8},
                parts=(operator("aten::addmm", calls=100, host_ms=20),),
            ),
        ),
        Figure(
            "A thread that is silent for long, and workers that wait for processors",
            None,
            stated(
                examples.cpu(examples.fed()),
                {"busy.math": 20, "idle.host.unframed": 6},
                used(examples.fed(), {"decode": 1}, made_by(8, {"decode": 4}, run_queue=0.3)),
                operator("aten::addmm", calls=100, host_ms=20),
            ),
        ),
    ],
)
def python_bound(seen: Seen) -> Loss | None:
    """Recognise that Python, or calling many small operators from it, takes long.

    ## Why it costs time
    While the thread that launches computes something in Python or NumPy, nothing new is launched.
    Once the device has worked off what was, it waits. On a CPU an operator costs some microseconds
    of Python and of torch's dispatch, however little it computes: a loop over samples, objects,
    nodes or time steps pays that in each round, once more in the backward pass. One call on a
    tensor of all of them pays once.

    ## How it is measured
    By the time between the training thread's operators that nothing else explains (no operator,
    call, wait or mark), in which the device has nothing to do; without a device, that time itself.
    What calling the step's operators takes at the most is taken off: 4 µs each. Silences of all
    threads count too; where processes were seen to wait for processors, only as much of them as
    sampled stacks tell. The function is named in which most of it was sampled, and what it does
    there: Python, a library, or a wait off the processor. Samples tell how long it stands there,
    within the error that so many have, and nothing but a quarter of the 4 µs is taken off of what
    lies between operators; the operators that the function itself calls, as stacks of a window
    show, are no Python. Calls of files, and of what writes text,
    are other causes (files-in-step, chores-in-step). Of several ranks it is what each of them has
    at least: what one has more is that rank's (straggling-rank).

    On the CPU alone loops over data are looked for: operators of less than 100 µs, or of one sample
    or time step at a time, that are called twenty times for each backward pass and four times for
    each tensor of parameters, and make up most of the calls of the forward pass. Of these it is the
    time that computing does not need. How much goes is not known before the loop is rewritten:
    nearly all where rounds do not depend on one another, little where they do; and what is then
    called once may compute faster, too. So the interval is wide.
    """
    loop, excess = looping.loop_of(seen), excess_of(seen)
    if loop is None or looping.calling_ns(seen, loop) < excess.lost:
        return _of_python(seen, excess)
    beside = _beside(seen, loop)
    if beside is not None and 2 * _beside_ns(seen, beside) > looping.calling_ns(seen, loop):
        return _of_python(seen, excess)
    return _of_loop(seen, loop, beside)


def _of_python(seen: Seen, excess: Excess) -> Loss | None:
    step, code, time = seen.step_ns, *held(seen, excess)
    lost = time.mid
    if not step or lost < _LEAST * step:
        return None
    whole = excess.python + excess.silent
    left = Interval(1 - time.high / whole, 1 - lost / whole, 1 - time.low / whole)
    leaves = (PYTHON, SILENT) if excess.silent else (PYTHON,)
    share = () if code is None else (code.share * code.inside,)
    return python_bound.loss(
        sampled.words(code) + f" {windowed.of_step(seen, lost)}.",
        Hosted(leaves, left),
        evidence=(
            Measure("Python between operators, a step", excess.python + excess.silent, "ns"),
            Measure("of that for calling them", excess.usual, "ns"),
            *(Measure("sampled in that function, of the thread", one, "share") for one in share),
        ),
        where=sampled.where(code),
        no_remedy=sampled.instead(code),
        inferred=excess.silent > lost / 2 and code is None,
    )


def _beside(seen: Seen, loop: Loop) -> HostCode | None:
    """Give what was sampled beside a loop over data: it calls no operators."""
    top = sampled.largest(seen)
    if top is None or top.function is None:
        return None
    place = looping.place(seen, loop)
    inside = place is not None and place.function == top.function.rpartition(".")[2]
    enough = _LEAST * (seen.step_ns or 0) <= _beside_ns(seen, top)
    return top if enough and not inside else None


def _beside_ns(seen: Seen, code: HostCode) -> float:
    """Give how long such code takes a step."""
    known = sampled.held_ns(seen, code, direct(seen, excess_of(seen)))
    return sampled.ns(seen, code) if known is None else known.mid


def _of_loop(seen: Seen, loop: Loop, beside: HostCode | None) -> Loss | None:
    step, lost = seen.step_ns, looping.calling_ns(seen, loop)
    more = ""
    if beside is not None:
        lost -= _beside_ns(seen, beside)
        more = f" {sampled.words(beside)} {windowed.ms(_beside_ns(seen, beside))} more."
    if not step or lost < _LEAST * step:
        return None
    takes = f"{windowed.of_step(seen, lost)}."
    mainly = ", ".join(f"{name} {windowed.times(many)}×" for name, many in loop.mainly[:_NAMED])
    summary = (
        f"Loops over data call {windowed.times(loop.calls)} small operators one by one in each "
        f"step, mostly {mainly}: calling them, not computing, takes {takes}"
    )
    if loop.tensors:
        summary = (
            f"torch.tensor makes {windowed.times(loop.tensors)} tensors of Python's numbers in "
            f"each step, one by one; with what is done to each, calling that takes {takes}"
        )
    return python_bound.loss(
        summary + more,
        looping.rewritten(seen, loop),
        where=looping.place(seen, loop),
        evidence=(
            Measure("small operators in loops, a step", loop.calls, ""),
            Measure("calling them, a step", lost, "ns"),
        ),
        no_remedy=_TENSORS if loop.tensors else _WHOLE,
        inferred=True,
    )
