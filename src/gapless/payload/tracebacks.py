"""Take our own frames out of the tracebacks of exceptions that are not ours."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

OURS = __file__[: -len("tracebacks.py")]  # the folder of the payload
# `warnings` and `logging` pass over frames of such a name when they count for their `stacklevel`,
# so that a warning names the line of the user's which it would name without us. No path of a file:
# `coverage` would measure it, and fail when it finds no source.
PASSED_OVER = "<gapless:importlib_bootstrap>"


def strip(error: BaseException) -> None:
    """Remove our frames at the outer end of ``error``'s traceback.

    A bare ``raise`` after it adds none (Python 3.11 and later; before, it takes the traceback from
    the interpreter's own copy, and our one frame stays).
    """
    error.__traceback__ = _users(error.__traceback__)


def from_a_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler of the user's raised ``error`` while we were running."""
    signal = sys.modules.get("signal")
    if signal is None:
        return False
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    traceback: Any | None = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in codes or _got_interrupted_frame(traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


def pass_on(error: BaseException) -> None:
    """Raise what a signal handler of the user's raised: ``TimeoutError`` is an ``OSError``, too."""
    if from_a_signal_handler(error):
        raise error


@contextlib.contextmanager
def suppress(*kinds: type[BaseException]) -> Generator[None]:
    """Do as ``contextlib.suppress``, but pass on what a signal handler of the user's raised."""
    try:
        yield
    except kinds as error:
        pass_on(error)


def _got_interrupted_frame(frame: Any) -> bool:
    """Return whether a frame got its caller's: a handler that stands in a partial, or is gone.

    ``functools.partial`` hides it from ``getsignal``, and some set another one before they raise.
    Ours are not asked: up to Python 3.12 a frame keeps the locals that are read of it, here with
    the error that holds the frame, and so, until garbage is collected, all that its callers hold.
    """
    if frame.f_code.co_filename.startswith((OURS, PASSED_OVER)):
        return False
    caller = frame.f_back
    return caller is not None and any(value is caller for value in frame.f_locals.values())


def _users(traceback: Any | None) -> Any | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(
        (OURS, PASSED_OVER)
    ):
        traceback = traceback.tb_next
    return traceback


def _code(handler: Any) -> Any:
    function = getattr(handler, "__func__", handler)
    call = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004
    return getattr(call, "__code__", None)
