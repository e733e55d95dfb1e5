"""Sampled calls that are part of training: passes, losses, steps, loaders; and whose they are."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Final

from gapless.model.host_code import CallLine

BACKWARD: Final = "Tensor.backward"
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
_NETWORK_FILES: Final = "torch/nn/"
# Derivatives of functions: before the optimizer's step they may be what it goes by. What is mapped,
# or called with other parameters, may be a model that acts or is evaluated.
_DERIVATIVE_FILES: Final = (
    *("torch/autograd/functional", "torch/_functorch/apis", "torch/_functorch/eager_transforms"),
)
_MAP: Final = "vmap."
_MIN_FORWARD_SHARE: Final = 0.05  # of a library's call: it runs the model, as a solver does
_CLIPPING_FILE: Final = "torch/nn/utils/clip_grad"  # between the backward pass and the step
_STEP_FILES: Final = ("torch/optim/", "torch/amp/")
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
_FORWARD: Final = "forward"
_TRAINING_CALLS: Final = ("backward", "forward", "__next__", "step", "zero_grad")
LIBRARIES: Final = ("site-packages", "dist-packages", "lib/python", "<frozen")


def find_training_functions(calls: Iterable[CallLine]) -> set[tuple[str, str]]:
    """Return the functions that are part of training, or call one, by samples in them."""
    all_calls = tuple(calls)
    return add_callers(
        {(call.callee_file, call.callee) for call in all_calls if is_training(call)}, all_calls
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


def is_training(call: CallLine) -> bool:
    """Return whether a line calls part of training; names of steps and passes always count."""
    file = _callee_path(call)
    name = call.callee.rpartition(".")[2]
    is_upkeep = name in _UPKEEP_CALLS or _INIT_FILE in file
    if is_upkeep or any(pattern in file for pattern in _ASIDE_FILES):
        return False
    is_scheduling = _SCHEDULERS in file and name == "step"
    is_torch = any(pattern in file for pattern in _TRAINING_FILES)
    is_bar = name == "__iter__" and LIBRARIES[0] in file and "/_tensor" not in file  # of progress
    return not is_scheduling and (is_torch or name in _TRAINING_CALLS or is_bar)


def is_pass_aside(call: CallLine) -> bool:
    """Return whether a call is of ``torch.autograd.grad``."""
    return call.callee == _PASS_CALL and _PASS_FILE in _callee_path(call)


def is_late(call: CallLine, calls: Sequence[CallLine]) -> bool:
    """Return whether what torch is called for below all backward passes trains nothing.

    That is a loss, or below the optimizer's step a derivative of a function; and there, too,
    whatever of torch's networks is called nowhere else but within networks, if others are: a model
    that trains acts or is evaluated there, and in a loop that begins with the backward pass the
    next forward pass follows.
    """
    file = _callee_path(call)
    if not _is_below_passes(call, calls):
        return False
    if any(pattern in file for pattern in _LOSS_FILES):
        return True
    if _is_derivative(call):
        is_map = call.callee.startswith(_MAP)
        return not is_map and _follows_step(call, calls) and not _precedes_step(call, calls)
    if _NETWORK_FILES not in file or _CLIPPING_FILE in file or _precedes_step(call, calls):
        return False
    other_calls = [
        other
        for other in calls
        if other.function.rpartition(".")[2] != _FORWARD and not _is_below_passes(other, calls)
    ]
    return any(map(is_forward, other_calls)) and all(
        other.callee != call.callee for other in other_calls
    )


def find_derivatives(calls: Sequence[CallLine]) -> set[tuple[str, int]]:
    """Return the places (file and line) below the backward passes at which functions are mapped.

    Or differentiated, before the optimizer's step: it may go by what they give.
    """
    return {
        (call.file, call.line)
        for call in calls
        if _is_derivative(call) and _is_below_passes(call, calls) and not is_late(call, calls)
    }


def sum_training(
    counted: Iterable[CallLine],
    calls: Sequence[CallLine],
    derivatives: AbstractSet[tuple[str, int]],
    *,
    is_alone: bool,
) -> dict[tuple[str, int], float]:
    """Return the share of its thread's time that some calls train, by their file and line.

    ``calls`` are all there are; ``derivatives``: places that may be none of training, and do not
    count; ``is_alone``: the process exchanges nothing with others.
    """
    shares: dict[tuple[str, int], float] = {}
    for call in counted:
        place = call.file, call.line
        is_aside = (is_alone and is_collective(call)) or is_late(call, calls)
        trains = is_training(call) and not is_aside and place not in derivatives
        if trains or call.forward > _MIN_FORWARD_SHARE * call.share:
            shares[place] = shares.get(place, 0.0) + call.share
    return shares


def _is_derivative(call: CallLine) -> bool:
    return any(pattern in _callee_path(call) for pattern in _DERIVATIVE_FILES)


def _callee_path(call: CallLine) -> str:
    return call.callee_file.replace("\\", "/")


def _is_below_passes(call: CallLine, calls: Sequence[CallLine]) -> bool:
    return call.line > last_pass(call.file, call.function, calls)


def _precedes_step(call: CallLine, calls: Sequence[CallLine]) -> bool:
    return max(_step_lines(call, calls), default=0) > call.line


def _follows_step(call: CallLine, calls: Sequence[CallLine]) -> bool:
    """Return whether an optimizer is called between the backward pass and a call."""
    pass_line = last_pass(call.file, call.function, calls)
    return any(pass_line < line < call.line for line in _step_lines(call, calls))


def _step_lines(call: CallLine, calls: Sequence[CallLine]) -> list[int]:
    """Return the lines of a call's function that call optimizers."""
    return [
        other.line
        for other in calls
        if (other.file, other.function) == (call.file, call.function) and _is_step(other)
    ]


def is_collective(call: CallLine) -> bool:
    """Return whether a call exchanges something with other processes."""
    return any(pattern in _callee_path(call) for pattern in _COLLECTIVE_FILES)


def last_pass(file: str, function: str | None, calls: Sequence[CallLine]) -> float:
    """Return the line of the last backward pass of a function; infinite: it has none."""
    lines = [
        call.line
        for call in calls
        if call.callee == BACKWARD and (call.file, call.function) == (file, function)
    ]
    return max(lines, default=inf)


def _is_step(call: CallLine) -> bool:
    return any(folder in _callee_path(call) for folder in _STEP_FILES)


def is_forward(call: CallLine) -> bool:
    """Return whether a call is a pass through a module."""
    return call.callee.rpartition(".")[2] == _FORWARD
