"""Where the host waited for devices, and for what of them."""

import re
from typing import Final

import numpy as np

from gapless.accounting.host.tags import ALLOC
from gapless.accounting.ranks.peers import call_starts
from gapless.model import category
from gapless.model.trace import Events, Int64
from gapless.replay.graph.anchors import Anchors
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.launch_order import NEVER, EnqueuedWork
from gapless.replay.graph.nodes import Op
from gapless.replay.graph.span import GraphSpan
from gapless.replay.graph.waits.event_waits import wait_records

_SYNC: Final = re.compile(r"^(cuda|hip|cu)(Device|Ctx|Stream|Event)Synchronize$")
_DEVICE_WIDE: Final = re.compile(r"(Device|Ctx)Synchronize$|^(cuda|hip)Free$|^cuMemFree")
_EVENT: Final = re.compile(r"EventSynchronize$")


def sync_anchors(span: GraphSpan, rows: EnqueuedWork) -> Anchors:
    """Return an anchor for each call that waited for devices, with its cost besides waiting.

    It waits for all streams by its name; for the stream or event that the device's record of it
    names; else for the stream whose work ended last of those that had ended when it returned. Freed
    memory waits for the device, other allocations where the device ran dry in them.
    """
    threads = span.joined_trace.threads
    trace, events = threads.trace, threads.trace.events
    frames = np.flatnonzero(
        np.isin(events.category, category.CALLS)
        & (events.start >= span.start)
        & (events.start < span.stop)
        & (events.end > events.start)
    )
    names = events.name[frames]
    is_sync = _name_mask(trace.names, _SYNC)[names]
    is_device_wide = _name_mask(trace.names, _DEVICE_WIDE)[names]
    is_alloc = ~is_sync & (threads.tags.order[frames] == ALLOC)
    frames = frames[is_sync | is_alloc]
    is_device_wide, is_alloc = is_device_wide[is_sync | is_alloc], is_alloc[is_sync | is_alloc]
    begin, end = events.start[frames], events.end[frames]
    streams = range(len(rows.streams))
    drain_ends = np.stack([rows.drain_ends(stream, begin) for stream in streams], axis=1)
    past_ends = np.where(drain_ends <= end[:, None], drain_ends, NEVER)
    ran_dry = past_ends.max(axis=1, initial=NEVER) > begin
    keep = ~is_alloc | is_device_wide | ran_dry
    frames, begin, end = frames[keep], begin[keep], end[keep]
    op, arg, wait_ends = _bind_calls(span, rows, frames, past_ends[keep])
    waits_all = (is_device_wide | is_alloc)[keep]
    op, arg = np.where(waits_all, Op.SYNC, op), np.where(waits_all, -1, arg)
    wait_ends = np.where(waits_all, past_ends[keep].max(axis=1, initial=NEVER), wait_ends)
    own_ns = np.maximum(end - np.maximum(begin, wait_ends), 0)
    track = events.track[frames].astype(np.int64)
    return Anchors(track, op.astype(np.int64), arg, frames, begin, end, own_ns)


def _bind_calls(
    span: GraphSpan, rows: EnqueuedWork, frames: Int64, past_ends: Int64
) -> tuple[Int64, Int64, Int64]:
    """Return op and argument of each call, and when what it waited for was over."""
    trace, events = span.joined_trace.threads.trace, span.joined_trace.threads.trace.events
    latest = past_ends.argmax(axis=1)
    wait_ends = past_ends.max(axis=1, initial=NEVER)
    op = np.where(wait_ends > NEVER, Op.SYNC, Op.EVENT)
    arg = np.where(wait_ends > NEVER, latest, -1)
    streams, acts = _read_records(span, rows, frames)
    is_named = streams >= 0
    op, arg = np.where(is_named, Op.SYNC, op), np.where(is_named, streams, arg)
    named_ends = past_ends[np.arange(len(frames)), np.maximum(streams, 0)]
    wait_ends = np.where(is_named, named_ends, wait_ends)
    on_event = _name_mask(trace.names, _EVENT)[events.name[frames]]
    acts = np.where(on_event & (acts < 0), _last_ended(rows, events, frames), acts)
    op, arg = np.where(on_event, Op.EVENT, op), np.where(on_event, acts, arg)
    finish_ns = rows.finish_ns[np.maximum(acts, 0)] if len(rows) else acts
    wait_ends = np.where(on_event, np.where(acts >= 0, finish_ns, NEVER), wait_ends)
    return op, arg, wait_ends


def _last_ended(rows: EnqueuedWork, events: Events, frames: Int64) -> Int64:
    """Return for each call the activity, launched before it, that ended last before it returned."""
    order = np.argsort(rows.finish_ns, kind="stable")
    position = np.searchsorted(rows.finish_ns[order], events.end[frames], side="right") - 1
    activity = (
        np.where(position >= 0, order[np.maximum(position, 0)], -1) if len(rows) else position
    )
    is_known = (activity >= 0) & (rows.begin[np.maximum(activity, 0)] < events.start[frames])
    return np.where(is_known, activity, -1)


def _read_records(span: GraphSpan, rows: EnqueuedWork, frames: Int64) -> tuple[Int64, Int64]:
    """Return the stream, or activity, that each call waited for by a device's record; −1."""
    trace = span.joined_trace.threads.trace
    events, gpu = trace.events, trace.gpu
    streams, acts = np.full(len(frames), -1), np.full(len(frames), -1)
    row_by_id = {
        int(correlation): row
        for row, correlation in enumerate(events.correlation[frames])
        if correlation > 0
    }
    number = {pair: index for index, pair in enumerate(rows.streams)}
    for record in wait_records(trace, "Stream Sync").tolist():
        row = row_by_id.get(int(events.correlation[record]))
        detail = events.detail[record]
        pair = (int(gpu.device[detail]), int(gpu.stream[detail]))
        if row is not None:
            streams[row] = number.get(pair, -1)
    records = wait_records(trace, "Event Sync")
    starts = call_starts(trace) if len(records) else {}
    for record in records.tolist():
        row, detail = row_by_id.get(int(events.correlation[record])), events.detail[record]
        record_start = starts.get(int(gpu.wait_event[detail]))
        pair = (int(gpu.device[detail]), int(gpu.wait_stream[detail]))
        if row is not None and record_start is not None and pair in number:
            acts[row] = rows.last_enqueued(number[pair], np.array([record_start]))[0]
    return streams, acts


def _name_mask(names: tuple[str, ...], pattern: re.Pattern[str]) -> Bool:
    return np.array([pattern.search(name) is not None for name in names], bool)
