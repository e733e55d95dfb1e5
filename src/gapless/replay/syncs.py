"""Where the host waited for devices, and for what of them."""

import re
from typing import Final

import numpy as np

from gapless.accounting.tags import ALLOC
from gapless.model import category
from gapless.model.trace import Events, Int64
from gapless.replay.anchors import Anchors
from gapless.replay.nodes import Op
from gapless.replay.span import Span
from gapless.replay.ties import call_starts, wait_records
from gapless.replay.typical import Bool
from gapless.replay.works import NEVER, Enqueued

_SYNC: Final = re.compile(r"^(cuda|hip|cu)(Device|Ctx|Stream|Event)Synchronize$")
_WHOLE: Final = re.compile(r"(Device|Ctx)Synchronize$|^(cuda|hip)Free$|^cuMemFree")
_EVENT: Final = re.compile(r"EventSynchronize$")


def syncs(span: Span, rows: Enqueued) -> Anchors:
    """Give an anchor for each call that waited for devices, with its cost beside waiting.

    It waits for all streams by its name; for the stream or event that the device's record of it
    names; else for the stream whose work ended last of those that had ended when it returned. Freed
    memory waits for the device, other allocations where the device ran dry in them.
    """
    threads = span.joined.threads
    trace, events = threads.trace, threads.trace.events
    frames = np.flatnonzero(
        np.isin(events.category, category.CALLS)
        & (events.start >= span.start)
        & (events.start < span.stop)
        & (events.end > events.start)
    )
    names = events.name[frames]
    is_sync = _matches(trace.names, _SYNC)[names]
    whole = _matches(trace.names, _WHOLE)[names]
    alloc = ~is_sync & (threads.tags.order[frames] == ALLOC)
    frames = frames[is_sync | alloc]
    whole, alloc = whole[is_sync | alloc], alloc[is_sync | alloc]
    begin, end = events.start[frames], events.end[frames]
    streams = range(len(rows.streams))
    drained = np.stack([rows.drained(stream, begin) for stream in streams], axis=1)
    over = np.where(drained <= end[:, None], drained, NEVER)
    ran_dry = over.max(axis=1, initial=NEVER) > begin
    kept = ~alloc | whole | ran_dry
    frames, begin, end = frames[kept], begin[kept], end[kept]
    op, arg, until = _bound(span, rows, frames, over[kept])
    every = (whole | alloc)[kept]
    op, arg = np.where(every, Op.SYNC, op), np.where(every, -1, arg)
    until = np.where(every, over[kept].max(axis=1, initial=NEVER), until)
    own = np.maximum(end - np.maximum(begin, until), 0)
    track = events.track[frames].astype(np.int64)
    return Anchors(track, op.astype(np.int64), arg, frames, begin, end, own)


def _bound(span: Span, rows: Enqueued, frames: Int64, over: Int64) -> tuple[Int64, Int64, Int64]:
    """Give op, argument, and until when what was waited for was at work, of each call."""
    trace, events = span.joined.threads.trace, span.joined.threads.trace.events
    latest = over.argmax(axis=1)
    until = over.max(axis=1, initial=NEVER)
    op = np.where(until > NEVER, Op.SYNC, Op.EVENT)
    arg = np.where(until > NEVER, latest, -1)
    streams, acts = _recorded(span, rows, frames)
    named = streams >= 0
    op, arg = np.where(named, Op.SYNC, op), np.where(named, streams, arg)
    own = over[np.arange(len(frames)), np.maximum(streams, 0)]
    until = np.where(named, own, until)
    on_event = _matches(trace.names, _EVENT)[events.name[frames]]
    acts = np.where(on_event & (acts < 0), _ended_last(rows, events, frames), acts)
    op, arg = np.where(on_event, Op.EVENT, op), np.where(on_event, acts, arg)
    stopped = rows.stopped[np.maximum(acts, 0)] if len(rows) else acts
    until = np.where(on_event, np.where(acts >= 0, stopped, NEVER), until)
    return op, arg, until


def _ended_last(rows: Enqueued, events: Events, frames: Int64) -> Int64:
    """Give the activity that ended last before each call returned, launched before the call; −1."""
    order = np.argsort(rows.stopped, kind="stable")
    at = np.searchsorted(rows.stopped[order], events.end[frames], side="right") - 1
    found = np.where(at >= 0, order[np.maximum(at, 0)], -1) if len(rows) else at
    known = (found >= 0) & (rows.begin[np.maximum(found, 0)] < events.start[frames])
    return np.where(known, found, -1)


def _recorded(span: Span, rows: Enqueued, frames: Int64) -> tuple[Int64, Int64]:
    """Give the stream, or the activity, that a device's record says each call waited for; −1."""
    trace = span.joined.threads.trace
    events, gpu = trace.events, trace.gpu
    streams, acts = np.full(len(frames), -1), np.full(len(frames), -1)
    place = {int(one): at for at, one in enumerate(events.correlation[frames]) if one > 0}
    number = {pair: at for at, pair in enumerate(rows.streams)}
    for record in wait_records(trace, "Stream Sync").tolist():
        at = place.get(int(events.correlation[record]))
        detail = events.detail[record]
        pair = (int(gpu.device[detail]), int(gpu.stream[detail]))
        if at is not None:
            streams[at] = number.get(pair, -1)
    records = wait_records(trace, "Event Sync")
    starts = call_starts(trace) if len(records) else {}
    for record in records.tolist():
        at, detail = place.get(int(events.correlation[record])), events.detail[record]
        recorded = starts.get(int(gpu.wait_event[detail]))
        pair = (int(gpu.device[detail]), int(gpu.wait_stream[detail]))
        if at is not None and recorded is not None and pair in number:
            acts[at] = rows.last_enqueued(number[pair], np.array([recorded]))[0]
    return streams, acts


def _matches(names: tuple[str, ...], pattern: re.Pattern[str]) -> Bool:
    return np.array([pattern.search(name) is not None for name in names], bool)
