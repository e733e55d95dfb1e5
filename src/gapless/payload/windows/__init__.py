"""Windows of torch's profiler over a few steps, now and then, in a training that knows nothing.

Opened and closed at the edges of steps, on the thread that steps. Public: ``install``, ``range``,
``evaluation``, ``poll``, ``finish``, ``leaving``; for trials ``planned``, ``hold``, ``one``,
``save_all``.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import Any, Callable

from ... import wire
from .. import declare, recorder, tracebacks
from ..process_state import hold_for_good, keep
from . import cupti
from .save import IN_PLACE
from .session import Session


class _Windows:
    """The windows of this process."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.is_closed = False  # the process ends, or the recorder was taken out
        self.is_watched = False

    def before_fork(self) -> None:
        """Close the window: a child would go on recording into its own memory, for nobody."""
        if self.session is not None:
            _safely(self.session.cut, "the process forked")

    def fork(self) -> None:
        """Forget the parent's windows; what they hold stays where it is, unfreed."""
        session, self.session = self.session, None
        if session is not None:
            hold_for_good(session)


_windows = keep(_Windows())


class _NoRange:
    """A range where no window is open."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


_NO_RANGE = _NoRange()


@declare.at_install
def install() -> None:
    """Have windows opened in this process, once it steps."""
    _windows.is_closed = False
    options = recorder.options()
    if options.get("windows", True) or options.get("check", False):
        recorder.on_edge(_edge)
        recorder.on_edge(_look_for_request, seldom=True)
    recorder.on_stop(_on_stop)


def range(name: str) -> Any:  # noqa: A001 - windows.range(…) is what it is
    """Return a context that shows as a range in the open window, and is nothing without one."""
    session = _windows.session
    if session is None or session.open is None:
        return _NO_RANGE
    span = session.range(name)
    return _NO_RANGE if span is None else span


def evaluation(*, begins: bool) -> None:
    """Show in the open window that the model begins or ends to evaluate."""
    session = _windows.session
    if session is not None and session.open is not None:
        session.evaluation(begins=begins)


def poll() -> None:
    """Do between steps what cannot wait for the next one: an evaluation may take an hour."""
    session = _windows.session
    if session is not None:
        session.poll()


def planned() -> Session | None:
    """Return the windows of this process, if it will have any more or has one."""
    session = _windows.session
    return None if session is None or (session.over and not session.plan.kept) else session


def hold() -> None:
    """Open no window until ``one`` says so (a trial's are taken after its last step)."""
    if _windows.session is not None:
        _windows.session.plan.hold()


def one(step: int) -> None:
    """Have one window from this step on, without stacks, saved here and not in a child."""
    if _windows.session is not None:
        _windows.session.plan.plan_single(step)
        _windows.session.keeping.setting = IN_PLACE


def is_open() -> bool:
    """Return whether a window is open that shows what this thread does."""
    session = _windows.session
    window = None if session is None else session.open
    return window is not None and window.thread == threading.get_ident()


def is_tracing() -> bool:
    """Return whether a window is open, whichever thread it shows."""
    session = _windows.session  # once: another thread may end it meanwhile
    return session is not None and session.open is not None


def is_kept() -> bool:
    """Return whether a window has been kept."""
    return _windows.session is not None and _windows.session.plan.kept > 0


def save_all(patience_s: float) -> None:
    """End the open window, keep it if it explains anything, and wait until all are saved."""
    session = _windows.session
    if session is None:
        return
    session.cut("the trial ended")
    until = recorder.now() + int(patience_s * 1e9)
    while session.keeping.children and recorder.now() < until:
        session.keeping.reap()
        time.sleep(0.01)


def finish(why: str = "the process ended") -> None:
    """Stop what is open and open nothing more; what a child saves is left to it."""
    session, _windows.session, _windows.is_closed = _windows.session, None, True
    if session is not None:
        session.keeping.setting, session.check = IN_PLACE, False  # nothing is begun any more
        cupti.hand_back()
        _safely(session.end_with_process, why)


def leaving(why: str) -> None:
    """Keep what is open: this thread leaves by ``os._exit``. With a device all is left as it is."""
    window = None if _windows.session is None else _windows.session.open
    if window is not None and not window.capture.cuda and window.thread == threading.get_ident():
        finish(why)


def _on_stop() -> None:
    finish("the recorder was taken out")


def _edge(step: int, start: int, end: int) -> None:  # noqa: ARG001 - the signature of actions
    if _windows.is_closed:
        return
    session = _windows.session
    if session is None:
        spool = os.environ.get(wire.SPOOL)
        if not spool:
            return
        session = _windows.session = Session(spool, recorder.options())
        _watch()
    session.edge(step, end)


def _look_for_request(step: int, start: int, end: int) -> None:  # noqa: ARG001 - as above
    session = _windows.session
    if session is not None and session.over is None:
        asked_step = session.requests.new_step()
        if asked_step is not None:
            session.ask(step, asked_step)


def _watch() -> None:
    """Watch for what ends a window before its time."""
    if _windows.is_watched:
        return
    _windows.is_watched = True
    atexit.register(finish)
    try:
        from ..hooks import profilers
    except ImportError:
        return
    profilers.on_user_profiler(_give_way)
    if profilers.user_profiler() and _windows.session is not None:
        _windows.session.end("the training has its own profiler")


def _give_way(*_: object) -> None:
    """End our windows: the user's profiler is about to start."""
    cupti.hand_back()
    session = _windows.session
    if session is not None:
        _safely(session.discard, "the training started its own profiler")
        session.end("the training has its own profiler")


def _safely(act: Callable[[str], None], why: str) -> None:
    """End a window where no guard of the recorder's stands: handlers that outlive its hooks."""
    try:
        act(why)
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        recorder.report_unobserved("end of windows", repr(error))
