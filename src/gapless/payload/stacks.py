"""Look a few times a second at what the training thread (or the worker) is doing in Python.

The thread is none of ``threading``'s: it is in no list of the user's. It ends before each fork and
begins again after it, so that a fork warns of no thread which the user does not have.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from typing import Any

from .. import wire
from . import patching, recorder, thinning

HZ = 10.0
TELL_NS = 5_000_000_000  # what was seen is told so long after the start, then ever more rarely
RAREST_NS = {"training": 3_600_000_000_000, "worker": 86_400_000_000_000}
DEPTH = 40  # frames of a stack, from the innermost
MOST = 2000  # different stacks that are counted between two tellings
MOST_CODES = 20_000
# Of them, the most frequent ones are told: a day must not take much of a disk.
TOLD = {"training": 200, "worker": 40}
PATIENCE_S = 0.05  # how long a fork waits for the thread to end

_state: dict[str, Any] = {"alarm": None, "role": None, "ident": None, "told": 0, "tid": None}
_counts: dict[tuple[int, ...], int] = {}  # by id of the code and line of each frame
_codes: dict[int, Any] = {}  # by id; kept alive: to hash the codes themselves would take long


def install() -> None:
    """Begin when this process is known to step or load, end when the recorder leaves."""
    recorder.on_first(start)
    recorder.on_stop(stop)
    recorder.on_child(forked)


def start() -> None:
    """Begin to look at this thread, if that is wanted."""
    hz = recorder.options().get("stacks_hz", HZ)
    if not hz or _state["alarm"] is not None:
        return
    worker = recorder.is_worker()
    _state["role"] = "worker" if worker else "training"
    _state["ident"] = _thread.get_ident()
    _state["told"], _state["wait"] = time.monotonic_ns(), TELL_NS
    _state["period"] = 1.0 / float(hz)
    _begin()


def stop() -> None:
    """End, and queue what was seen."""
    _end()
    _state["role"] = None
    _tell(last=True)


def finish() -> None:
    """Queue what was seen, for the end of the process: the thread ends with it."""
    alarm, _state["alarm"] = _state["alarm"], None
    if alarm is not None:
        alarm.release()
    _tell(last=True)


def pause() -> None:
    """End for a fork."""
    _end()


def resume() -> None:
    """Begin again after a fork, in the parent."""
    if _state["role"] is not None:
        _begin()


def forked() -> None:
    """Forget the parent's, in a forked child."""
    _counts.clear()
    _codes.clear()
    _state.update(alarm=None, role=None, ident=None, tid=None)


def _begin() -> None:
    alarm = _thread.allocate_lock()
    alarm.acquire()
    _state["alarm"], _state["tid"] = alarm, None
    try:
        _thread.start_new_thread(_watch, (alarm, _state["period"]))
    except RuntimeError as error:
        _state["alarm"] = _state["role"] = None
        recorder.unseen("stacks", repr(error))


def _end() -> None:
    alarm = _state["alarm"]
    if alarm is None:
        return
    _state["alarm"] = None
    alarm.release()
    task, until = f"/proc/self/task/{_state['tid']}", time.monotonic() + PATIENCE_S
    while (_state["tid"] is None or os.path.exists(task)) and time.monotonic() < until:
        task = f"/proc/self/task/{_state['tid']}"
        time.sleep(0.0001)


def _watch(alarm: Any, period: float) -> None:
    try:
        _state["tid"] = _thread.get_native_id()
        while not alarm.acquire(timeout=period):
            _look(recorder.stepping_ident() or _state["ident"])
            if time.monotonic_ns() - _state["told"] > _state["wait"]:
                _state["wait"] = min(2 * _state["wait"], RAREST_NS.get(_state["role"], 0))
                _tell()
    except Exception as error:
        patching.notes.append(("stacks", repr(error)))


def _look(ident: int) -> None:
    frame: Any = sys._current_frames().get(ident)
    stack: list[int] = []
    if len(_codes) > MOST_CODES:  # made anew again and again
        _counts.clear()
        _codes.clear()
    while frame is not None and len(stack) < 2 * DEPTH:
        code = frame.f_code
        number = id(code)
        if number not in _codes:
            _codes[number] = code
        stack += (number, frame.f_lineno or 0)
        frame = frame.f_back
    key = tuple(stack)
    if key and (key in _counts or len(_counts) < MOST):
        _counts[key] = _counts.get(key, 0) + 1


def _tell(*, last: bool = False) -> None:
    _state["told"] = time.monotonic_ns()
    if not thinning.affords(last=last):
        return  # they are counted on
    stacks = []
    role = _state["role"] or ("worker" if recorder.is_worker() else "training")
    ranked = sorted(_counts.copy().items(), key=lambda one: -one[1])
    for key, count in ranked[: TOLD[role]]:
        frames = [
            [code.co_filename, line, code.co_name]
            for number, line in zip(key[::2], key[1::2])
            if (code := _codes.get(number)) is not None
        ]
        if 2 * len(frames) == len(key):  # else the thread that looks has just forgotten some
            stacks.append([count, frames])
    _counts.clear()
    if stacks:
        looks = sum(count for _, count in ranked)
        recorder.write(wire.STACKS, {"thread": role, "stacks": stacks, "looks": looks})
