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
from .. import declare, recorder
from ..process_state import keep

LONG_NS = 50_000  # shorter pauses are added up
MAX_STAMPS = 1 << 14  # stamps; four a collection


class _Collections:
    """The stamps of collections, and what was added up of the short ones."""

    def __init__(self) -> None:
        self.stamps: deque[int] = deque(maxlen=MAX_STAMPS)
        stamping = map(self.stamps.append, iter(recorder.now, None))
        read = functools.partial(next, zip(stamping, itertools.count()))  # of comparable values
        self.callback: Any = functools.partial(max, key=read)  # type: ignore[call-overload]
        self.short_ns = self.n_short = self.n_reported = 0

    def fork(self) -> None:
        """Leave collections alone."""
        gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not self.callback]
        self.stamps.clear()


_collections = keep(_Collections())


@declare.at_first
def _begin() -> None:
    if not (recorder.is_worker() or _is_watched()):
        _collections.stamps.clear()
        gc.callbacks.append(_collections.callback)


@declare.at_stop
def _leave() -> None:
    _collections.fork()


def _is_watched() -> bool:
    return any(callback is _collections.callback for callback in gc.callbacks)


def is_between_collections() -> bool:
    """Return whether collections are watched, and none is under way on any thread."""
    stamps = _collections.stamps
    return _is_watched() and len(stamps) < MAX_STAMPS and len(stamps) % 4 == 0


@declare.at_seldom_edge
def _collect(_number: int, _start: int, _end: int) -> None:
    """Turn whole collections into marks: the last stamp of "start" to the first of "stop"."""
    stamps = _collections.stamps
    if not stamps:
        return
    if len(stamps) == MAX_STAMPS:
        stamps.clear()
        recorder.report_unobserved("collector", "more collections between two looks than are kept")
        return
    for _ in range(len(stamps) // 4):
        try:
            _, start, end, _ = [stamps.popleft() for _ in range(4)]
        except IndexError:  # another thread was faster
            return
        if end - start >= LONG_NS:
            recorder.mark(wire.COLLECTOR, start, end)
        else:
            _collections.short_ns += end - start
            _collections.n_short += 1
    if _collections.n_short >= 2 * _collections.n_reported + 1000:
        _collections.n_reported = _collections.n_short
        recorder.write(
            wire.COUNTERS,
            {
                "ns": recorder.now(),
                "collections": _collections.n_short,
                "collecting_ns": _collections.short_ns,
            },
        )
