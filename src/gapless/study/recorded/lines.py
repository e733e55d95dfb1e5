"""Lines of the user's source in which sampled stacks stood, and what the training thread did."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeVar

from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.recording import Process, StackCount
from gapless.study.source import WRAPPER, is_library, is_recorder, package

_MOST: Final = 20
_LEAST: Final = 0.01  # of the samples
_LOOP: Final = "_worker_loop"  # of torch.utils.data
_LOADER: Final = "torch/utils/data/"
_CHOOSES: Final = "_next_index"  # of torch.utils.data, too
_TORCH: Final = "torch"  # what stands in it innermost computes, or launches what does
_MOSTLY: Final = 0.6  # of some time: so much of it in one function is where it goes
_RAN: Final = "python"
_NAMED: Final = frozenset(("sleep", "file", "socket", "pipe", "process"))  # else it may be torch's
_BETWEEN: Final = frozenset(("socket", "pipe", "file"))
_PROCESSES: Final = (("/subprocess.py", "process"), ("multiprocessing/connection.py", "pipe"))
Place = tuple[str, int, str]
_Weighed = tuple[StackCount, float]
_PASSES: Final = "torch/nn/modules/module.py"  # what calls a module's forward
_CALLS: Final = 60  # rows
_T = TypeVar("_T")


def hot_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Count sampled stacks by the innermost line that is no library's, the hottest first.

    By the time that they stand for, where that was measured; else by how often they were seen.
    """
    return _ranked(processes, lambda stack: (stack.thread, _place(stack)))


def loading_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Count the lines in which training threads make batches themselves, or choose samples.

    Shares are of the time of these threads, as with ``hot_lines``.
    """
    return _ranked(processes, _loading)


def _ranked(
    processes: Iterable[Process], doing_of: Callable[[StackCount], tuple[str, Place | None]]
) -> tuple[HotLine, ...]:
    """Count the lines of what threads do, the most first, by the time of each thread."""
    times: dict[tuple[str, str], Counter[Place]] = {}
    looks = Counter[tuple[str, str, Place]]()
    whole = Counter[str]()
    stacks = [one for process in processes for one in process.stacks if not is_ours(one)]
    measured = {stack.thread for stack in stacks if stack.ran_ns}
    for stack in stacks:
        thread = stack.thread
        amount = stack.ran_ns + stack.blocked_ns if thread in measured else stack.count
        whole[thread] += amount
        doing, place = doing_of(stack)
        if place is not None and amount:
            times.setdefault((doing, thread), Counter())[place] += amount
            looks[doing, thread, place] += stack.count
    return tuple(
        HotLine(doing, *place, looks[doing, thread, place], amount / whole[thread])
        for doing, thread in sorted(times)
        for place, amount in times[doing, thread].most_common(_MOST)
        if amount >= _LEAST * whole[thread]
    )


def lines_of_ranks(processes: Iterable[Process]) -> dict[int, tuple[HotLine, ...]]:
    """Give each rank's own lines, if there are several ranks."""
    mine: dict[int, list[Process]] = {}
    for one in processes:
        if one.rank is not None:
            mine.setdefault(one.rank, []).append(one)
    return {rank: hot_lines(some) for rank, some in mine.items()} if len(mine) > 1 else {}


def host_code(processes: Iterable[Process]) -> tuple[HostCode, ...]:
    """Give what training threads did beside torch and waits for data: by what, the most first.

    That is Python and C called from it ("python"), and what was waited for off the processor. Only
    of stacks that stand for time; a function is named that most of it passed in.
    """
    every = (one for each in processes for one in each.stacks if one.thread == "training")
    stacks = [one for one in every if not is_ours(one)]
    whole = float(sum(one.ran_ns + one.blocked_ns for one in stacks))
    own = [one for one in stacks if not _is_torch(one)]
    if not whole or not any(one.ran_ns for one in stacks):
        return ()
    kinds: dict[str, list[_Weighed]] = {}
    for one in own:
        for kind, ns in ((_RAN, one.ran_ns), *one.waited):
            if ns and (kind == _RAN or kind in _NAMED):
                kinds.setdefault(_whom(one, kind), []).append((one, float(ns)))
    loops = {(frame[0], frame[2]) for one in stacks if _is_torch(one) for frame in _own(one)}
    looks = sum(one.count for one in stacks)
    coded = [_code(kind, some, whole, loops) for kind, some in kinds.items()]
    large = (one for one in coded if one.share >= _LEAST)
    told = [replace(one, looks=looks, stood=_stood(one, own, loops) / whole) for one in large]
    return tuple(sorted(told, key=lambda one: -one.share))


def call_lines(processes: Iterable[Process]) -> tuple[CallLine, ...]:
    """Give the lines of the user's in which training threads called what, the most time first."""
    every = (one for each in processes for one in each.stacks if one.thread == "training")
    stacks = [one for one in every if not is_ours(one)]
    whole = sum(one.ran_ns + one.blocked_ns for one in stacks)
    spent = Counter[tuple[Place, str, str]]()
    for one in stacks:
        for call in _called(one):
            spent[call] += one.ran_ns + one.blocked_ns
    return tuple(
        CallLine(*place, file, called, ns / whole)
        for (place, file, called), ns in spent.most_common(_CALLS)
        if ns
    )


