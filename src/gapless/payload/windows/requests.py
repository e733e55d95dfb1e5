"""Windows that somebody asks for while the training runs (``gapless watch``): a link in the spool.

It holds when it was asked, and after which step ranks are to open the window. Asking again replaces
it. It is looked for ten times a second at most.
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

    def new_step(self) -> int | None:
        """Return the step after which a window is asked for, once for each time; usually None."""
        with tracebacks.suppress(OSError, ValueError):
            asked_ns, step = map(int, os.readlink(self.path).split("-"))
            if asked_ns > self.seen_ns:
                self.seen_ns = asked_ns
                return step
        return None
