"""How long the device worked between two step edges: by events, read late, never waited for.

At each edge an event is put on the current stream; once the device has passed it, which is asked
and not awaited, the time since the event before is a mark. Only where CUDA is already in use, and
never while a graph is being captured (both the event and the question would spoil the capture).
Of short steps one in some is measured: an edge costs some 10 µs, and may take a part in 500.

An arm of a trial needs more: when the device came to each edge, from the first to the last, since a
host that runs ahead of its device ends its steps long before the device does. ``follow`` asks for
that: events in one chain, each the time since the first; ``drain`` reads those that are left once
the device has been waited for.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from ... import wire
from .. import patching, recorder

_MAX_WAITING = 256  # events that the device may be behind; more are not put
_MAX_SKIPPED_EDGES = 63  # edges passed over between two pairs
_ANSWERS_PER_EDGE = 2  # answers read at one edge, so that it costs the same at all of them
COST_NS = 20_000_000  # what the steps of one measured pair take together, at least
_NS = 1_000_000  # of the milliseconds that events measure

_waiting: deque[Any] = deque()  # (edge's end, device, event, follows the one before)
_free: dict[Any, Any] = {}  # by device: events to be used again
_parents: list[Any] = []
_broken = [True]  # the next event follows none
_skipping = [0, 0]  # edges to pass over; the end of the last one
SPACING_NS = 5_000_000  # between two events of a chain, at least: an edge costs a part in 500
_MAX_CHAIN_EDGES = 16  # edges between two events of a chain, at most
# Whether edges are marked as a chain, the ns from its first event to the last that was read, and
# whether it was broken: then the arm is timed on the host.
_chain: dict[str, Any] = {"on": False, "elapsed": 0, "lost": False}


def install() -> None:
    """Look at step edges."""
    recorder.on_edge(edge)
    recorder.on_stop(forget)
    recorder.on_child(abandon)


@patching.guard("device_steps")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Put an event, and read those that the device has passed."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    if _chain["on"]:
        _follow_edge(cuda, end)
        return
    if _is_skipped(end):
        return
    if cuda.is_current_stream_capturing():
        _broken[0] = True
        return
    _read()
    if len(_waiting) >= _MAX_WAITING:
        _broken[0] = True
        return
    _put(cuda, end)


def follow() -> None:
    """Mark when the device came to each edge, as a chain from the first: for arms of a trial."""
    _chain.update(on=True)


def link(end: int) -> None:
    """Put an event of the chain at this edge, unless it has one: what follows is no part of it."""
    is_chained = _chain["on"] and not _chain["lost"] and _waiting and _skipping[1] != end
    if is_chained and sys.modules["torch.cuda"].current_stream() == _waiting[-1][1]:
        _skipping[:] = [0, end]
        _put(sys.modules["torch.cuda"], end)


def drain() -> None:
    """Write the marks of all events that the device has passed; it has been waited for."""
    while _chain["on"] and len(_waiting) > 1 and _waiting[1][2].query():
        _read_link()


def _follow_edge(cuda: Any, end: int) -> None:
    """Put the next event of the chain, and read those that the device has passed."""
    if _chain["lost"]:
        return
    if cuda.is_current_stream_capturing():
        _chain["lost"] = True  # what a captured graph replays belongs to no edge
        return
    for _ in range(_ANSWERS_PER_EDGE):
        if len(_waiting) > 1 and _waiting[1][2].query():
            _read_link()
    _skipping[0] += 1
    if _waiting and (
        len(_waiting) >= _MAX_WAITING
        or (_skipping[0] < _MAX_CHAIN_EDGES and end - _skipping[1] < SPACING_NS)
        or cuda.current_stream() != _waiting[-1][1]
    ):
        return
    _skipping[:] = [0, end]
    is_first = not _waiting
    _put(cuda, end)
    if is_first:
        recorder.mark(wire.DEVICE_EDGE, end, end, wire.NOBODY, 0)


def _read_link() -> None:
    """Write the mark of the second event that waits, and use the first again."""
    _, stream, event, _ = _waiting.popleft()
    end, _, next_event, _ = _waiting[0]
    _chain["elapsed"] += int(event.elapsed_time(next_event) * _NS)
    recorder.mark(wire.DEVICE_EDGE, end, end, wire.NOBODY, _chain["elapsed"])
    _free.setdefault(stream.device_index, []).append(event)


def forget() -> None:
    """Let go of all events."""
    _chain.update(elapsed=0, lost=False)
    _waiting.clear()
    _free.clear()
    _broken[0] = True
    _skipping[:] = [0, 0]


def abandon() -> None:
    """Keep the parent's events in a forked child, unused: to free one would ask the device."""
    _parents.append((list(_waiting), dict(_free)))
    forget()


def _is_skipped(end: int) -> bool:
    """Return whether this edge is not measured: some after each measured pair of edges are not."""
    took_ns, _skipping[1] = end - _skipping[1], end
    if _skipping[0] > 0:
        _skipping[0] -= 1
        _broken[0] = True
        return True
    if not _broken[0]:  # this one ends a pair
        _skipping[0] = min(COST_NS // max(took_ns, 1), _MAX_SKIPPED_EDGES)
    return False


def _put(cuda: Any, end: int) -> None:
    stream = cuda.current_stream()
    device = stream.device_index
    free = _free.get(device)
    event = free.pop() if free else cuda.Event(enable_timing=True)
    event.record(stream)
    _waiting.append((end, stream, event, not _broken[0]))
    _broken[0] = False


def _read() -> None:
    """Write the marks of the events that the device has passed, and use these again."""
    for _ in range(_ANSWERS_PER_EDGE):
        if len(_waiting) < 2 or not _waiting[1][2].query():  # noqa: PLR2004 - a pair
            return
        before, stream, event, _ = _waiting.popleft()
        after, next_stream, next_event, follows = _waiting[0]
        if follows and stream == next_stream:
            value = int(event.elapsed_time(next_event) * _NS)
            recorder.mark(wire.DEVICE_STEP, before, after, wire.NOBODY, value)
        _free.setdefault(stream.device_index, []).append(event)
