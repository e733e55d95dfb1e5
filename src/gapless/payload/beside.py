"""What other threads of Python do in a process that trains: they take the interpreter from it.

Only one thread at a time runs Python. At each look at the training thread the lines of the others
are counted, and when that is told, how long each was on a processor, by the system's own count.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Any

from . import places, recorder, tracebacks

_NOUN = "thread"
_LEAST = 0.05  # of the time on a processor: less is not worth a line
_MOST = 16  # threads
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TIMES = (11, 13)  # of what /proc/…/stat says behind the name: on a processor, and in the kernel

# By thread (its identity, and the system's number of it): how often it stood at each line of the
# user's; and how long it and the training's had been on a processor when it was met, and when.
_lines: dict[tuple[int, int], Counter[Any]] = {}
_first: dict[tuple[int, int], tuple[int, int, int]] = {}
_training: list[Any] = [None]  # the thread that all this is beside


def look(frames: dict[int, Any], training: int, native: int | None) -> None:
    """Count where other threads stand; ``frames``: the innermost one of each thread."""
    threading = sys.modules.get("threading")
    if threading is None or len(frames) < 3:  # noqa: PLR2004 - the training's, and that which looks
        return
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    if _training[0] != (training, native):
        forget()
        _training[0] = training, native
    for ident, frame in frames.items():
        thread = threading._active.get(ident)
        place = None if ident == training or thread is None else places.of_users_frame(frame)
        if place is not None and thread is not None and _is_known(ident, thread.native_id, native):
            _lines[ident, thread.native_id][place] += 1


def _is_known(ident: int, number: int | None, native: int | None) -> bool:
    """Tell whether a thread is counted; one that is met for the first time is, from now on."""
    if number is None or (ident, number) in _first:
        return number is not None
    ran, own = _ran_ns(number), _ran_ns(native)
    if ran is None or own is None or len(_first) >= _MOST:
        return False
    _lines[ident, number] = Counter()
    _first[ident, number] = ran, own, time.monotonic_ns()
    return True


def tell() -> None:
    """Write down which other threads were on a processor, and for how much of the time."""
    threading = sys.modules.get("threading")
    if threading is None or _training[0] is None:
        return
    own_ns = _ran_ns(_training[0][1])
    for key, (ran, own, since) in _first.copy().items():
        thread, lines = threading._active.get(key[0]), _lines.get(key)
        passed = time.monotonic_ns() - since
        if thread is None or thread.native_id != key[1] or own_ns is None or not lines:
            continue
        now = _ran_ns(key[1])
        if now is None or now - ran < _LEAST * passed:
            continue
        place, looks = lines.copy().most_common(1)[0]
        values = {"name": thread._name, "looks": looks}
        values["ran"] = round((now - ran) / passed, 4)
        values["training_ran"] = round((own_ns - own) / passed, 4)
        recorder.fact(_NOUN, thread, values, place)


def forget() -> None:
    """Forget all threads: of a forked child's they are none."""
    _training[0] = None
    _lines.clear()
    _first.clear()


def _ran_ns(native: int | None) -> int | None:
    """Give how long a thread of this process was on a processor; None: it is not known."""
    with tracebacks.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/self/task/{native}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[slice(*_TIMES)])) * 1_000_000_000 // _TICKS
    return None
