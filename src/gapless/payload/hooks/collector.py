"""Time garbage collections without running a line of Python inside them.

A Python function in ``gc.callbacks`` would be where a signal that came during the collection is
handled, and what its handler raises (Ctrl-C!) would be printed and lost. So the callback is made of
C functions: each call ``callback(phase, info)`` reads the clock twice into ``_stamps``.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections import deque
from typing import Any

from ... import wire
from .. import recorder

LONG_NS = 50_000  # shorter pauses are added up
MAX_STAMPS = 1 << 14  # stamps; four a collection
_stamps: deque[int] = deque(maxlen=MAX_STAMPS)
_noted = map(_stamps.append, iter(recorder.now, None))
_reading = functools.partial(next, zip(_noted, itertools.count()))  # of comparable values
_callback: Any = functools.partial(max, key=_reading)  # type: ignore[call-overload]
_short = {"ns": 0, "count": 0, "told": 0}


def install() -> None:
    """Begin when this process is known to step or load."""
    recorder.on_first(_begin)
    recorder.on_edge(_collect, seldom=True)
    recorder.on_stop(_leave)
    recorder.on_child(_leave)


def _begin() -> None:
    if not recorder.is_worker() and not any(callback is _callback for callback in gc.callbacks):
        _stamps.clear()
        gc.callbacks.append(_callback)


def _leave() -> None:
    gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not _callback]
    _stamps.clear()


def is_between_collections() -> bool:
    """Return whether collections are watched, and none is under way on any thread."""
    is_watched = any(callback is _callback for callback in gc.callbacks)
    return is_watched and len(_stamps) < MAX_STAMPS and len(_stamps) % 4 == 0


def _collect(_number: int, _start: int, _end: int) -> None:
    """Turn whole collections into marks: the last stamp of "start" to the first of "stop"."""
    if not _stamps:
        return
    if len(_stamps) == MAX_STAMPS:
        _stamps.clear()
        recorder.report_unobserved("collector", "more collections between two looks than are kept")
        return
    for _ in range(len(_stamps) // 4):
        try:
            _, start, end, _ = [_stamps.popleft() for _ in range(4)]
        except IndexError:  # another thread was faster
            return
        if end - start >= LONG_NS:
            recorder.mark(wire.COLLECTOR, start, end)
        else:
            _short["ns"] += end - start
            _short["count"] += 1
    if _short["count"] >= 2 * _short["told"] + 1000:
        _short["told"] = _short["count"]
        recorder.write(
            wire.COUNTERS,
            {"ns": recorder.now(), "collections": _short["count"], "collecting_ns": _short["ns"]},
        )