def _called(stack: StackCount) -> set[tuple[Place, str, str]]:
    """Give each frame of the user's in a stack, with the function that it called."""
    inner, found = None, set[tuple[Place, str, str]]()
    for frame in stack.frames:
        if inner is not None and not is_library(frame[0]):
            found.add((frame, inner[0], inner[2]))
        # A forward pass that is none of Python's (a scripted module) has no frame of its own.
        passes = frame[0].replace("\\", "/").endswith(_PASSES)
        if not is_recorder(frame[0]) and (inner is None or not passes):
            inner = frame
    return found


def _stood(
    code: HostCode, stacks: Iterable[StackCount], loops: AbstractSet[tuple[str, str]]
) -> float:
    """Give how long stacks stood in a function; at its line, if it waits there or calls torch."""
    by_line = code.kind != _RAN or (code.file, code.function) in loops
    return sum(
        one.ran_ns + one.blocked_ns
        for one in stacks
        if any(
            (file, function) == (code.file, code.function) and (line == code.line or not by_line)
            for file, line, function in one.frames
        )
    )


def _whom(stack: StackCount, kind: str) -> str:
    """Name whom a stack waits for: what is between processes is a socket or a pipe to the system.

    ``subprocess`` waits in ``poll``, ``multiprocessing`` at a pair of sockets.
    """
    if kind not in _BETWEEN:
        return kind
    files = [frame[0].replace("\\", "/") for frame in stack.frames]
    return next((whom for end, whom in _PROCESSES for one in files if one.endswith(end)), kind)


def _code(
    kind: str, stacks: Sequence[_Weighed], whole: float, loops: AbstractSet[tuple[str, str]]
) -> HostCode:
    """Give where most of some time passed; ``loops``: functions that torch is called from, too.

    Of these a line is meant, not all that they do: torch's own calls from C stand in them as well.
    """
    amount = sum(ns for _, ns in stacks)
    mine, function = _function(stacks)
    place = _most(mine, lambda one: _line_in(one, function)) if function else None
    if function and (function[0], function[2]) in loops:
        mine = [(one, ns) for one, ns in mine if _line_in(one, function) == place]
    inside = sum(ns for _, ns in mine)
    library = _most(mine, lambda one: package(one.frames[0][0]) if one.frames else None)
    share = amount / whole
    return HostCode(kind, share, inside / amount, *(place or (None, None, None)), library)


def _function(stacks: Sequence[_Weighed]) -> tuple[Sequence[_Weighed], Place | None]:
    """Give the deepest function of the user's in which most of some time passed, and its stacks."""
    depth, chosen, mine = 0, None, list[_Weighed](stacks)
    least = _MOSTLY * sum(ns for _, ns in stacks)
    while True:
        below: dict[tuple[str, str], list[_Weighed]] = {}
        for one, ns in mine:
            own = _own(one)
            if depth < len(own):
                below.setdefault((own[depth][0], own[depth][2]), []).append((one, ns))
        top = max(below.values(), key=lambda some: sum(ns for _, ns in some), default=None)
        if top is None or sum(ns for _, ns in top) < least:
            return mine if chosen else (), chosen
        mine, chosen, depth = top, _own(top[0][0])[depth], depth + 1


def _own(one: StackCount) -> list[Place]:
    """Give the frames that are no library's, the outermost first."""
    return [frame for frame in reversed(one.frames) if not is_library(frame[0])]


def _line_in(one: StackCount, function: Place) -> Place | None:
    """Give the line at which a stack stood in a function."""
    same = (frame for frame in one.frames if (frame[0], frame[2]) == (function[0], function[2]))
    return next(same, None)


def _most(stacks: Sequence[_Weighed], what: Callable[[StackCount], _T | None]) -> _T | None:
    """Give what most of some time passed at, if it is something."""
    sums = Counter[_T | None]()
    for one, ns in stacks:
        sums[what(one)] += round(ns)
    return sums.most_common(1)[0][0] if sums else None


def is_ours(stack: StackCount) -> bool:
    """Tell whether a stack is the recorder's own work: a window that is saved, say.

    What one of its wrappers has called is not: that is what the user called.
    """
    inner = next((at for at, one in enumerate(stack.frames) if not _is_passed(one[0], at)), None)
    return inner is not None and is_recorder(stack.frames[inner][0])


def _is_passed(file: str, at: int) -> bool:
    """Tell whether a frame does not say whose work a stack is: a library's, or a wrapper's."""
    return (file == WRAPPER and at > 0) or (is_library(file) and not is_recorder(file))


def _is_torch(stack: StackCount) -> bool:
    """Tell whether a stack is torch's own work, ours, or of a batch that is made or waited for."""
    files = [frame[0].replace("\\", "/") for frame in stack.frames]
    return (
        not files
        or package(files[0]) in {_TORCH, "gapless"}
        or any(_LOADER in one for one in files)
    )


def _loading(stack: StackCount) -> tuple[str, Place | None]:
    """Give what a loader is at on the training thread, and in which line of the user's, if any."""
    if stack.thread != "training":
        return "", None
    inside = [at for at, one in enumerate(stack.frames) if _LOADER in one[0].replace("\\", "/")]
    frames = stack.frames[: max(inside, default=0)]
    place = next((one for one in frames if not is_library(one[0])), None)
    chooses = any(one[2].endswith(_CHOOSES) for one in frames)
    return "choosing" if chooses else "making", place


def _place(stack: StackCount) -> Place | None:
    """Give the line, ``None`` for a worker that waits: below its loop is only who started it."""
    for frame in stack.frames:
        if stack.thread == "worker" and frame[2] == _LOOP:
            return None
        if not is_library(frame[0]):
            return frame
    return None
