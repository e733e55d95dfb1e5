"""Lines of the user's source in which sampled stacks were, and what the training thread did."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from gapless.capture.source_lines import WRAPPER, is_library, is_recorder, package_of
from gapless.model.host_code import CallLine, HotLine
from gapless.model.recording import Process, StackCount

_MAX_LINES: Final = 20
_MIN_SHARE: Final = 0.01  # of the samples
WORKER_LOOP: Final = "_worker_loop"  # of torch.utils.data
_LOADER_PATH: Final = "torch/utils/data/"
_SAMPLING_FUNCTION: Final = "_next_index"  # of torch.utils.data, too
_TORCH: Final = "torch"  # an innermost frame of torch's computes, or launches what does
StackFrame = tuple[str, int, str]
_FORWARD: Final = "forward"
_UserCall = tuple[StackFrame, str, str]  # the user's frame, and the file and function it called
# What only passes a call on: to a module's forward, or out of the compiler's sight.
_FORWARDERS: Final = (
    "torch/nn/modules/module.py",
    "torch/_compile.py",
    "torch/_dynamo/eval_frame.py",
)
_MODES: Final = (".__torch_function__", ".__torch_dispatch__")  # all operators pass through
_MAX_CALLS: Final = 60  # rows


def hot_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Count sampled stacks by the innermost line outside libraries, the hottest first.

    Weighted by the time that they stand for, where that was measured; else by how often they were
    seen.
    """
    return _rank_lines(processes, lambda stack: (stack.thread, user_line(stack)))


def loading_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Count the lines in which training threads make batches themselves, or choose samples.

    Shares are of the time of these threads, as with ``hot_lines``.
    """
    return _rank_lines(processes, _loader_activity)


def _rank_lines(
    processes: Iterable[Process], activity_of: Callable[[StackCount], tuple[str, StackFrame | None]]
) -> tuple[HotLine, ...]:
    """Count the lines of what threads do, by the time of each thread, most first."""
    times: dict[tuple[str, str], Counter[StackFrame]] = {}
    looks, waited = Counter[tuple[str, str, StackFrame]](), Counter[tuple[str, str, StackFrame]]()
    totals = Counter[str]()
    stacks = [
        stack for process in processes for stack in process.stacks if not is_recorder_stack(stack)
    ]
    measured = {stack.thread for stack in stacks if stack.ran_ns}
    for stack in stacks:
        thread = stack.thread
        amount = stack.ran_ns + stack.blocked_ns if thread in measured else stack.count
        totals[thread] += amount
        activity, frame = activity_of(stack)
        if frame is not None and amount:
            times.setdefault((activity, thread), Counter())[frame] += amount
            looks[activity, thread, frame] += stack.count
            waited[activity, thread, frame] += stack.device_ns
    return tuple(
        HotLine(
            activity,
            *frame,
            looks[activity, thread, frame],
            amount / totals[thread],
            waited[activity, thread, frame] / totals[thread],
        )
        for activity, thread in sorted(times)
        for frame, amount in times[activity, thread].most_common(_MAX_LINES)
        if amount >= _MIN_SHARE * totals[thread]
    )


def lines_of_ranks(processes: Iterable[Process]) -> dict[int, tuple[HotLine, ...]]:
    """Return each rank's own lines, if there are several ranks."""
    processes_by_rank: dict[int, list[Process]] = {}
    for process in processes:
        if process.rank is not None:
            processes_by_rank.setdefault(process.rank, []).append(process)
    return (
        {rank: hot_lines(rank_processes) for rank, rank_processes in processes_by_rank.items()}
        if len(processes_by_rank) > 1
        else {}
    )


