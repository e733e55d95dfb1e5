"""What a frame is charged as because of where it stands, not of its name.

These are launches of copies, blocking calls, retries of the allocator, the profiler's own time.
"""

import itertools
import re
from dataclasses import dataclass

import numpy as np

from gapless.accounting.activities import D2H, H2D, Activities
from gapless.accounting.intervals import piece_at, union
from gapless.accounting.steps import profiler_steps
from gapless.accounting.tags import ALLOC, COPY, MOVES, OPERATOR, SYNC
from gapless.accounting.threads import Threads
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int8, Int64

_GIVES_BACK = re.compile(r"Free|Unmap|Release")


@dataclass(frozen=True)
class Context:
    """The final tag and leaf of every event, and stretches in which the profiler held a thread."""

    order: Int8
    leaf: Int8
    held_track: Int64
    held_start: Int64
    held_end: Int64
    held_event: Int64
    overhead_not_held: int


def in_context(threads: Threads, acts: Activities) -> Context:
    """Refine the tags of a trace's frames by what they enclose and what they wait for."""
    order, leaf = threads.tags.order.copy(), threads.tags.leaf.copy()
    _copies(threads, acts, order, leaf)
    waits = acts.call[(acts.kind == D2H) & (acts.blocking > 0)]
    order[waits], leaf[waits] = SYNC, LEAF["idle.sync.return"]
    _retries(threads, order, leaf)
    held, loose = _held(threads)
    return Context(order, leaf, held[:, 0], held[:, 1], held[:, 2], held[:, 3], loose)


def _copies(threads: Threads, acts: Activities, order: Int8, leaf: Int8) -> None:
    """Tag what launches a copy to the device, and the synchronize that ends a blocking one."""
    events = threads.trace.events
    moves = np.array([name in MOVES for name in threads.trace.names], bool)
    copying = (acts.kind == H2D) & (acts.call >= 0)
    for track in np.unique(acts.thread[copying]).tolist():
        mine = threads.of(track)
        candidates = mine[moves[events.name[mine]] & (order[mine] == OPERATOR)]
        here = copying & (acts.thread == track)
        launched = np.sort(acts.call_start[here])
        blocked = np.sort(acts.call_start[here & (acts.blocking > 0)])
        start, end = events.start[candidates], events.end[candidates]
        around = np.searchsorted(launched, end) > np.searchsorted(launched, start)
        order[candidates[around]], leaf[candidates[around]] = COPY, LEAF["idle.h2d.host"]
        waits = np.searchsorted(blocked, end) > np.searchsorted(blocked, start)
        tail = union(start[waits], end[waits])
        syncs = mine[order[mine] == SYNC]
        syncs = syncs[piece_at(tail, events.start[syncs]) >= 0]
        order[syncs], leaf[syncs] = COPY, LEAF["idle.h2d.host"]


def _retries(threads: Threads, order: Int8, leaf: Int8) -> None:
    """Tag allocations after a free in the same operator: memory was given back and asked again."""
    events, names = threads.trace.events, threads.trace.names
    device = np.flatnonzero((order == ALLOC) & (leaf == LEAF["idle.alloc"]))
    if not len(device):
        return
    op = threads.operator_at(events.track[device].astype(np.int64), events.start[device])
    frees = np.array([_GIVES_BACK.search(name) is not None for name in names], bool)
    device, op = device[op >= 0], op[op >= 0]
    is_free = frees[events.name[device]]
    big = np.iinfo(np.int64).max
    first_free = np.full(len(order), big)
    np.minimum.at(first_free, op[is_free], events.start[device][is_free])
    last_malloc = np.full(len(order), -big)
    np.maximum.at(last_malloc, op[~is_free], events.start[device][~is_free])
    retried = first_free[op] < last_malloc[op]
    leaf[device[retried]] = LEAF["idle.alloc.retry"]


def _held(threads: Threads) -> tuple[Int64, int]:
    """Give (track, start, end, event) of what the profiler held, and count its other events.

    An overhead event belongs to no thread. It held one on which nothing starts or ends meanwhile,
    if that is main or has a frame open all the time. Between two ProfilerStep# main is in
    ``prof.step()``.
    """
    events = threads.trace.events
    steps = profiler_steps(threads.trace)
    steps = steps[events.track[steps] == threads.main]
    out = [
        (threads.main, int(events.end[here]), int(events.start[after]), int(after))
        for here, after in itertools.pairwise(steps)
        if events.end[here] < events.start[after]
    ]
    overhead = np.flatnonzero((events.category == category.OVERHEAD) & (events.end > events.start))
    held = np.zeros(len(overhead), bool)
    for track in {*threads.bounds, threads.main} - {-1} if len(overhead) else ():
        mine = threads.of(track)
        edges = np.sort(np.concatenate((events.start[mine], events.end[mine])))
        start, end = events.start[overhead], events.end[overhead]
        silent = np.searchsorted(edges, start, side="right") >= np.searchsorted(edges, end)
        if track != threads.main:
            silent &= piece_at(union(events.start[mine], events.end[mine]), start) >= 0
        held |= silent
        out += [
            (track, int(events.start[one]), int(events.end[one]), int(one))
            for one in overhead[silent]
        ]
    return np.array(out, np.int64).reshape(-1, 4), int((~held).sum())
