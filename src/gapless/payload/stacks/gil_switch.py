"""Get the GIL where another thread stands, not where that thread lets go of it.

A thread that asks for the GIL gets it when its holder lets go, or at the holder's next bytecode
once ``sys.getswitchinterval()`` (5 ms) has passed. Nearly each operator of torch lets go of it
within that time, so a thread that looks at another one would see operators alone, and never the
Python between them. So the interval is as short as it can be while a look is about to come, and
what it was again behind it. It has no effect on a process in which no other thread wants the GIL.
"""

from __future__ import annotations

import sys

from ..process_state import keep_fields

# Python counts them in microseconds; unusual values, so that they are known as ours. A thread that
# waits for the GIL wakes so often, and imports hold it for long: there that would take processors.
AT_ONCE_S = 2e-6
SOON_S = 51e-6
SLACK_NS = 1_000  # by which the kernel may let a wait of this thread end late; 50 µs are usual
PR_SET_TIMERSLACK = 29  # of Linux (prctl.h)

_OURS = (AT_ONCE_S, SOON_S)
_state = keep_fields(users_s=None, is_held=False)  # the interval of the user's


def shorten_interval(interval_s: float = AT_ONCE_S) -> None:
    """Let a thread that asks for the GIL have it at the holder's next bytecode; not while held."""
    if not _state.is_held:
        _remember()
        sys.setswitchinterval(interval_s)


def restore() -> None:
    """Set the interval as it was, unless it has been set by the user since."""
    interval = _state.users_s
    if interval is not None and sys.getswitchinterval() in _OURS:
        sys.setswitchinterval(interval)


def hold(interval_s: float) -> None:
    """Let no thread get the GIL sooner, until it is released."""
    _state.is_held = True
    _remember()
    sys.setswitchinterval(interval_s)


def release() -> None:
    """Set the interval as it was before it was held, if it was."""
    if _state.is_held and _state.users_s is not None:
        sys.setswitchinterval(_state.users_s)
    _state.is_held = False


def _remember() -> None:
    interval = sys.getswitchinterval()
    if interval not in _OURS:  # else the user has read ours, and set it again
        _state.users_s = interval


def be_punctual() -> None:
    """Let the waits of the calling thread end when they should; where that is not to be had, not.

    The slack is a thread's own: no other thread's waits change.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0)
    except (OSError, AttributeError, ImportError):
        pass