def call_lines(processes: Iterable[Process]) -> tuple[CallLine, ...]:
    """Return the user's lines with what training threads called in them, longest first."""
    training_stacks = (
        stack for process in processes for stack in process.stacks if stack.thread == "training"
    )
    stacks = [stack for stack in training_stacks if not is_recorder_stack(stack)]
    total_ns = sum(stack.ran_ns + stack.blocked_ns for stack in stacks)
    spent_ns, late_ns, waited_ns, forward_ns = (Counter[_UserCall]() for _ in range(4))
    for stack in stacks:
        for call, calls_back in _user_calls(stack).items():
            spent_ns[call] += stack.ran_ns + stack.blocked_ns
            forward_ns[call] += calls_back * (stack.ran_ns + stack.blocked_ns)
            late_ns[call] += stack.late_ns
            waited_ns[call] += stack.device_ns
    return tuple(
        CallLine(
            *call[0],
            *call[1:],
            ns / total_ns,
            late_ns[call] / total_ns,
            waited_ns[call] / total_ns,
            forward_ns[call] / total_ns,
        )
        for call, ns in spent_ns.most_common(_MAX_CALLS)
        if ns
    )


def _user_calls(stack: StackCount) -> dict[_UserCall, bool]:
    """Return each of the user's frames in a stack, with the function that it called.

    Each with whether that is a library's, which calls the user's forward pass back: a solver, say.
    """
    inner, calls, is_below_forward = None, dict[_UserCall, bool](), False
    for frame in stack.frames:
        if inner is not None and _is_own(frame):
            call = frame, inner[0], inner[2]
            calls_back = is_below_forward and is_library(inner[0])
            calls[call] = calls.get(call, False) or calls_back
            is_below_forward |= frame[2].rpartition(".")[2] == _FORWARD
        # A forward pass outside Python (a scripted module) has no frame of its own.
        is_forward = frame[0].replace("\\", "/").endswith(_FORWARDERS)
        if not is_recorder(frame[0]) and (inner is None or not is_forward):
            inner = frame
    return calls


def user_frames(stack: StackCount) -> list[StackFrame]:
    """Return the frames outside libraries, the outermost first."""
    return [frame for frame in reversed(stack.frames) if _is_own(frame)]


def _is_own(frame: StackFrame) -> bool:
    """Return whether a frame is the user's, and of no mode that operators pass through."""
    return not is_library(frame[0]) and not frame[2].endswith(_MODES)


def is_recorder_stack(stack: StackCount) -> bool:
    """Return whether a stack is the recorder's own work: a window that is saved, say.

    What one of its wrappers has called is not: the user called that.
    """
    index = next(
        (
            position
            for position, frame in enumerate(stack.frames)
            if not _is_passed_over(frame[0], position)
        ),
        None,
    )
    return index is not None and is_recorder(stack.frames[index][0])


def _is_passed_over(file: str, index: int) -> bool:
    """Return whether a frame leaves open whose work a stack is: a library's, or a wrapper's."""
    return (file == WRAPPER and index > 0) or (is_library(file) and not is_recorder(file))


def is_torch(stack: StackCount) -> bool:
    """Return whether a stack is torch's own work, ours, or making or waiting for a batch."""
    files = [frame[0].replace("\\", "/") for frame in stack.frames]
    return (
        not files
        or package_of(files[0]) in {_TORCH, "gapless"}
        or any(_LOADER_PATH in file for file in files)
    )


def _loader_activity(stack: StackCount) -> tuple[str, StackFrame | None]:
    """Return a loader's activity on the training thread, and the user's line of it, if any."""
    if stack.thread != "training":
        return "", None
    loader_indices = [
        index
        for index, frame in enumerate(stack.frames)
        if _LOADER_PATH in frame[0].replace("\\", "/")
    ]
    frames = stack.frames[: max(loader_indices, default=0)]
    user_frame = next(filter(_is_own, frames), None)
    is_choosing = any(frame[2].endswith(_SAMPLING_FUNCTION) for frame in frames)
    return "choosing" if is_choosing else "making", user_frame


def user_line(stack: StackCount) -> StackFrame | None:
    """Return the user's line, ``None`` for a worker that waits: its loop only has its starter."""
    for frame in stack.frames:
        if stack.thread == "worker" and frame[2] == WORKER_LOOP:
            return None
        if _is_own(frame):
            return frame
    return None
