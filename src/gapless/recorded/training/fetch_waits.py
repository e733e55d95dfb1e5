"""What making batches waits for off the processor, as sampled stacks of fetches show it."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gapless.capture.source_lines import is_library
from gapless.model.host_code import FetchWait
from gapless.model.recording import Process, StackCount
from gapless.recorded.training.host_code import LOCK, name_wait
from gapless.recorded.training.lines import StackFrame, is_recorder_stack

_FETCH_FILE: Final = "torch/utils/data/_utils/fetch.py"
_KINDS: Final = ("sleep", "socket", "pipe", "process", LOCK)
_MIN_SHARE: Final = 0.01  # of the time of fetches


def fetch_waits(processes: Iterable[Process]) -> tuple[FetchWait, ...]:
    """Return what fetches wait for, in workers or in the training thread itself, most first.

    Files are left out, and waits within C of which it is not known what for.
    """
    fetch_stacks = [
        (stack, frames)
        for process in processes
        for stack in process.stacks
        if not is_recorder_stack(stack) and (frames := _fetch_frames(stack))
    ]
    total_ns = sum(stack.ran_ns + stack.blocked_ns for stack, _ in fetch_stacks)
    looks = sum(stack.count for stack, _ in fetch_stacks)
    spent_ns = dict[str, Counter[StackFrame]]()
    for stack, frames in fetch_stacks:
        frame = next((frame for frame in frames if not is_library(frame[0])), None)
        for kind, ns in stack.waits if frame is not None else ():
            name = name_wait(stack, kind)
            if frame is not None and name in _KINDS:
                spent_ns.setdefault(name, Counter())[frame] += ns
    waits = [
        FetchWait(kind, spent.total() / total_ns, looks, *spent.most_common(1)[0][0])
        for kind, spent in spent_ns.items()
        if spent.total() >= _MIN_SHARE * total_ns
    ]
    return tuple(sorted(waits, key=lambda wait: -wait.share))


def _fetch_frames(stack: StackCount) -> tuple[StackFrame, ...]:
    """Return the frames within a fetch, innermost first; none outside of one."""
    for index, (file, _, _) in enumerate(stack.frames):
        if file.replace("\\", "/").endswith(_FETCH_FILE):
            return stack.frames[:index]
    return ()
