"""Of several ranks the first does what is done once; the others wait for it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from .. import recorder
from . import stop

if TYPE_CHECKING:
    from collections.abc import Callable

_WAIT_S = 1_800.0
_POLL_S = 0.2


def rank() -> int:
    """Return the number of this rank; 0 where there is one alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK") or 0)


def act_and_leave(result: Any, act: Callable[[], None]) -> NoReturn:
    """Let the first rank act in the training's place, and end the process."""
    try:
        recorder.begin()
        if rank():
            wait_for_it(result)
        else:
            act()
    except BaseException as error:  # whatever it is, the training does not go on
        result.fail_by(error)
    stop.leave_at_once()


def wait_for_it(result: Any) -> None:
    """Wait until the first rank has ended a result."""
    until = time.monotonic() + _WAIT_S
    while not result.is_ended() and time.monotonic() < until:
        time.sleep(_POLL_S)
