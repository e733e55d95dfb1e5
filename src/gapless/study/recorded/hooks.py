"""Hooks of modules and tensors: the functions of the user's that torch calls beside its own work.

A module calls its ``forward``, and whatever was registered to run before or behind it; a backward
pass calls what was registered with tensors and modules. The samples of a training thread show by
whom a function was called.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gapless.model.host_code import HotLine
from gapless.model.recording import Process, StackCount
from gapless.study.recorded.lines import Place, is_ours
from gapless.study.source import is_library

# Who calls hooks: a module, the function that wraps hooks of modules, and autograd's engine.
_CALLERS: Final = ("torch/nn/modules/module.py", "torch/utils/hooks.py", "torch/autograd/graph.py")
_WORK: Final = ("forward", "backward", "apply")  # what these call for the step's own sake
_STEPS: Final = ("torch/optim/", "torch/distributed/")
_MOST: Final = 10  # lines


def hook_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Give the lines of hooks at which training threads stood, most time first.

    Shares are of the time of these threads, with all that a hook calls.
    """
    every = (one for each in processes for one in each.stacks if one.thread == "training")
    stacks = [one for one in every if not is_ours(one)]
    whole = sum(one.ran_ns + one.blocked_ns for one in stacks)
    spent, looks = Counter[Place](), Counter[Place]()
    for stack in stacks:
        place = _hook(stack)
        if place is not None:
            spent[place] += stack.ran_ns + stack.blocked_ns
            looks[place] += stack.count
    return tuple(
        HotLine("training", *place, looks[place], ns / whole)
        for place, ns in spent.most_common(_MOST)
        if ns
    )


def _hook(stack: StackCount) -> Place | None:
    """Give the line at which a stack stands in the outermost hook; ``None``: it stands in none.

    A hook that steps an optimizer, or reduces gradients, does the step's own work; and what runs
    a module, or a forward pass, is that pass in a wrapper.
    """
    if any(part in _path(frame) for frame in stack.frames for part in _STEPS):
        return None
    for at in range(len(stack.frames) - 2, -1, -1):  # the outermost first
        caller, frame = stack.frames[at + 1], stack.frames[at]
        called = _path(caller).endswith(_CALLERS) and not is_library(frame[0])
        if called and not _is_work(frame):
            inner = stack.frames[:at]
            runs = any(_is_work(one) or _path(one).endswith(_CALLERS[:1]) for one in inner)
            return None if runs else frame
    return None


def _is_work(frame: Place) -> bool:
    """Tell whether a function is a pass itself, by its name: ``_forward``, ``forward_train``."""
    name = frame[2].rpartition(".")[2]
    return any(word in name for word in _WORK)


def _path(frame: Place) -> str:
    return frame[0].replace("\\", "/")
