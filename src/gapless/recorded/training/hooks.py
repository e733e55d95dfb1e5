"""Hooks of modules and tensors: the user's functions that torch calls besides its own work.

A module calls its ``forward``, and whatever was registered to run before or after it; a backward
pass calls what was registered with tensors and modules. The samples of a training thread show by
whom a function was called.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gapless.capture.source_lines import is_library
from gapless.model.host_code import HotLine
from gapless.model.recording import Process, StackCount
from gapless.recorded.training.lines import StackFrame, is_recorder_stack

# Callers of hooks: a module, the function that wraps hooks of modules, and autograd's engine.
_HOOK_CALLERS: Final = (
    "torch/nn/modules/module.py",
    "torch/utils/hooks.py",
    "torch/autograd/graph.py",
)
_PASS_NAMES: Final = ("forward", "backward", "apply")  # what these call for the step's own sake
_STEP_PATHS: Final = ("torch/optim/", "torch/distributed/")
_MAX_LINES: Final = 10  # lines


def hook_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Return the lines of hooks at which training threads were, longest first.

    Shares are of the time of these threads, with all that a hook calls.
    """
    training_stacks = (
        stack for process in processes for stack in process.stacks if stack.thread == "training"
    )
    stacks = [stack for stack in training_stacks if not is_recorder_stack(stack)]
    total_ns = sum(stack.ran_ns + stack.blocked_ns for stack in stacks)
    spent_ns, looks, waited_ns = (Counter[StackFrame]() for _ in range(3))
    for stack in stacks:
        frame = _hook_frame(stack)
        if frame is not None:
            spent_ns[frame] += stack.ran_ns + stack.blocked_ns
            looks[frame] += stack.count
            waited_ns[frame] += stack.device_ns
    return tuple(
        HotLine("training", *frame, looks[frame], ns / total_ns, waited_ns[frame] / total_ns)
        for frame, ns in spent_ns.most_common(_MAX_LINES)
        if ns
    )


def _hook_frame(stack: StackCount) -> StackFrame | None:
    """Return the line of a stack in the outermost hook; ``None``: it is in none.

    A hook that steps an optimizer, or reduces gradients, does the step's own work; and what runs a
    module, or a forward pass, is that pass in a wrapper.
    """
    if any(path in _path(frame) for frame in stack.frames for path in _STEP_PATHS):
        return None
    for index in range(len(stack.frames) - 2, -1, -1):  # the outermost first
        caller, frame = stack.frames[index + 1], stack.frames[index]
        is_hook = _path(caller).endswith(_HOOK_CALLERS) and not is_library(frame[0])
        if is_hook and not _is_work(frame):
            inner_frames = stack.frames[:index]
            runs_pass = any(
                _is_work(inner_frame) or _path(inner_frame).endswith(_HOOK_CALLERS[:1])
                for inner_frame in inner_frames
            )
            return None if runs_pass else frame
    return None


def _is_work(frame: StackFrame) -> bool:
    """Return whether a function is a pass itself, by its name: ``_forward``, ``forward_train``."""
    name = frame[2].rpartition(".")[2]
    return any(word in name for word in _PASS_NAMES)


def _path(frame: StackFrame) -> str:
    return frame[0].replace("\\", "/")
