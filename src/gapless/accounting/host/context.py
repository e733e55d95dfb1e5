"""What a frame is charged as because of where it stands, not of its name.

These are launches of copies, blocking calls, retries of the allocator, the profiler's own time.
"""

import itertools
import re

import numpy as np
from msgspec import Struct

from gapless.accounting.device.activities import D2H, H2D, Activities
from gapless.accounting.host.steps import profiler_steps
from gapless.accounting.host.tags import ALLOC, COPY, MOVES, OPERATOR, SYNC
from gapless.accounting.host.threads import Threads
from gapless.accounting.intervals import piece_at, union
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int8, Int64

_GIVES_BACK = re.compile(r"Free|Unmap|Release")


class Context(Struct, frozen=True):
    """The final tag and leaf of every event, and stretches in which the profiler held a thread."""

    order: Int8
    leaf: Int8
    held_track: Int64
    held_start: Int64
    held_end: Int64
    held_event: Int64
    n_overhead_loose: int


def refine_tags(threads: Threads, acts: Activities) -> Context:
    """Refine the tags of a trace's frames by what they enclose and what they wait for."""
    order, leaf = threads.tags.order.copy(), threads.tags.leaf.copy()
    _tag_copies(threads, acts, order, leaf)
    waits = acts.call[(acts.kind == D2H) & (acts.blocking > 0)]
    order[waits], leaf[waits] = SYNC, LEAF["idle.sync.return"]
    _tag_retries(threads, order, leaf)
    held_rows, n_loose = _find_held(threads)
    return Context(
        order, leaf, held_rows[:, 0], held_rows[:, 1], held_rows[:, 2], held_rows[:, 3], n_loose
    )


def _tag_copies(threads: Threads, acts: Activities, order: Int8, leaf: Int8) -> None:
    """Tag what launches a copy to the device, and the synchronize that ends a blocking one."""
    events = threads.trace.events
    moves = np.array([name in MOVES for name in threads.trace.names], bool)
    is_h2d = (acts.kind == H2D) & (acts.call >= 0)
    for track in np.unique(acts.thread[is_h2d]).tolist():
        frames = threads.frames_of(track)
        candidates = frames[moves[events.name[frames]] & (order[frames] == OPERATOR)]
        on_track = is_h2d & (acts.thread == track)
        launch_starts = np.sort(acts.call_start[on_track])
        block_starts = np.sort(acts.call_start[on_track & (acts.blocking > 0)])
        start, end = events.start[candidates], events.end[candidates]
        encloses = np.searchsorted(launch_starts, end) > np.searchsorted(launch_starts, start)
        order[candidates[encloses]], leaf[candidates[encloses]] = COPY, LEAF["idle.h2d.host"]
        waits = np.searchsorted(block_starts, end) > np.searchsorted(block_starts, start)
        tail = union(start[waits], end[waits])
        syncs = frames[order[frames] == SYNC]
        syncs = syncs[piece_at(tail, events.start[syncs]) >= 0]
        order[syncs], leaf[syncs] = COPY, LEAF["idle.h2d.host"]


def _tag_retries(threads: Threads, order: Int8, leaf: Int8) -> None:
    """Tag allocations after a free in the same operator: memory was given back and asked again."""
    events, names = threads.trace.events, threads.trace.names
    device = np.flatnonzero((order == ALLOC) & (leaf == LEAF["idle.alloc"]))
    if not len(device):
        return
    op = threads.operator_at(events.track[device].astype(np.int64), events.start[device])
    frees = np.array([_GIVES_BACK.search(name) is not None for name in names], bool)
    device, op = device[op >= 0], op[op >= 0]
    is_free = frees[events.name[device]]
    infinity = np.iinfo(np.int64).max
    first_free = np.full(len(order), infinity)
    np.minimum.at(first_free, op[is_free], events.start[device][is_free])
    last_malloc = np.full(len(order), -infinity)
    np.maximum.at(last_malloc, op[~is_free], events.start[device][~is_free])
    is_retry = first_free[op] < last_malloc[op]
    leaf[device[is_retry]] = LEAF["idle.alloc.retry"]


def _find_held(threads: Threads) -> tuple[Int64, int]:
    """Return (track, start, end, event) of what the profiler held, and count its other events.

    An overhead event belongs to no thread. It held one on which nothing starts or ends meanwhile,
    if that is main or has a frame open all the time. Between two ProfilerStep# main is in
    the profiler's own ``step()``.
    """
    events = threads.trace.events
    steps = profiler_steps(threads.trace)
    steps = steps[events.track[steps] == threads.main]
    held_rows = [
        (threads.main, int(events.end[step]), int(events.start[next_step]), int(next_step))
        for step, next_step in itertools.pairwise(steps)
        if events.end[step] < events.start[next_step]
    ]
    overhead = np.flatnonzero((events.category == category.OVERHEAD) & (events.end > events.start))
    is_held = np.zeros(len(overhead), bool)
    for track in {*threads.bounds, threads.main} - {-1} if len(overhead) else ():
        frames = threads.frames_of(track)
        edges = np.sort(np.concatenate((events.start[frames], events.end[frames])))
        start, end = events.start[overhead], events.end[overhead]
        silent = np.searchsorted(edges, start, side="right") >= np.searchsorted(edges, end)
        if track != threads.main:
            silent &= piece_at(union(events.start[frames], events.end[frames]), start) >= 0
        is_held |= silent
        held_rows += [
            (track, int(events.start[event]), int(events.end[event]), int(event))
            for event in overhead[silent]
        ]
    return np.array(held_rows, np.int64).reshape(-1, 4), int((~is_held).sum())
