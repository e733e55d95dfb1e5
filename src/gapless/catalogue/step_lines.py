"""Lines of the function that trains, and of hooks, beside what trains: what samples show of each.

A step is a forward pass, a backward pass, an optimizer's step, and the next batch. The function
that runs the backward pass calls these; what else it does at a line of its own (numbers for a log,
a loop over parameters, a history that grows) is not needed for the step, as far as can be seen from
outside: it may be loss by hand, so it must take much before it is told.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.sampled import share_of
from gapless.model.change import Hosted
from gapless.model.edit import Where
from gapless.model.host_code import CallLine, HotLine
from gapless.model.interval import Interval
from gapless.model.run import Recorded
from gapless.model.seen import Seen

BACKWARD: Final = "Tensor.backward"
_INNER: Final = (".<genexpr>", ".<listcomp>", ".<dictcomp>", ".<setcomp>", ".<lambda>")
# What trains, by the folders and files of torch that it is called in; a library that wraps it.
_TRAINS: Final = (
    *("torch/nn/", "torch/optim/", "torch/autograd/", "torch/utils/data/", "torch/distributions/"),
    *("torch/amp/", "torch/distributed/", "torch/_compile", "torch/_dynamo/", "torch/utils/check"),
    *("torch/_functorch/", "torch/jit/"),
    "torch/utils/_contextlib",  # what is decorated with no_grad: an evaluation as a rule
)
_PARTS: Final = ("backward", "forward", "__next__", "step", "wrapper", "zero_grad")
_HELPERS: Final = 0.125  # of the time
_LIBRARIES: Final = ("site-packages", "dist-packages", "lib/python", "<frozen")
_PART: Final = 0.25  # of a line: less was seen as a call returned to it
THREAD: Final = ("idle.host.", "busy.")  # without a device: whatever the thread does
HOST: Final = ("idle.host.", "idle.launch.")  # with a device: it waits for the training thread
_READ: Final = "aten::_local_scalar_dense"
_MOSTLY: Final = 0.6
_MOST: Final = 0.95  # of the thread's time goes, at the most
_LEAST: Final = 0.01  # of the thread's time: a line beside another one


@dataclass(frozen=True)
class StepLine:
    """Lines that follow one another, and what the training thread did there itself."""

    where: Where
    share: Interval  # of the training thread's time, with the samples' error
    looks: int


def costliest(seen: Seen) -> StepLine | None:
    """Give the lines of the stepping function that take most beside what trains, if there are any.

    Beside a device the thread may wait for it at any line: only where the device waits for the
    thread most of the time, and the thread reads nothing back.
    """
    recorded = seen.study.recorded
    if recorded is None or (seen.on_device and not _is_ahead(seen)):
        return None
    looks = sum(one.looks for one in recorded.host_code[:1])
    if not looks:
        return None
    blocks = (*_blocks(_beside(recorded)), *([one] for one in _helpers(recorded, looks)))
    lines = (_line(block, looks) for block in blocks)
    return max(lines, key=lambda one: one.share.mid, default=None)


def left(seen: Seen, gone: Interval) -> Hosted:
    """Give what is left of the thread's time, where such shares of a step go."""
    leaves = HOST if seen.on_device else THREAD
    whole = seen.share(*leaves)
    parts = (gone.high, gone.mid, gone.low)
    return Hosted(
        leaves, Interval(*(1 - min(_MOST, part / whole) if whole else 1.0 for part in parts))
    )


def _is_ahead(seen: Seen) -> bool:
    """Tell whether a device is always done before the training thread has more for it."""
    read = windowed.calls(seen, _READ).count
    return seen.share(*HOST) >= _MOSTLY and seen.share("idle.sync") < _LEAST and read < 1


def _beside(recorded: Recorded) -> Iterator[HotLine]:
    """Give the lines of the stepping function at which its thread stood in no part of training.

    And those of hooks, with all that they call.
    """
    steps = {(one.file, one.function) for one in recorded.call_lines if one.called == BACKWARD}
    trains: dict[tuple[str, int], float] = {}
    for call in recorded.call_lines:
        if _trains(call):
            place = call.file, call.line
            trains[place] = trains.get(place, 0.0) + call.share
    yield from recorded.hook_lines
    hooks = {(one.file, one.line) for one in recorded.hook_lines}
    for line in recorded.lines:
        if (line.file, line.line) in hooks:
            continue
        inside = (line.file, _outer(line.function)) in steps
        part = trains.get((line.file, line.line), 0.0) >= _PART * line.share
        if line.thread == "training" and inside and not part:
            yield line


def _helpers(recorded: Recorded, looks: int) -> Iterator[HotLine]:
    """Give the lines of the stepping function that call others of the script's own, with all that.

    If these call no part of training themselves: what computes a loss is none. Less than an eighth
    may be how the next batch is made.
    """
    calls = recorded.call_lines
    steps = {(one.file, one.function) for one in calls if one.called == BACKWARD}
    training = _training_functions(calls)
    for call in calls:
        own = not any(part in call.called_file for part in _LIBRARIES)
        helps = own and (call.called_file, call.called) not in training
        inner = _outer(call.called) == call.function
        if (call.file, call.function) in steps and helps and not inner and call.share > _HELPERS:
            count = round(call.share * looks)
            yield HotLine("training", call.file, call.line, call.function, count, call.share)


def _training_functions(calls: Iterable[CallLine]) -> set[tuple[str, str]]:
    """Give the functions that are a part of training, or call one, by what was sampled in them."""
    every = tuple(calls)
    return with_callers({(one.called_file, one.called) for one in every if _trains(one)}, every)


def with_callers(known: set[tuple[str, str]], calls: Sequence[CallLine]) -> set[tuple[str, str]]:
    """Give functions (file and name), and all that call them, or one that does."""
    while True:
        callers = {
            (one.file, one.function) for one in calls if (one.called_file, one.called) in known
        }
        if callers <= known:
            return known
        known = known | callers


def _trains(call: CallLine) -> bool:
    """Tell whether a line calls a part of training; a name of a step or a pass is one anywhere."""
    file = call.called_file.replace("\\", "/")
    name = call.called.rpartition(".")[2]
    return any(part in file for part in _TRAINS) or name in _PARTS


def _outer(function: str) -> str:
    """Give the function that a comprehension is written in."""
    for name in _INNER:
        function = function.replace(name, "")
    return function


def _blocks(lines: Iterable[HotLine]) -> Iterator[list[HotLine]]:
    """Give lines that follow one another together, such as those of a loop."""
    ordered = sorted(
        (one for one in lines if one.share >= _LEAST), key=lambda one: (one.file, one.line)
    )
    block: list[HotLine] = []
    for line in ordered:
        if block and (line.file != block[-1].file or line.line > block[-1].line + 1):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _line(block: list[HotLine], whole: int) -> StepLine:
    """Give lines with their share of all looks at the thread."""
    top = max(block, key=lambda one: one.share)
    where = Where(top.file, top.line, _outer(top.function))
    share = share_of(sum(one.share for one in block), whole)
    return StepLine(where, share, sum(one.count for one in block))
