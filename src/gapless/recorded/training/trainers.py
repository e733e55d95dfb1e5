"""Lines of the package whose trainer the user's script calls, and leaves all else to."""

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from gapless.capture.source_lines import is_library, package_of
from gapless.model.host_code import HotLine
from gapless.model.recording import Process, StackCount
from gapless.recorded.training.lines import StackFrame, is_recorder_stack, user_line

_MIN_SHARE: Final = 0.9  # of the training threads' time: in one call of the user's
_MIN_LINE_SHARE: Final = 0.01
_MAX_LINES: Final = 10
_NO_TRAINERS: Final = frozenset({None, "gapless", "torch"}) | sys.stdlib_module_names


def trainer_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Return where in its package the one call stood that nearly all time passes in, longest first.

    Of a script that calls ``Trainer(…).train()``, or of ``python -m package.train``, no line of the
    user's tells more than that. Nothing is returned where the user's own lines do, or where no time
    was measured. Shares are of the threads' time.
    """
    stacks = [
        stack
        for process in processes
        for stack in process.stacks
        if stack.thread == "training" and not is_recorder_stack(stack)
    ]
    package = _find_trainer(stacks)
    total_ns = sum(map(_sum_ns, stacks))
    lines, looks = Counter[StackFrame](), Counter[StackFrame]()
    for stack in stacks if package is not None else ():
        frame = next((frame for frame in stack.frames if package_of(frame[0]) == package), None)
        if frame is not None:
            lines[frame] += _sum_ns(stack)
            looks[frame] += stack.count
    return tuple(
        HotLine("training", *frame, looks[frame], ns / total_ns)
        for frame, ns in lines.most_common(_MAX_LINES)
        if ns >= _MIN_LINE_SHARE * total_ns
    )


def _sum_ns(stack: StackCount) -> int:
    return stack.ran_ns + stack.blocked_ns


def _find_trainer(stacks: Iterable[StackCount]) -> str | None:
    """Return the package that one line of the user's, or none, calls in nearly all the time."""
    times = Counter[tuple[StackFrame | None, str | None]]()
    for stack in stacks:
        times[user_line(stack), _find_package(stack)] += _sum_ns(stack)
    (call, ns), *_ = times.most_common(1) or [((None, None), 0)]
    return call[1] if ns and ns >= _MIN_SHARE * times.total() else None


def _find_package(stack: StackCount) -> str | None:
    """Return the package that the user's innermost line calls; or whose own module runs."""
    called = takewhile(lambda frame: is_library(frame[0]), stack.frames)
    packages = [
        package for frame in called if (package := package_of(frame[0])) not in _NO_TRAINERS
    ]
    return packages[-1] if packages else None
