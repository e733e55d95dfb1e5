"""All frames of a thread, with their lines, at one moment.

Whoever holds the GIL may lose it again: where a function is called or entered, and where a loop
turns. The thread that is looked at would go on then, and its outer frames would stand at later
lines than the inner ones that were read first. So they are read by code that neither calls nor
turns: ``sys._current_frames`` is the next item of an iterator, and the frames are read one after
the other, each by lines of its own. Those of all threads are let go before anything else: among
them is the frame that reads, which would hold itself, and what each of them holds, until the
collector comes. (Before Python 3.11 the GIL may be lost at any instruction.)
"""

from __future__ import annotations

import sys
from typing import Any

from ... import wire

# Of a thread: (the frames within, code, line), the outermost one at the outside
Chain = Any
# The thread, where in its two innermost frames it is (−1: there is none), all of its frames. No
# frame itself: what a thread leaves meanwhile would be ours to free, and objects of the user's
# would die on our thread.
Snapshot = tuple[int, int, int, Chain]
_HEAD = """def take(source, ident):
    for frames in source:
        if ident not in frames:
            return ident, -1, -1, None
        frame = frames[ident]
        frames = None
        instruction, chain = frame.f_lasti, None
        caller = frame.f_back
        calling = -1 if caller is None else caller.f_lasti
        caller = None
"""
_FRAME = """        chain = (chain, frame.f_code, frame.f_lineno)
        frame = frame.f_back
        if frame is None:
            return ident, instruction, calling, chain
"""
# Further out, where frames seldom go on: those that import modules are left out of stacks later.
_TAIL = """        for _ in deeper:
            chain = (chain, frame.f_code, frame.f_lineno)
            frame = frame.f_back
            if frame is None:
                break
        return ident, instruction, calling, chain
"""
_MAX_DEEPER = 400  # frames
_NAMESPACE: dict[str, Any] = {"deeper": range(_MAX_DEEPER)}
exec(_HEAD + wire.MAX_FRAMES * _FRAME + _TAIL, _NAMESPACE)  # noqa: S102 - our own lines, repeated
_take = _NAMESPACE["take"]
_SOURCE = iter(sys._current_frames, None)


def take(ident: int) -> Snapshot:
    """Return where a thread stands now, with all its frames; nothing of one that has ended."""
    seen: Snapshot = _take(_SOURCE, ident)
    return seen


def frames_of(chain: Chain) -> list[tuple[Any, int]]:
    """Return code and line of each frame, the innermost first."""
    pairs: list[tuple[Any, int]] = []
    while chain is not None:
        chain, code, line = chain
        pairs.append((code, line or 0))
    pairs.reverse()
    return pairs
