"""Lines of the training function, and of hooks, that do not train: what samples show of each.

A step is a forward pass, a backward pass, an optimizer's step, and the next batch. The function
that runs the backward pass calls these; what else it does at lines of its own (numbers for a log, a
loop over parameters, a growing history) is not needed for the step, as far as can be seen from
outside. It may be a hand-written loss, so it must take much time before it is reported.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.samples import estimate_share, removable_leaves
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine, HotLine
from gapless.model.run import RecordedRun

BACKWARD: Final = "Tensor.backward"
_INNER: Final = (".<genexpr>", ".<listcomp>", ".<dictcomp>", ".<setcomp>", ".<lambda>")
# What trains, by folders and files of torch that its calls are in, and a library that wraps it.
_TRAINING_FILES: Final = (
    *("torch/nn/", "torch/optim/", "torch/autograd/", "torch/utils/data/", "torch/distributions/"),
    *("torch/amp/", "torch/distributed/", "torch/_compile", "torch/_dynamo/", "torch/utils/check"),
    *("torch/_functorch/", "torch/jit/"),
    "torch/utils/_contextlib",  # decorated with no_grad: usually an evaluation
)
# Passes of its own, that train nothing; names for a profiler (``record_function``).
_ASIDE_FILES: Final = ("torch/autograd/gradcheck", "torch/autograd/profiler")
# A loss has been computed when its backward pass begins: what is called after it is for a log.
_LOSS_FILES: Final = ("torch/nn/functional", "torch/nn/modules/loss", "torch/distributions/")
_COLLECTIVE_FILES: Final = ("torch/distributed/c10d_logger", "torch/distributed/distributed_c10d")
_SCHEDULERS: Final = "torch/optim/lr_scheduler"  # it also wraps the optimizer's step
# Modules and optimizers that are made, copied or written down: no pass through them.
_UPKEEP_CALLS: Final = (
    *("__init__", "reset_parameters", "state_dict", "load_state_dict", "__deepcopy__", "to"),
    *("named_parameters", "named_modules", "named_buffers", "apply", "add_param_group"),
    *("pad_sequence", "parameters_to_vector"),  # many tensors are put together in one
)
_INIT_FILE: Final = "torch/nn/init"  # first values of parameters
_PASS_FILE, _PASS_CALL = ("torch/autograd/__init__", "grad")  # a backward pass beside the other
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
_FORWARD: Final = "forward"
_TRAINING_CALLS: Final = ("backward", "forward", "__next__", "step", "wrapper", "zero_grad")
_MIN_HELPER_SHARE: Final = 0.125  # of the time
_LIBRARIES: Final = ("site-packages", "dist-packages", "lib/python", "<frozen")
_MIN_CALL_SHARE: Final = 0.25  # of a line: less is seen when a call returns to it
_READ: Final = "aten::_local_scalar_dense"
_DEVICE_WORK: Final = ("busy.", "copy.", "comm.")
_MIN_HOST_SHARE: Final = 0.15  # of a step: the device waits for the host so long
_MIN_LINE_SHARE: Final = 0.01  # of the thread's time, for a line next to another


class StepLine(Struct, frozen=True):
    """Consecutive lines, and the time of the training thread there."""

    location: Location
    share: Estimate  # of the training thread's time, with the sampling error
    looks: int
    has_gradients: bool = False  # they are computed there, by a pass beside ``backward()``
    first_line: int = 0
    last_line: int = 0


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
    blocks = (
        *_group_lines(_other_lines(evidence, passes)),
        *([line] for line in _helper_lines(recorded, looks)),
    )
    unseen_share = _unseen_waits(evidence)
    lines = [_merge_lines(block, looks, passes, unseen_share) for block in blocks]
    selected: dict[Location, StepLine] = {}
    for line in sorted(lines, key=lambda line: -line.share.mid):
        selected.setdefault(line.location, line)
    return tuple(selected.values())


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
    return tuple(filter(is_pass_aside, recorded.call_lines))


def is_pass_aside(call: CallLine) -> bool:
    """Return whether a call is of ``torch.autograd.grad``."""
    return call.callee == _PASS_CALL and _PASS_FILE in call.callee_file.replace("\\", "/")


def _unseen_waits(evidence: Evidence) -> float:
    """Return the share of a step that any line may have waited for the device, unnoticed."""
    recorded = evidence.recorded
    if not evidence.on_device or any(
        line.waited for line in (*recorded.lines, *recorded.call_lines)
    ):
        return 0.0
    is_reading = (
        windows.sum_calls(evidence, _READ).count >= 1
        or evidence.share("idle.sync") >= _MIN_LINE_SHARE
    )
    return evidence.share(*_DEVICE_WORK) if is_reading else 0.0


def _other_lines(evidence: Evidence, passes: Sequence[CallLine]) -> Iterator[HotLine]:
    """Return the lines of the stepping function at which its thread was outside training code.

    Lines of hooks are included, with all that they call. Where no module is called the function is
    the model itself: what it does before its backward pass may be needed for that. A process that
    is alone exchanges nothing.
    """
    recorded, is_alone = evidence.recorded, evidence.facts.world.ranks <= 1
    calls = recorded.call_lines
    steps = find_stepping_functions(calls)
    model_ends = _model_ends(calls)
    training_shares: dict[tuple[str, int], float] = {}
    for call in calls:
        is_aside = (is_alone and _is_collective(call)) or _is_late_loss(call, calls)
        if _is_training(call) and call not in passes and not is_aside:
            line_key = call.file, call.line
            training_shares[line_key] = training_shares.get(line_key, 0.0) + call.share
    yield from recorded.hook_lines
    hooks = {(line.file, line.line) for line in recorded.hook_lines}
    for line in recorded.lines:
        if (line.file, line.line) in hooks:
            continue
        function = line.file, _outer_function(line.function)
        is_training = (
            training_shares.get((line.file, line.line), 0.0) >= _MIN_CALL_SHARE * line.share
        )
        is_model = line.line < model_ends.get(function, 0)
        if line.thread == "training" and function in steps and not (is_training or is_model):
            yield line


def follows_passes(line: StepLine, calls: Sequence[CallLine]) -> bool:
    """Return whether a line stands below all backward passes of its function: it is no loss."""
    location = line.location
    return line.first_line > _last_pass(location.file, location.function, calls)


def _is_late_loss(call: CallLine, calls: Sequence[CallLine]) -> bool:
    is_loss = any(pattern in call.callee_file.replace("\\", "/") for pattern in _LOSS_FILES)
    return is_loss and call.line > _last_pass(call.file, call.function, calls)


def _is_collective(call: CallLine) -> bool:
    return any(pattern in call.callee_file.replace("\\", "/") for pattern in _COLLECTIVE_FILES)


def _last_pass(file: str, function: str | None, calls: Sequence[CallLine]) -> float:
    """Return the line of the last backward pass of a function; infinite: it has none."""
    lines = [
        call.line
        for call in calls
        if call.callee == BACKWARD and (call.file, call.function) == (file, function)
    ]
    return max(lines, default=inf)


def is_forward(call: CallLine) -> bool:
    """Return whether a call is a pass through a module."""
    return call.callee.rpartition(".")[2] == _FORWARD


def _model_ends(calls: Sequence[CallLine]) -> dict[tuple[str, str], int]:
    """Return the line of the longest backward pass of each function that is the model itself.

    That is each that runs one, where no module is called.
    """
    if any(map(is_forward, calls)):
        return {}
    passes = sorted(
        (call for call in calls if call.callee == BACKWARD), key=lambda call: call.share
    )
    return {(call.file, call.function): call.line for call in passes}


def _helper_lines(recorded: RecordedRun, looks: int) -> Iterator[HotLine]:
    """Return the lines of the stepping function that call the script's own functions.

    Only if those call no part of training: computing a loss is one. The time of the calls is
    included; less than an eighth of the step may be making the next batch. Where no module is
    called, what is called before the backward pass is the model.
    """
    calls = recorded.call_lines
    steps = find_stepping_functions(calls)
    training_functions = find_training_functions(calls)
    model_ends = _model_ends(calls)
    for call in calls:
        is_own = not any(folder in call.callee_file for folder in _LIBRARIES)
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
            yield HotLine("training", *place, count, call.share, call.waited)


def find_training_functions(calls: Iterable[CallLine]) -> set[tuple[str, str]]:
    """Return the functions that are part of training, or call one, by samples in them."""
    all_calls = tuple(calls)
    return add_callers(
        {(call.callee_file, call.callee) for call in all_calls if _is_training(call)}, all_calls
    )


def find_stepping_functions(calls: Iterable[CallLine]) -> set[tuple[str, str]]:
    """Return the functions (file and name) that run a backward pass."""
    return {(call.file, call.function) for call in calls if call.callee == BACKWARD}


def add_callers(functions: set[tuple[str, str]], calls: Sequence[CallLine]) -> set[tuple[str, str]]:
    """Return functions (file and name), and all their direct and indirect callers."""
    while True:
        callers = {
            (call.file, call.function)
            for call in calls
            if (call.callee_file, call.callee) in functions
        }
        if callers <= functions:
            return functions
        functions = functions | callers


def _is_training(call: CallLine) -> bool:
    """Return whether a line calls part of training; names of steps and passes always count."""
    file = call.callee_file.replace("\\", "/")
    name = call.callee.rpartition(".")[2]
    is_upkeep = name in _UPKEEP_CALLS or _INIT_FILE in file
    if is_upkeep or any(pattern in file for pattern in _ASIDE_FILES):
        return False
    is_scheduling = _SCHEDULERS in file and name == "step"
    is_torch = any(pattern in file for pattern in _TRAINING_FILES)
    is_bar = name == "__iter__" and _LIBRARIES[0] in file and "/_tensor" not in file  # of progress
    return not is_scheduling and (is_torch or name in _TRAINING_CALLS or is_bar)


def _outer_function(function: str) -> str:
    """Return the function that contains a comprehension."""
    for name in _INNER:
        function = function.replace(name, "")
    return function


def _group_lines(lines: Iterable[HotLine]) -> Iterator[list[HotLine]]:
    """Return groups of consecutive lines, such as those of a loop."""
    sorted_lines = sorted(
        (line for line in lines if _own_share(line) >= _MIN_LINE_SHARE),
        key=lambda line: (line.file, line.line),
    )
    block: list[HotLine] = []
    for line in sorted_lines:
        if block and (line.file != block[-1].file or line.line > block[-1].line + 1):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


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
    )


def _own_share(line: HotLine) -> float:
    return max(0.0, line.share - line.waited)
