"""Watch what a process does that has loaded torch, as long as nothing in it steps.

A process that neither steps nor loads has no log, and most that load torch never do: launchers,
parents, tools. Where all of a command are so, its user asks why. So twenty seconds after torch was
looked for, if nothing has stepped by then, the stack of the main thread is looked at ten times a
second, ever more rarely as time goes by, and the counts are kept in a small file beside the logs.
The thread is none of ``threading``'s and ends before each fork, as that of ``stacks.stacks``.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import time
from typing import Any

from ... import wire
from .. import identities, recorder, tracebacks
from ..log import process
from ..process_state import keep
from . import locations, own_threads

FIRST_NS = 20_000_000_000  # after torch was looked for, until the first look
PERIOD_S = 0.1  # between looks
RARER = 600  # the period is at least so small a part of the time since
WRITE_NS = 5_000_000_000  # between two writes, and a tenth of the time since
SHORT_NS = 1_000_000_000  # a process that ends so soon leaves nothing
DEPTH = 24  # frames of the user's of a stack, from the innermost
MAX_STACKS = 500  # different stacks
MAX_WRITTEN = 60  # of them
NOUNS = ("optimizer", "loader", "model")


class _UnsteppedProcess:
    """What this process does, as long as nothing in it steps."""

    def __init__(self) -> None:
        self.thread = own_threads.OwnThread()
        self.counts: dict[tuple[Any, ...], int] = {}  # by locations, the innermost first
        self.is_watched = False
        self.ident = self.began = self.written = self.cpu_ns = 0
        self.path = ""

    def before_fork(self) -> None:
        """End the thread for a fork."""
        self.thread.ask_to_end()
        self.thread.wait_for_end(own_threads.FORK_S)

    def after_fork(self) -> None:
        """Begin again after a fork, in the parent."""
        if self.is_watched:
            _begin()

    def fork(self) -> None:
        """Do nothing in a forked child: its parent is looked at."""
        self.is_watched = False
        self.thread.forget()
        self.counts.clear()


_state = keep(_UnsteppedProcess())


def install() -> None:
    """Begin to wait; end when this process is known to step or load."""
    spool = os.environ.get(wire.SPOOL)
    if recorder.is_worker() or not spool:
        return
    main_thread = getattr(
        sys.modules.get("threading"), "main_thread", None
    )  # it may be half imported
    ident = _thread.get_ident() if main_thread is None else main_thread().ident
    now = time.monotonic_ns()
    _state.is_watched, _state.ident = True, ident
    _state.began = _state.written = now
    _state.cpu_ns = time.process_time_ns()
    _state.path = os.path.join(spool, f"unstepped-{os.getpid()}.json")
    _state.counts.clear()
    recorder.on_first(stop)
    recorder.on_stop(stop)
    _begin()


def stop() -> None:
    """Look no more, and leave no file: what is of interest stands in the log."""
    if _state.is_watched:
        _state.is_watched = False
        _state.thread.ask_to_end()
        if _state.written != _state.began:
            _remove()


def finish() -> None:
    """Write what was seen, for the end of the process."""
    if _state.is_watched:
        _state.is_watched = False
        _state.thread.ask_to_end()
        if time.monotonic_ns() - _state.began > SHORT_NS:
            _write(last=True)


def wait_for_end() -> None:
    """Wait until the thread has ended, before the interpreter does."""
    _state.thread.wait_for_end(own_threads.EXIT_S)


def _begin() -> None:
    try:
        _state.thread.begin(_watch)
    except RuntimeError:  # no more threads are allowed
        _state.is_watched = False


def _watch(alarm: Any) -> None:
    began = _state.began
    wait = max(0, began + FIRST_NS - time.monotonic_ns()) / 1e9
    while not alarm.acquire(timeout=wait):
        _look(sys._current_frames().get(_state.ident))
        now = time.monotonic_ns()
        if now - _state.written > max(WRITE_NS, (now - began) // 10):
            _write()
        wait = max(PERIOD_S, (now - began) / 1e9 / RARER)


def _look(frame: Any) -> None:
    """Count the lines of the user's that lead to a frame."""
    stack = []
    innermost = locations.of_frame(frame)
    while frame is not None and len(stack) < DEPTH:
        if locations.is_users(frame):
            stack.append(locations.frame_location(frame))
        frame = frame.f_back
    key = tuple(stack) or ((innermost,) if innermost is not None else ())
    if key and (key in _state.counts or len(_state.counts) < MAX_STACKS):
        _state.counts[key] = _state.counts.get(key, 0) + 1


def _remove() -> None:
    with tracebacks.suppress(OSError):
        os.unlink(_state.path)


def _write(*, last: bool = False) -> None:
    now = time.monotonic_ns()
    _state.written = now
    forwards = sys.modules.get(f"{recorder.__package__}.hooks.forwards")
    ranked = sorted(_state.counts.copy().items(), key=lambda item: -item[1])
    report = {
        "pid": os.getpid(),
        "argv": [*getattr(sys, "argv", [])],
        "rank": process.rank(),
        "loaded": _state.began,
        "at": now,
        "last": last,
        "cpu_ns": time.process_time_ns() - _state.cpu_ns,
        "things": {noun: identities.count(noun) for noun in NOUNS},
        "calls": 0 if forwards is None else forwards.calls_of_modules(),
        "looks": sum(count for _, count in ranked),
        "stacks": [[count, key] for key, count in ranked[:MAX_WRITTEN]],
    }
    unfinished = _state.path + ".part"
    with open(unfinished, "w") as file:
        json.dump(report, file, default=repr)
    os.replace(unfinished, _state.path)
    if not (_state.is_watched or last):  # it has stepped in the meantime
        _remove()
