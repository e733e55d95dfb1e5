"""Sampled stacks of whole processes as trees of calls: set-up, training and evaluation in one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from gapless import wire
from gapless.capture.source_lines import WRAPPER, is_library, is_recorder, package_of
from gapless.model.calls import CallNode, CallTree
from gapless.model.recording import StackCount
from gapless.recorded.training.lines import WORKER_LOOP, StackFrame
from gapless.recorded.training.processes import Training

_MAX_TREES: Final = 8  # ranks that are shown by themselves
_IMPORTING: Final = ("<frozen importlib", "<frozen runpy", "<frozen zipimport")
_PASSING_ON: Final = (WRAPPER, "/payload/imports.py")  # files of ours that call what is wrapped
_RECORDER_NODE: Final = ("<gapless:", "this recorder")
_CUT_NODE: Final = ("", "calls further out, which were not kept")


class _Growth(Struct):
    """A node while a tree is built."""

    number: int
    parent: int
    lines_ns: Counter[int] = field(default_factory=Counter[int])
    own_ns: int = 0
    own_looks: int = 0
    called: dict[tuple[str, str], "_Growth"] = field(
        default_factory=dict[tuple[str, str], "_Growth"]
    )


def call_trees(trainings: Sequence[Training]) -> tuple[CallTree, ...]:
    """Return the calls of each training process, and of all workers together, if any was seen.

    Only stacks that stand for time count. Of many ranks the first ones are returned.
    """
    trees = [
        _build_tree(
            _thread_title(training, trainings),
            (*training.process.setup_stacks, *training.process.stacks),
            training.process.rare_stacks,
            training.end - training.process.start,
        )
        for training in trainings[:_MAX_TREES]
    ]
    workers = [(process, training.end) for training in trainings for process in training.workers]
    trees.append(
        _build_tree(
            "a worker" if len(workers) == 1 else f"{len(workers)} workers together",
            [stack for process, _ in workers for stack in process.stacks],
            [stack for process, _ in workers for stack in process.rare_stacks],
            sum((process.end or end) - process.start for process, end in workers),
        )
    )
    return tuple(tree for tree in trees if tree is not None)


def _thread_title(training: Training, trainings: Sequence[Training]) -> str:
    if len(trainings) == 1:
        return "main thread"
    rank = training.process.rank
    return f"process {training.process.pid}" if rank is None else f"rank {rank}"


def _build_tree(
    title: str, stacks: Iterable[StackCount], rare_stacks: Iterable[StackCount], life_ns: int
) -> CallTree | None:
    """Return the tree of some stacks; ``None`` where none stands for time."""
    outermost, growths = _Growth(-1, -1), list[_Growth]()
    names: list[tuple[str, str]] = []
    setup_ns = 0
    for stack in stacks:
        ns = stack.ran_ns + stack.blocked_ns
        setup_ns += ns if stack.thread == "setup" else 0
        growth = outermost
        for file, line, function in _shown_frames(stack) if ns else ():
            name = file, function
            callee = growth.called.get(name)
            if callee is None:
                callee = growth.called[name] = _Growth(len(growths), growth.number)
                growths.append(callee)
                names.append(name)
            callee.lines_ns[line] += ns
            growth = callee
        growth.own_ns += ns
        growth.own_looks += stack.count
    if not growths:
        return None
    rare = list(rare_stacks)
    return CallTree(
        title=title,
        nodes=tuple(
            CallNode(
                growth.parent,
                *name,
                growth.lines_ns.most_common(1)[0][0],
                package_of(name[0]),
                growth.own_ns,
                growth.own_looks,
            )
            for growth, name in zip(growths, names, strict=True)
        ),
        life_ns=life_ns,
        rare_ns=outermost.own_ns + sum(stack.ran_ns + stack.blocked_ns for stack in rare),
        rare_looks=outermost.own_looks + sum(stack.count for stack in rare),
        setup_ns=setup_ns
        + sum(stack.ran_ns + stack.blocked_ns for stack in rare if stack.thread == "setup"),
    )


def _shown_frames(stack: StackCount) -> list[StackFrame]:
    """Return the frames from the outside in, without what imports modules and what wraps calls.

    What the recorder does for itself is a node of its own, whatever it calls.
    """
    frames, is_own = stack.frames, False
    for index, frame in enumerate(frames):
        if is_recorder(frame[0]) and not frame[0].endswith(_PASSING_ON):
            frames, is_own = frames[index:], True
        if not is_library(frame[0]) or is_own:
            break
    loops = [index for index, frame in enumerate(frames) if frame[2] == WORKER_LOOP]
    if loops and stack.thread == "worker":  # around it stands what forked the worker
        frames = frames[: loops[-1] + 1]
    rows = [
        frame
        for frame in reversed(frames)
        if not is_recorder(frame[0]) and not frame[0].startswith(_IMPORTING)
    ]
    if is_own:
        rows.append((_RECORDER_NODE[0], 0, _RECORDER_NODE[1]))
    if len(stack.frames) >= wire.MAX_FRAMES:
        rows.insert(0, (_CUT_NODE[0], 0, _CUT_NODE[1]))
    return rows
