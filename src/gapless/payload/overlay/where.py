"""Tell whether a call comes from the line of the user's that an edit is about."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any, Callable

from .. import places


def matcher(where: Any) -> Callable[[], bool]:
    """Give a function that tells, from inside a call, whether it comes from ``where``.

    ``where`` is a JSON object with "file" and "line", or None: then every call does. A call over
    several lines comes from each of them (Python 3.11 and later; before, from its first).
    """
    if where is None:
        return _always
    file, line = os.path.realpath(where["file"]), where["line"]
    same: dict[str, bool] = {}  # by the file's name as frames tell it

    def from_there() -> bool:
        frame = places.users_frame(1)
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if name not in same:
            same[name] = os.path.realpath(name) == file
        if not same[name]:
            return False
        first, last = _lines(frame)
        return first <= line <= last

    return from_there


def in_worker() -> bool:
    """Tell whether this process is a worker of a DataLoader, also while it becomes one."""
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
    """Give the first and last line of the call that a frame is at."""
    at = frame.f_lineno or 0
    if sys.version_info >= (3, 11):
        positions = frame.f_code.co_positions()
        now = next(itertools.islice(positions, frame.f_lasti // 2, None), (None,) * 4)
        if now[0] is not None and now[1] is not None:
            return min(at, now[0]), max(at, now[1])
    return at, at


def _always() -> bool:
    return True
