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
from .. import declare, patching, recorder
from ..process_state import hold_for_good, keep

_MAX_WAITING = 256  # events that the device may be behind; more are not put
_MAX_SKIPPED_EDGES = 63  # edges passed over between two pairs
_ANSWERS_PER_EDGE = 2  # answers read at one edge, so that it costs the same at all of them
COST_NS = 20_000_000  # what the steps of one measured pair take together, at least
_NS = 1_000_000  # of the milliseconds that events measure

SPACING_NS = 5_000_000  # between two events of a chain, at least: an edge costs a part in 500
_MAX_CHAIN_EDGES = 16  # edges between two events of a chain, at most


class _DeviceEvents:
    """The events that the device has yet to pass, and those to be used again."""

    def __init__(self) -> None:
        self.is_chain = False  # edges are marked as a chain
        self.forget()

    def forget(self) -> None:
        """Let go of all events."""
        self.waiting: deque[Any] = deque()  # (edge's end, stream, event, follows the one before)
        self.free: dict[Any, Any] = {}  # by device: events to be used again
        self.is_broken = True  # the next event follows none
        self.n_skipped, self.last_end = 0, 0  # edges passed over, or yet to be; the end of the last
        self.chain_ns = 0  # from the first event of the chain to the last that was read
        self.is_chain_lost = False  # then the arm is timed on the host

    def fork(self) -> None:
        """Hold the parent's events in a forked child, unused: to free one would ask the device."""
        hold_for_good((self.waiting, self.free))
        self.forget()


_events = keep(_DeviceEvents())


@declare.at_edge
@patching.guard("device_steps")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Put an event, and read those that the device has passed."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    if _events.is_chain:
        _follow_edge(cuda, end)
        return
    if _is_skipped(end):
        return
    if cuda.is_current_stream_capturing():
        _events.is_broken = True
        return
    _read()
    if len(_events.waiting) >= _MAX_WAITING:
        _events.is_broken = True
        return
    _put(cuda, end)


def follow() -> None:
    """Mark when the device came to each edge, as a chain from the first: for arms of a trial."""
    _events.is_chain = True


def link(end: int) -> None:
    """Put an event of the chain at this edge, unless it has one: what follows is no part of it."""
    is_chained = (
        _events.is_chain
        and not _events.is_chain_lost
        and _events.waiting
        and _events.last_end != end
    )
    if is_chained and sys.modules["torch.cuda"].current_stream() == _events.waiting[-1][1]:
        _events.n_skipped, _events.last_end = 0, end
        _put(sys.modules["torch.cuda"], end)


def drain() -> None:
    """Write the marks of all events that the device has passed; it has been waited for."""
    while _events.is_chain and len(_events.waiting) > 1 and _events.waiting[1][2].query():
        _read_link()


def _follow_edge(cuda: Any, end: int) -> None:
    """Put the next event of the chain, and read those that the device has passed."""
    if _events.is_chain_lost:
        return
    if cuda.is_current_stream_capturing():
        _events.is_chain_lost = True  # what a captured graph replays belongs to no edge
        return
    for _ in range(_ANSWERS_PER_EDGE):
        if len(_events.waiting) > 1 and _events.waiting[1][2].query():
            _read_link()
    _events.n_skipped += 1
    if _events.waiting and (
        len(_events.waiting) >= _MAX_WAITING
        or (_events.n_skipped < _MAX_CHAIN_EDGES and end - _events.last_end < SPACING_NS)
        or cuda.current_stream() != _events.waiting[-1][1]
    ):
        return
    _events.n_skipped, _events.last_end = 0, end
    is_first = not _events.waiting
    _put(cuda, end)
    if is_first:
        recorder.mark(wire.DEVICE_EDGE, end, end, wire.NOBODY, 0)


def _read_link() -> None:
    """Write the mark of the second event that waits, and use the first again."""
    _, stream, event, _ = _events.waiting.popleft()
    end, _, next_event, _ = _events.waiting[0]
    _events.chain_ns += int(event.elapsed_time(next_event) * _NS)
    recorder.mark(wire.DEVICE_EDGE, end, end, wire.NOBODY, _events.chain_ns)
    _events.free.setdefault(stream.device_index, []).append(event)


@declare.at_stop
def forget() -> None:
    """Let go of all events."""
    _events.forget()


def _is_skipped(end: int) -> bool:
    """Return whether this edge is not measured: some after each measured pair of edges are not."""
    took_ns, _events.last_end = end - _events.last_end, end
    if _events.n_skipped > 0:
        _events.n_skipped -= 1
        _events.is_broken = True
        return True
    if not _events.is_broken:  # this one ends a pair
        _events.n_skipped = min(COST_NS // max(took_ns, 1), _MAX_SKIPPED_EDGES)
    return False


def _put(cuda: Any, end: int) -> None:
    stream = cuda.current_stream()
    device = stream.device_index
    free = _events.free.get(device)
    event = free.pop() if free else cuda.Event(enable_timing=True)
    event.record(stream)
    _events.waiting.append((end, stream, event, not _events.is_broken))
    _events.is_broken = False


def _read() -> None:
    """Write the marks of the events that the device has passed, and use these again."""
    for _ in range(_ANSWERS_PER_EDGE):
        if len(_events.waiting) < 2 or not _events.waiting[1][2].query():  # noqa: PLR2004 - a pair
            return
        before, stream, event, _ = _events.waiting.popleft()
        after, next_stream, next_event, follows = _events.waiting[0]
        if follows and stream == next_stream:
            value = int(event.elapsed_time(next_event) * _NS)
            recorder.mark(wire.DEVICE_STEP, before, after, wire.NOBODY, value)
        _events.free.setdefault(stream.device_index, []).append(event)
