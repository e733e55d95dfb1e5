"""Collections of garbage as ranges of an open window, without a line of Python inside them.

``hooks/collector.py`` says why. So the callback is made of C functions, too: of its two calls a
collection the first begins a range and the second ends it. (``max`` takes a key of both arguments,
so each call makes two turns, one of which does nothing.)
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
from collections import deque
from typing import Any

from ..hooks import collector

RANGE, TRIAL = "gapless:gc", "gapless:try"


class Collections:
    """The collections while a window is open, as ranges."""

    def __init__(self, span: Any) -> None:
        self._leave = functools.partial(span.__exit__, None, None)
        self._held: deque[Any] = deque()
        begins = map(self._held.append, iter(span.__enter__, self))
        ends = map(self._leave, map(deque.pop, itertools.repeat(self._held)))
        nothing = itertools.repeat(None)
        turns = map(next, itertools.cycle((begins, nothing, nothing, ends)))
        key = functools.partial(next, zip(turns, itertools.count()))
        self._callback: Any = functools.partial(max, key=key)  # type: ignore[call-overload]
        gc.callbacks.append(self._callback)

    def end(self) -> None:
        """Look no more; a collection of another thread that is under way ends here."""
        gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not self._callback]
        while self._held:
            self._leave(self._held.pop())


def watch() -> Collections | None:
    """Begin to show collections; ``None`` where that cannot be done in safety."""
    if (
        not getattr(sys, "_is_gil_enabled", lambda: True)()
        or not collector.is_between_collections()
    ):
        return None
    from torch._C import _profiler

    try:
        # Torch's other ways to mark a range import something at each call, by the ``__import__`` of
        # the code that is being run: in a namedtuple's ``__new__`` there is none.
        with _profiler._RecordFunctionFast(TRIAL):
            span = _profiler._RecordFunctionFast(RANGE)
    except (AttributeError, TypeError, RuntimeError):
        return None
    return Collections(span)
