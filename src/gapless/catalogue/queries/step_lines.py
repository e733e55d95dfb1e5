"""Lines of the training function, and of hooks, that do not train: what samples show of each.

A step is a forward pass, a backward pass, an optimizer's step, and the next batch. The function
that runs the backward pass calls these; what else it does at lines of its own (numbers for a log, a
loop over parameters, a growing history) is not needed for the step, as far as can be seen from
outside. It may be a hand-written loss, so it must take much time before it is reported.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.samples import UNSPLIT, estimate_share, removable_leaves
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine, HotLine
from gapless.model.run import RecordedRun

_INNER: Final = (".<genexpr>", ".<listcomp>", ".<dictcomp>", ".<setcomp>", ".<lambda>")
_NODE: Final = "autograd::engine::evaluate_function: {}"
_DOUBLE_NODES: Final = (_NODE.format("*BackwardBackward*"), _NODE.format("*BackwardDataBackward*"))
# Operators of layers, each of which has one node, and which no backward pass calls.
_LAYER_NODES: Final = {
    "aten::addmm": "AddmmBackward0",
    "aten::convolution": "ConvolutionBackward0",
    "aten::native_layer_norm": "NativeLayerNormBackward0",
    "aten::embedding": "EmbeddingBackward0",
}
_MIN_PASSES: Final = 1.5  # through a graph: above that, it is passed more than once
_MIN_HELPER_SHARE: Final = 0.125  # of the time
_MIN_CALL_SHARE: Final = 0.25  # of a line: less is seen when a call returns to it
_TRAINING: Final = "training"
_READ: Final = "aten::_local_scalar_dense"
_DEVICE_WORK: Final = ("busy.", "copy.", "comm.")
# What a device does while a thread waits for it; and what reading from an idle one takes.
_DEVICE_COMPUTE: Final = ("busy.", "comm.", "copy.h2d", "idle.device.", UNSPLIT)
_READS: Final = ("copy.d2h", "idle.sync")
_MIN_HOST_SHARE: Final = 0.15  # of a step: the device waits for the host so long
_MIN_LINE_SHARE: Final = 0.01  # of the thread's time, for a line next to another
# Of the step, by the low end of samples, for lines that are a cause: less may be the loss.
MIN_CAUSE_SHARE: Final = 0.05
_MAX_GAP: Final = 3  # lines between two of a loop, at which nothing was sampled
_MAX_BLOCK_GAP: Final = 10  # the same between operators, if no function of Python is called there


class StepLine(Struct, frozen=True):
    """Consecutive lines, and the time of the training thread there."""

    location: Location
    share: Estimate  # of the training thread's time, with the sampling error
    looks: int
    has_gradients: bool = False  # they are computed there, by a pass beside ``backward()``
    first_line: int = 0
    last_line: int = 0
    waited: float = 0.0  # of the thread's time, beside it, for a device

    @property
    def place(self) -> str:
        """Return the short name of the lines: "train.py:41", or "train.py:41-43"."""
        first_name = name_line(replace(self.location, line=self.first_line))
        is_single = self.first_line == self.last_line
        return first_name if is_single else f"{first_name}-{self.last_line}"


def find_costly_lines(evidence: Evidence) -> tuple[StepLine, ...]:
    """Return the lines of the stepping function that take time without training, dearest first.

    With a device the thread may wait for it at a line: samples in calls that read from it, or copy,
    do not count. Where those were not told from others, any line may have waited for all that the
    device worked.
    """
    if evidence.on_device and evidence.share(*removable_leaves(evidence)) < _MIN_HOST_SHARE:
        return ()
    return find_step_lines(evidence)


def find_step_lines(evidence: Evidence) -> tuple[StepLine, ...]:
    """Return the same, however seldom a device waits for the thread."""
    recorded = evidence.recorded
    looks = sum(code.looks for code in recorded.host_code[:1])
    if not looks:
        return ()
    passes = _own_passes(recorded) if _has_repeated_passes(evidence) else ()
    recorded = _forget_idle_waits(evidence, recorded)
    blocks = (
        *_group_lines(tuple(_other_lines(evidence, recorded, passes)), recorded),
        *([line] for line in _helper_lines(recorded, looks)),
    )
    unseen_share = _unseen_waits(evidence)
    lines = [_merge_lines(block, looks, passes, unseen_share) for block in blocks]
    selected: dict[Location, StepLine] = {}
    for line in sorted(lines, key=lambda line: -line.share.mid):
        selected.setdefault(line.location, line)
    return tuple(selected.values())


def _forget_idle_waits(evidence: Evidence, recorded: RecordedRun) -> RecordedRun:
    """Return lines that waited no longer than their device computes: what is beyond is their own.

    Hundreds of numbers read one by one from a device that has nothing to do take their time all
    the same; copies to it are needed for the step.
    """
    waited = sum(line.waited for line in recorded.lines if line.thread == _TRAINING)
    if not evidence.on_device or not waited or not evidence.account.steps:
        return recorded
    idle_share = max(0.0, waited - evidence.share(*_DEVICE_COMPUTE))
    kept_share = 1 - min(idle_share, evidence.share(*_READS)) / waited
    lines, hook_lines = (
        tuple(replace(line, waited=line.waited * kept_share) for line in all_lines)
        for all_lines in (recorded.lines, recorded.hook_lines)
    )
    calls = tuple(replace(call, waited=call.waited * kept_share) for call in recorded.call_lines)
    return replace(recorded, lines=lines, hook_lines=hook_lines, call_lines=calls)


def waited_share(evidence: Evidence) -> float:
    """Return how much of its time the thread waits for a device that computes, by samples."""
    recorded = _forget_idle_waits(evidence, evidence.recorded)
    return sum(line.waited for line in recorded.lines if line.thread == _TRAINING)


def _has_repeated_passes(evidence: Evidence) -> bool:
    """Return whether a backward pass goes through a graph that another one has been through.

    Passes for a gradient that is differentiated do, too; and there is a graph for each inner step
    of a training that learns to learn.
    """
    if not evidence.study.account.steps or windows.sum_calls(evidence, *_DOUBLE_NODES).count:
        return False
    n_calls, n_nodes = (
        [windows.sum_calls(evidence, name).count for name in names]
        for names in (_LAYER_NODES, map(_NODE.format, _LAYER_NODES.values()))
    )
    return sum(n_nodes) > _MIN_PASSES * sum(n_calls) > 0


def _own_passes(recorded: RecordedRun) -> tuple[CallLine, ...]:
    """Return the lines that compute gradients by themselves: ``torch.autograd.grad``."""
    return tuple(filter(training_calls.is_pass_aside, recorded.call_lines))


def _unseen_waits(evidence: Evidence) -> float:
    """Return the share of a step that any line may have waited for the device, unnoticed."""
    recorded = evidence.recorded
    if not evidence.on_device or any(
        line.waited for line in (*recorded.lines, *recorded.call_lines)
    ):
        return 0.0
    if not evidence.study.account.steps:
        return evidence.share(*_DEVICE_WORK, UNSPLIT)
    is_reading = (
        windows.sum_calls(evidence, _READ).count >= 1
        or evidence.share("idle.sync") >= _MIN_LINE_SHARE
    )
    return evidence.share(*_DEVICE_WORK) if is_reading else 0.0


def _other_lines(
    evidence: Evidence, recorded: RecordedRun, passes: Sequence[CallLine]
) -> Iterator[HotLine]:
    """Return the lines of the stepping function at which its thread was outside training code.

    Lines of hooks are included, with all that they call, and derivatives of functions between such
    lines. Where no module is called the function is the model itself: what it does before its
    backward pass may be needed for that. A process that is alone exchanges nothing.
    """
    calls = recorded.call_lines
    steps = training_calls.find_stepping_functions(calls)
    model_ends = _model_ends(calls)
    derivatives = training_calls.find_derivatives(calls)
    is_alone = evidence.facts.world.ranks <= 1
    training_shares = training_calls.sum_training(
        (call for call in calls if call not in passes), calls, derivatives, is_alone=is_alone
    )
    yield from recorded.hook_lines
    hooks = {(line.file, line.line) for line in recorded.hook_lines}
    others: list[HotLine] = []
    for line in recorded.lines:
        if (line.file, line.line) in hooks:
            continue
        function = line.file, _outer_function(line.function)
        training_share = training_shares.get((line.file, line.line), 0.0)
        is_training = training_share >= _MIN_CALL_SHARE * line.share
        is_model = line.line < model_ends.get(function, 0)
        if line.thread == _TRAINING and function in steps and not (is_training or is_model):
            others.append(line)
    certain = [line for line in others if (line.file, line.line) not in derivatives]
    yield from (line for line in others if line in certain or _is_enclosed(line, certain))


def _is_enclosed(line: HotLine, lines: Sequence[HotLine]) -> bool:
    """Return whether a line stands close between others of its function.

    What a derivative of a function is computed from, and what is made of it, train nothing then.
    """
    near = [
        other.line - line.line
        for other in lines
        if (other.file, other.function) == (line.file, line.function)
        and abs(other.line - line.line) <= _MAX_GAP + 1
    ]
    return min(near, default=0) < 0 < max(near, default=0)


def follows_passes(line: StepLine, calls: Sequence[CallLine]) -> bool:
    """Return whether a line stands below all backward passes of its function: it is no loss."""
    location = line.location
    return line.first_line > training_calls.last_pass(location.file, location.function, calls)


def _model_ends(calls: Sequence[CallLine]) -> dict[tuple[str, str], int]:
    """Return the line of the longest backward pass of each function that is the model itself.

    That is each that runs one, where no module is called.
    """
    if any(map(training_calls.is_forward, calls)):
        return {}
    passes = sorted(
        (call for call in calls if call.callee == training_calls.BACKWARD),
        key=lambda call: call.share,
    )
    return {(call.file, call.function): call.line for call in passes}


def _helper_lines(recorded: RecordedRun, looks: int) -> Iterator[HotLine]:
    """Return the lines of the stepping function that call the script's own functions.

    Only if those call no part of training: computing a loss is one. The time of the calls is
    included; less than an eighth of the step may be making the next batch. Where no module is
    called, what is called before the backward pass is the model.
    """
    calls = recorded.call_lines
    steps = training_calls.find_stepping_functions(calls)
    training_functions = training_calls.find_training_functions(calls)
    model_ends = _model_ends(calls)
    for call in calls:
        is_own = not any(folder in call.callee_file for folder in training_calls.LIBRARIES)
        is_helper = is_own and (call.callee_file, call.callee) not in training_functions
        is_nested = _outer_function(call.callee) == call.function
        if (
            (call.file, call.function) in steps
            and is_helper
            and not is_nested
            and call.line >= model_ends.get((call.file, call.function), 0)
            and call.share > _MIN_HELPER_SHARE
        ):
            count = round(call.share * looks)
            place = call.file, call.line, call.function
            yield HotLine(_TRAINING, *place, count, call.share, call.waited)


def _outer_function(function: str) -> str:
    """Return the function that contains a comprehension."""
    for name in _INNER:
        function = function.replace(name, "")
    return function


def _group_lines(lines: Sequence[HotLine], recorded: RecordedRun) -> Iterator[list[HotLine]]:
    """Return groups of consecutive lines, such as those of a loop.

    Lines between them at which nothing was sampled, such as the head of a loop, take no time: what
    is made above it for its rounds goes with the loop, and so do tensors that are made some lines
    above what is computed from them.
    """
    sorted_lines = sorted(
        (line for line in lines if _own_share(line) >= _MIN_LINE_SHARE),
        key=lambda line: (line.file, line.line),
    )
    sampled = {(line.file, line.line) for line in (*recorded.lines, *recorded.call_lines)}
    calling = {(call.file, call.line) for call in recorded.call_lines}
    blocks: list[list[HotLine]] = []
    for line in sorted_lines:
        if blocks and _gap(blocks[-1][-1], line) <= 0:
            blocks[-1].append(line)
        else:
            blocks.append([line])
    groups = blocks[:1]
    for block in blocks[1:]:
        if _is_same_loop(groups[-1][-1], block[0], sampled, calling):
            groups[-1] = [*groups[-1], *block]
        else:
            groups.append(block)
    yield from groups


def _gap(earlier: HotLine, line: HotLine) -> float:
    return line.line - earlier.line - 1 if line.file == earlier.file else inf


def _is_same_loop(
    first: HotLine,
    last: HotLine,
    sampled: AbstractSet[tuple[str, int]],
    calling: AbstractSet[tuple[str, int]],
) -> bool:
    """Return whether nothing was sampled between lines of a function that are close together.

    What a line calls is a matter of its own, and so is what it reads from a device; tensors are
    made for operators some lines below.
    """
    is_own = any(line.waited or (line.file, line.line) in calling for line in (first, last))
    return (
        _gap(first, last) <= (_MAX_GAP if is_own else _MAX_BLOCK_GAP)
        and _outer_function(first.function) == _outer_function(last.function)
        and not any((first.file, number) in sampled for number in range(first.line + 1, last.line))
    )


def _merge_lines(
    block: list[HotLine], looks: int, passes: Sequence[CallLine], unseen_share: float
) -> StepLine:
    """Return lines with their share of all samples of the thread, less waits for a device."""
    top = max(block, key=_own_share)
    location = Location(top.file, top.line, _outer_function(top.function))
    share = estimate_share(sum(map(_own_share, block)), looks)
    share = Estimate(max(0.0, share.low - unseen_share), share.mid, share.high)
    has_gradients = any((call.file, call.line) == (top.file, top.line) for call in passes)
    return StepLine(
        location,
        share,
        sum(line.count for line in block),
        has_gradients,
        first_line=min(line.line for line in block),
        last_line=max(line.line for line in block),
        waited=sum(line.waited for line in block),
    )


def _own_share(line: HotLine) -> float:
    return max(0.0, line.share - line.waited)
