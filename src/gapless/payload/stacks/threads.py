"""What other threads of Python do in a process that trains: they take the interpreter from it.

Only one thread at a time runs Python. At each look at the training thread the lines of the others
are counted, and when that is written, how long each was on a processor, by the system's own count.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Any

from .. import recorder, tracebacks
from ..process_state import keep
from . import locations

_NOUN = "thread"
_MIN_CPU_SHARE = 0.05  # of the time on a processor: less is not worth a line
_MAX_THREADS = 16  # threads
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TIMES = (11, 13)  # of what /proc/…/stat says behind the name: on a processor, and in the kernel


class _OtherThreads:
    """The threads beside that which trains."""

    def __init__(self) -> None:
        self.fork()

    def fork(self) -> None:
        """Forget all threads: of a forked child's they are none."""
        # By thread (its identity, and the system's number of it): how often it stood at each line
        # of the user's; and how long it and the training's had been on a processor when it was
        # met, and when.
        self.line_counts: dict[tuple[int, int], Counter[Any]] = {}
        self.baselines: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.training: tuple[int, int | None] | None = None  # the thread that all this is beside


_others = keep(_OtherThreads())


def look(frames: dict[int, Any], training: int, native: int | None) -> None:
    """Count where other threads stand; ``frames``: the innermost one of each thread."""
    threading = sys.modules.get("threading")
    if threading is None or len(frames) < 3:  # noqa: PLR2004 - the training's, and that which looks
        return
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    if _others.training != (training, native):
        forget()
        _others.training = training, native
    for ident, frame in frames.items():
        thread = threading._active.get(ident)
        location = None if ident == training or thread is None else locations.of_users_frame(frame)
        if (
            location is not None
            and thread is not None
            and _is_counted(ident, thread.native_id, native)
        ):
            _others.line_counts[ident, thread.native_id][location] += 1


def _is_counted(ident: int, number: int | None, native: int | None) -> bool:
    """Return whether a thread is counted; one that is met for the first time is, from now on."""
    if number is None or (ident, number) in _others.baselines:
        return number is not None
    ran_ns, training_ns = _ran_ns(number), _ran_ns(native)
    if ran_ns is None or training_ns is None or len(_others.baselines) >= _MAX_THREADS:
        return False
    _others.line_counts[ident, number] = Counter()
    _others.baselines[ident, number] = ran_ns, training_ns, time.monotonic_ns()
    return True


def report_threads() -> None:
    """Write down which other threads were on a processor, and for how much of the time."""
    threading = sys.modules.get("threading")
    if threading is None or _others.training is None:
        return
    training_ns = _ran_ns(_others.training[1])
    for key, (ran_before_ns, training_before_ns, since) in _others.baselines.copy().items():
        thread, lines = threading._active.get(key[0]), _others.line_counts.get(key)
        elapsed_ns = time.monotonic_ns() - since
        if thread is None or thread.native_id != key[1] or training_ns is None or not lines:
            continue
        ran_ns = _ran_ns(key[1])
        if ran_ns is None or ran_ns - ran_before_ns < _MIN_CPU_SHARE * elapsed_ns:
            continue
        location, looks = lines.copy().most_common(1)[0]
        values = {"name": thread._name, "looks": looks}
        values["ran"] = round((ran_ns - ran_before_ns) / elapsed_ns, 4)
        values["training_ran"] = round((training_ns - training_before_ns) / elapsed_ns, 4)
        recorder.fact(_NOUN, thread, values, location)


def forget() -> None:
    """Forget all threads."""
    _others.fork()


def _ran_ns(native: int | None) -> int | None:
    """Return how long a thread of this process was on a processor; None: it is not known."""
    with tracebacks.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/self/task/{native}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[slice(*_TIMES)])) * 1_000_000_000 // _TICKS
    return None
