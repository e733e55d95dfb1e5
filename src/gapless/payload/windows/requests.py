"""Windows that somebody asks for while the training runs (``gapless watch``): a file in the spool.

It holds when it was asked, and after which step ranks are to open the window. Asking again replaces
it. It is looked for ten times a second at most, by a call that raises nothing where it is not: to
tell our errors from those of the user's signal handlers takes a tenth of a millisecond.
"""

from __future__ import annotations

import os
import time

from ... import wire
from .. import tracebacks


class WindowRequests:
    """What was asked since this process began to step."""

    def __init__(self, spool: str) -> None:
        self.path = os.path.join(spool, wire.ASKED)
        self.seen_ns = time.monotonic_ns()
        self.file = (0, 0)  # that was read last: its inode, and when it was written

    def new_step(self) -> int | None:
        """Return the step after which a window is asked for, once for each time; usually None."""
        if not os.access(self.path, os.F_OK):
            return None
        with tracebacks.suppress(OSError, ValueError):
            status = os.stat(self.path)
            if (status.st_ino, status.st_mtime_ns) != self.file:
                self.file = status.st_ino, status.st_mtime_ns
                return self._read()
        return None

    def _read(self) -> int | None:
        with open(self.path, encoding="ascii") as file:
            asked_ns, step = map(int, file.read(100).split())
        if asked_ns <= self.seen_ns:
            return None
        self.seen_ns = asked_ns
        return step
