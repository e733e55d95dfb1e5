"""Whether a call comes from the line of the user's that an edit is about."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any, Callable

from ...stacks import locations


def matcher(location: Any) -> Callable[[], bool]:
    """Return a function that says, from inside a call, whether it comes from ``location``.

    ``location`` is a JSON object with "file" and "line", or None: then every call does. A call over
    several lines comes from each of them (Python 3.11 and later; before, from its first).
    """
    if location is None:
        return _always
    file, line = os.path.realpath(location["file"]), location["line"]
    is_same_file: dict[str, bool] = {}  # by the file's name as frames have it

    def from_there() -> bool:
        frame = locations.users_frame(1)
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if name not in is_same_file:
            is_same_file[name] = os.path.realpath(name) == file
        if not is_same_file[name]:
            return False
        first_line, last_line = _lines(frame)
        return first_line <= line <= last_line

    return from_there


def in_worker() -> bool:
    """Return whether this process is a worker of a DataLoader, also while it becomes one."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    if module is None:
        return False
    if getattr(module, "_worker_info", None) is not None:
        return True
    frame: Any = sys._getframe(1)
    while frame is not None:  # torchdata's workers have a loop of their own
        if frame.f_code.co_name == "_worker_loop":
            return True
        frame = frame.f_back
    return False


def _lines(frame: Any) -> tuple[int, int]:
    """Return the first and last line of the call that a frame is at."""
    line = frame.f_lineno or 0
    if sys.version_info >= (3, 11):
        positions = frame.f_code.co_positions()
        now = next(itertools.islice(positions, frame.f_lasti // 2, None), (None,) * 4)
        if now[0] is not None and now[1] is not None:
            return min(line, now[0]), max(line, now[1])
    return line, line


def _always() -> bool:
    return True
