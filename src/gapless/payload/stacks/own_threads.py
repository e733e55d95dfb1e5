"""The end of threads of ours: none of ``threading``'s, which would list and join them.

A thread of ours must be gone before a fork, and before the interpreter is taken down: any thread
that runs Python may be the one to collect garbage. Where that holds tensors, their destructors let
go of the GIL and ask for it again; Python answers a late thread by ending it (until 3.13), which
unwinds through C++ that must not be unwound, and the process aborts.
"""

from __future__ import annotations

import _thread
import os
import time
from typing import Any

from ..process_state import STATE

resource: Any
try:
    import resource
except ImportError:  # pragma: no cover - not a Unix
    resource = None

FORK_S = 0.05  # how long a fork waits for a thread to end
EXIT_S = 10.0  # and the interpreter: as long as collecting garbage may take
_PAUSE_S = 0.0001
_RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # of Linux
NONE = 0  # in place of the native id of a thread that runs: there is none


class OwnThread:
    """A thread of ours, which ends when its alarm goes off."""

    def __init__(self) -> None:
        self.alarm: Any = None  # a lock that is held as long as it is to run
        self.tid: int | None = NONE  # its native id; None: it is yet to begin

    def begin(self, watch: Any, *values: Any) -> None:
        """Call ``watch(alarm, *values)`` there. Raises ``RuntimeError`` if there are too many."""
        alarm = _thread.allocate_lock()
        alarm.acquire()
        self.alarm, self.tid = alarm, None
        try:
            _thread.start_new_thread(self._run, (watch, alarm, *values))
        except RuntimeError:
            self.forget()
            raise

    def _run(self, watch: Any, *values: Any) -> None:
        try:
            self.tid = _thread.get_native_id()
            watch(*values)
        except Exception as error:
            STATE.note(watch.__module__.rpartition(".")[2], error)

    def ask_to_end(self) -> bool:
        """Set its alarm off; return whether it runs."""
        alarm, self.alarm = self.alarm, None
        if alarm is not None:
            alarm.release()
        return alarm is not None

    def wait_for_end(self, patience_s: float) -> None:
        """Wait until it has ended."""
        until = time.monotonic() + patience_s
        while _runs(self.tid) and time.monotonic() < until:
            time.sleep(_PAUSE_S)

    def forget(self) -> None:
        """Know of no thread: it is the parent's, in a forked child."""
        self.alarm, self.tid = None, NONE


def _runs(tid: int | None) -> bool:
    return tid is None or os.path.exists(f"/proc/self/task/{tid}")


def count_preemptions() -> int | None:
    """Return how often the calling thread lost its processor to others; None: it is not known."""
    if _RUSAGE_THREAD is None:
        return None
    count: int = resource.getrusage(_RUSAGE_THREAD).ru_nivcsw
    return count
