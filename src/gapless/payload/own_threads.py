"""The end of threads of ours: none of ``threading``'s, which would list and join them.

A thread of ours must be gone before a fork, and before the interpreter is taken down: any thread
that runs Python may be the one to collect garbage. Where that holds tensors, their destructors let
go of the GIL and ask for it again; Python answers a late thread by ending it (until 3.13), which
unwinds through C++ that must not be unwound, and the process aborts.
"""

from __future__ import annotations

import os
import time
from typing import Any

FORK_S = 0.05  # how long a fork waits for a thread to end
EXIT_S = 10.0  # and the interpreter: as long as collecting garbage may take
_PAUSE_S = 0.0001
NONE = 0  # in place of the native id of a thread that runs: there is none


def wait_for_end(state: dict[str, Any], patience_s: float) -> None:
    """Wait until the thread has ended whose native id is ``tid``; None: it is yet to begin."""
    until = time.monotonic() + patience_s
    while _runs(state["tid"]) and time.monotonic() < until:
        time.sleep(_PAUSE_S)


def _runs(tid: int | None) -> bool:
    return tid is None or os.path.exists(f"/proc/self/task/{tid}")
