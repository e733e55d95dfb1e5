"""Python in the training thread that the device, or the training, waits for."""

from dataclasses import dataclass
from typing import Final

from gapless.catalogue import examples, looping, ranked, windowed
from gapless.catalogue.looping import Loop
from gapless.catalogue.rank_examples import together
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.catalogue.work_examples import worked
from gapless.model.change import Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_PYTHON: Final = "idle.host.python"
_SILENT: Final = "idle.host.unframed"  # long, and no frame of any thread: told of Python too
# Of Python for each operator, those within others and of the backward pass counted too: 0.1 to
# 2.8 µs in 36 recorded trainings of all kinds.
_USUAL_NS: Final = 4_000.0
_MADE: Final = "aten::lift_fresh"  # torch.tensor calls it once, and three others from C++
_BESIDE: Final = 3
_LEAST: Final = 0.02  # of the step
_OTHERS: Final = 0.5  # processors that others took
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
_CROWDED: Final = 0.1  # of a worker's life spent waiting for a processor


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
                worked("aten::addmm", ((256, 256), (256, 256)), 4, "busy.math", calls=6),
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
    What calling the step's operators takes as a rule is taken off: 4 µs each. Silences of all
    threads count too, unless processes were seen to wait for processors. Of several ranks it is
    what each of them has at least: what one has more is that rank's (straggling-rank).

    On the CPU alone loops over data are looked for: operators of less than 100 µs that are called
    fifty times for each backward pass and four times for each tensor of parameters, and make up
    most of the calls of the forward pass. Of these it is the time that
    computing does not need. How much of it goes is not known before the loop is rewritten: nearly
    all where rounds do not depend on one another, little where they do. So the interval is wide.
    """
    loop, excess = looping.loop_of(seen), _excess(seen)
    if loop is None or looping.calling_ns(seen, loop) < excess.lost:
        return _of_python(seen, excess)
    return _of_loop(seen, loop)


@dataclass(frozen=True)
class _Excess:
    """Python beside what calling operators takes, in ns of a step."""

    python: float
    silent: float
    usual: float

    @property
    def lost(self) -> float:
        return self.python - self.usual + self.silent


def _excess(seen: Seen) -> _Excess:
    python = ranked.least(seen, _PYTHON)
    silent = 0.0 if _crowded(seen) else ranked.least(seen, _SILENT)
    called = windowed.calls(seen, "aten::*").count - _BESIDE * windowed.calls(seen, _MADE).count
    return _Excess(python, silent, min(python, _USUAL_NS * max(0.0, called)))


def _of_python(seen: Seen, excess: _Excess) -> Loss | None:
    step, lost = seen.step_ns, excess.lost
    if not step or lost < _LEAST * step:
        return None
    leaves = (_PYTHON, _SILENT) if excess.silent else (_PYTHON,)
    left = excess.usual / (excess.python + excess.silent)
    return python_bound.loss(
        "Python of the training thread, beside what calling operators takes, holds up "
        f"{windowed.ms(lost)} of each {windowed.ms(step)} step.",
        Hosted(leaves, Interval(left, left, min(1.0, 1.5 * left + 0.05))),
        evidence=(
            Measure("Python between operators, a step", excess.python + excess.silent, "ns"),
            Measure("of that for calling them", excess.usual, "ns"),
        ),
        no_remedy=(
            "do it in the loader's workers, do it less often, or write it as operations on whole "
            "tensors; torch.compile helps where it is part of the model"
        ),
        inferred=excess.silent > lost / 2,
    )


def _of_loop(seen: Seen, loop: Loop) -> Loss | None:
    step, lost = seen.step_ns, looping.calling_ns(seen, loop)
    if not step or lost < _LEAST * step:
        return None
    takes = f"{windowed.ms(lost)} of each {windowed.ms(step)} step."
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
        summary,
        looping.rewritten(seen, loop),
        where=looping.place(seen, loop),
        evidence=(
            Measure("small operators in loops, a step", loop.calls, ""),
            Measure("calling them, a step", lost, "ns"),
        ),
        no_remedy=_TENSORS if loop.tensors else _WHOLE,
        inferred=True,
    )


def _crowded(seen: Seen) -> bool:
    """Tell whether processes wait for processors: then a thread that does nothing may wait too."""
    recorded = seen.study.recorded
    if recorded is None:
        return False
    workers = [one.workers for one in recorded.loaders if one.workers is not None]
    others = recorded.others.cores if recorded.others is not None else 0.0
    return others > _OTHERS or any((one.run_queue or 0.0) > _CROWDED for one in workers)
