"""What training threads did themselves, by sampled stacks, and in which function of the user's."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from msgspec.structs import replace

from gapless.capture.source_lines import package_of
from gapless.model.host_code import HostCode
from gapless.model.recording import Process, StackCount
from gapless.recorded.training.lines import (
    StackFrame,
    is_recorder_stack,
    is_torch,
    user_frames,
    user_line,
)

_MIN_SHARE: Final = 0.01  # of the time
_MAIN_SHARE: Final = 0.6  # of some time: so much in one function is where it goes
_PYTHON: Final = "python"
LOCK: Final = "lock"
_TORCH: Final = "torch"
_FUTURES: Final = "/concurrent/futures/"
_LOCK_FILES: Final = ("/threading.py", "/queue.py")  # in C a thread may wait for those that compute
_NAMED_WAITS: Final = frozenset(
    ("sleep", "file", "socket", "pipe", "process", LOCK)
)  # else it may be torch's
_UNNAMED: Final = "other"  # in subprocess: until the new process runs its program
_PROCESS_CHANNELS: Final = frozenset(("socket", "pipe", "file", _UNNAMED))
_CHANNEL_FILES: Final = (("/subprocess.py", "process"), ("multiprocessing/connection.py", "pipe"))
_WeightedStack = tuple[StackCount, float]
_T = TypeVar("_T")


def host_code(processes: Iterable[Process]) -> tuple[HostCode, ...]:
    """Return what training threads did besides torch and waits for data, most first.

    That is Python and C called from it ("python"), and what was waited for off the processor. Only
    stacks that stand for time count; the function is named in which most of it passed.
    """
    training_stacks = (
        stack for process in processes for stack in process.stacks if stack.thread == "training"
    )
    stacks = [stack for stack in training_stacks if not is_recorder_stack(stack)]
    total_ns = float(sum(stack.ran_ns + stack.blocked_ns for stack in stacks))
    user_stacks = [stack for stack in stacks if not is_torch(stack)]
    if not total_ns or not any(stack.ran_ns for stack in stacks):
        return ()
    stacks_by_kind: dict[str, list[_WeightedStack]] = {}
    for stack in user_stacks:
        for kind, ns in ((_PYTHON, stack.ran_ns), *stack.waits):
            name = name_wait(stack, kind)
            if ns and (name == _PYTHON or name in _NAMED_WAITS):
                stacks_by_kind.setdefault(name, []).append((stack, float(ns)))
    torch_callers = {
        (frame[0], frame[2]) for stack in stacks if is_torch(stack) for frame in user_frames(stack)
    }
    looks = sum(stack.count for stack in stacks)
    codes = (
        _build_host_code(kind, weighted, total_ns, torch_callers)
        for kind, weighted in stacks_by_kind.items()
    )
    large = (code for code in codes if code.share >= _MIN_SHARE)
    detailed = [
        replace(code, looks=looks, stood=_stood_ns(code, user_stacks, torch_callers) / total_ns)
        for code in large
    ]
    return tuple(sorted(detailed, key=lambda code: -code.share))


def _stood_ns(
    code: HostCode, stacks: Iterable[StackCount], torch_callers: AbstractSet[tuple[str, str]]
) -> float:
    """Return how long stacks were in a function; at its line, if it waits there or calls torch."""
    by_line = code.kind != _PYTHON or (code.file, code.function) in torch_callers
    return sum(
        stack.ran_ns + stack.blocked_ns - stack.device_ns
        for stack in stacks
        if any(
            (file, function) == (code.file, code.function) and (line == code.line or not by_line)
            for file, line, function in stack.frames
        )
    )


def name_wait(stack: StackCount, kind: str) -> str:
    """Name what a stack waits for: to the system, processes are connected by sockets or pipes.

    ``subprocess`` waits in ``poll``, ``multiprocessing`` at a pair of sockets. A lock that is not
    Python's own has no name: what is computed in C waits at some, too.
    """
    if kind == LOCK:
        return LOCK if is_python_lock(stack.frames) else _UNNAMED
    if kind not in _PROCESS_CHANNELS:
        return kind
    files = [frame[0].replace("\\", "/") for frame in stack.frames]
    return next(
        (
            waited_for
            for suffix, waited_for in _CHANNEL_FILES
            for file in files
            if file.endswith(suffix)
        ),
        kind,
    )


def is_python_lock(frames: Sequence[StackFrame]) -> bool:
    """Return whether a stack that waits at a lock does so in Python: for another thread.

    What torch waits at so is its own work: that of its threads, or what it compiles.
    """
    if not frames or not _path(frames[0]).endswith(_LOCK_FILES):
        return False
    caller = next((frame for frame in frames if not _is_waiting(_path(frame))), None)
    return caller is None or package_of(caller[0]) != _TORCH


def _is_waiting(path: str) -> bool:
    return path.endswith(_LOCK_FILES) or _FUTURES in path


def _path(frame: StackFrame) -> str:
    return frame[0].replace("\\", "/")


def _build_host_code(
    kind: str,
    stacks: Sequence[_WeightedStack],
    total_ns: float,
    torch_callers: AbstractSet[tuple[str, str]],
) -> HostCode:
    """Return where most of some time passed.

    Of ``torch_callers``, functions that also call torch, only one line counts, not all that they
    do: torch's own calls from C are in them as well.
    """
    amount_ns = sum(ns for _, ns in stacks)
    weighted, function = _find_function(stacks)
    frame = _dominant(weighted, lambda stack: _line_in(stack, function)) if function else None
    if function and (function[0], function[2]) in torch_callers:
        weighted = [(stack, ns) for stack, ns in weighted if _line_in(stack, function) == frame]
    innermost = _find_innermost(stacks, torch_callers)
    innermost_ns, inside_ns = (sum(ns for _, ns in group) for group in (innermost, weighted))
    if innermost_ns >= _MAIN_SHARE * amount_ns or innermost_ns > max(amount_ns / 2, inside_ns):
        weighted, frame = innermost, _dominant(innermost, user_line)
    inside_ns = sum(ns for _, ns in weighted)
    library = _dominant(
        weighted, lambda stack: package_of(stack.frames[0][0]) if stack.frames else None
    )
    share = amount_ns / total_ns
    return HostCode(kind, share, inside_ns / amount_ns, *(frame or (None, None, None)), library)


def _find_innermost(
    stacks: Sequence[_WeightedStack], torch_callers: AbstractSet[tuple[str, str]]
) -> Sequence[_WeightedStack]:
    """Return the stacks of the user's function that is innermost most often, whoever calls it.

    A handler of signals interrupts whatever runs; a helper is called at many lines.
    """
    stacks_by_function: dict[tuple[str, str], list[_WeightedStack]] = {}
    for stack, ns in stacks:
        frame = user_line(stack)
        if frame and (frame[0], frame[2]) not in torch_callers:
            stacks_by_function.setdefault((frame[0], frame[2]), []).append((stack, ns))
    groups = stacks_by_function.values()
    return max(groups, key=lambda group: sum(ns for _, ns in group), default=())


def _find_function(
    stacks: Sequence[_WeightedStack],
) -> tuple[Sequence[_WeightedStack], StackFrame | None]:
    """Return the user's deepest function in which most of some time passed, and its stacks."""
    depth, function, weighted = 0, None, list[_WeightedStack](stacks)
    min_ns = _MAIN_SHARE * sum(ns for _, ns in stacks)
    while True:
        stacks_below: dict[tuple[str, str], list[_WeightedStack]] = {}
        for stack, ns in weighted:
            frames = user_frames(stack)
            if depth < len(frames):
                key = frames[depth][0], frames[depth][2]
                stacks_below.setdefault(key, []).append((stack, ns))
        heaviest = max(
            stacks_below.values(), key=lambda group: sum(ns for _, ns in group), default=None
        )
        if heaviest is None or sum(ns for _, ns in heaviest) < min_ns:
            return weighted if function else (), function
        weighted, function, depth = heaviest, user_frames(heaviest[0][0])[depth], depth + 1


def _line_in(stack: StackCount, function: StackFrame) -> StackFrame | None:
    """Return the line at which a stack was in a function."""
    frames = (frame for frame in stack.frames if (frame[0], frame[2]) == (function[0], function[2]))
    return next(frames, None)


def _dominant(
    stacks: Sequence[_WeightedStack], key_of: Callable[[StackCount], _T | None]
) -> _T | None:
    """Return where most of some time passed, if there is such a place."""
    sums = Counter[_T | None]()
    for stack, ns in stacks:
        sums[key_of(stack)] += round(ns)
    return sums.most_common(1)[0][0] if sums else None
