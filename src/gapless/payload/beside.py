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

_lines: dict[int, Counter[Any]] = {}  # by thread: how often it stood at each line of the user's
# By thread: how long it and the training's had been on a processor when it was met, and when.
_first: dict[int, tuple[int, int, int]] = {}


def look(frames: dict[int, Any], training: int, native: int | None) -> None:
    """Count where other threads stand; ``frames``: the innermost one of each thread."""
    threading = sys.modules.get("threading")
    if threading is None or len(frames) < 3:  # noqa: PLR2004 - the training's, and that which looks
        return
    for ident, frame in frames.items():
        thread = threading._active.get(ident)
        if ident == training or thread is None or len(_lines) >= _MOST:
            continue
        if ident not in _first:
            ran, own = _ran_ns(thread.native_id), _ran_ns(native)
            if ran is None or own is None:
                continue
            _first[ident] = ran, own, time.monotonic_ns()
            _lines[ident] = Counter()
        place = places.of_frame(frame)
        if place is not None:
            _lines[ident][place] += 1


def tell(training: int | None, native: int | None) -> None:
    """Write down which other threads were on a processor, and for how much of the time."""
    threading, own_ns = sys.modules.get("threading"), _ran_ns(native)
    for ident, (ran, own, since) in _first.copy().items():
        thread = None if threading is None else threading._active.get(ident)
        passed = time.monotonic_ns() - since
        if thread is None or ident == training or own_ns is None or not _lines[ident]:
            continue
        now = _ran_ns(thread.native_id)
        if now is None or now - ran < _LEAST * passed:
            continue
        place, looks = _lines[ident].most_common(1)[0]
        values = {"name": thread.name, "looks": looks}
        values["ran"] = round((now - ran) / passed, 4)
        values["training_ran"] = round((own_ns - own) / passed, 4)
        recorder.fact(_NOUN, thread, values, place)


def forget() -> None:
    """Forget all threads: of a forked child's they are none."""
    _lines.clear()
    _first.clear()


def _ran_ns(native: int | None) -> int | None:
    """Give how long a thread of this process was on a processor; None: it is not known."""
    with tracebacks.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/self/task/{native}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[slice(*_TIMES)])) * 1_000_000_000 // _TICKS
    return None
