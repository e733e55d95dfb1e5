"""Of several ranks the first does what is done once; the others wait for it."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_WAIT_S = 1_800.0
_POLL_S = 0.2


def rank() -> int:
    """Return the number of this rank; 0 where there is one alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK") or 0)


def wait_for_it(result: Any) -> None:
    """Wait until the first rank has ended a result."""
    until = time.monotonic() + _WAIT_S
    while not result.is_ended() and time.monotonic() < until:
        time.sleep(_POLL_S)
