"""Whether the device has come to where the host was: an event is put, and asked, never awaited.

A host that nothing holds up is up to a thousand launches ahead of its device. A profiler that stops
then has the launches of its steps and not one of their kernels.
"""

from __future__ import annotations

import sys
from typing import Any


class DeviceMark:
    """A place in what was launched on the current stream; it is put there when this is made."""

    def __init__(self) -> None:
        self._event: Any = None
        cuda = sys.modules.get("torch.cuda")
        # Of a graph that is being captured the event would become a part.
        if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        event = cuda.Event()
        event.record()
        self._event = event

    def has_passed(self) -> bool:
        """Return whether the device has passed the place; ``True`` where that cannot be asked."""
        if self._event is None:
            return True
        cuda = sys.modules["torch.cuda"]
        return bool(cuda.is_current_stream_capturing() or self._event.query())


def is_idle() -> bool:
    """Return whether the device has done all of the current stream, without waiting for it."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return False
    return bool(cuda.current_stream().query())
