"""Changes applied to a graph (``model.change`` defines them)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import NO_LANE, Lane, subtract
from gapless.model.change import (
    Bucket,
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64
from gapless.replay.edits.call_selection import MIDDLE_OFFSET, find_cuts, select_lanes
from gapless.replay.edits.copies import USUAL_RATES, Rates, change_copies
from gapless.replay.edits.draft import Draft, ThreadSheet, finish_draft, open_draft
from gapless.replay.edits.select import (
    Lanes,
    ReplayView,
    anchor_mask,
    find_calls,
    find_frames,
    lanes_of,
    leaf_mask,
    match_names,
    measure_contents,
)
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, Op

_API, _LATENCY = LEAF["idle.launch.api"], LEAF["idle.launch.latency"]
_PYTHON: Final = LEAF["idle.host.python"]
_RETURN: Final = LEAF["idle.sync.return"]
_GO: Final = (Op.LAUNCH, Op.SYNC, Op.COPY, Op.EVENT, Op.ASK, Op.DATA)  # hand-offs and steps stay


class ChangeParams(Struct, frozen=True):
    """What a change leaves open."""

    rates: Rates = USUAL_RATES
    offset: float = MIDDLE_OFFSET  # which calls stay where a share of them does: ``call_selection``
    hidden: float = 0.0  # of other ranks' work while they wait for a late one: ``evening``


def apply_changes(
    view: ReplayView, graph: Graph, changes: Sequence[Change], params: ChangeParams | None = None
) -> Graph:
    """Return a graph with some changes made, all at once; factors are the middles of intervals.

    A ``LoaderChange`` only has the effect that loaders are never waited for; its other settings
    belong to their source.
    """
    params = params or ChangeParams()
    draft = open_draft(graph)
    lanes = find_cuts(view, graph, changes, params.offset)
    for sheet in draft.sheets:
        if sheet.thread.track in lanes:
            cut_lane(view, sheet, lanes[sheet.thread.track])
    for change in changes:
        _apply_change(view, draft, change, params)
    _delay(draft, sum(change.ns for change in changes if isinstance(change, Delay)))
    return finish_draft(draft)


def cut_lane(view: ReplayView, sheet: ThreadSheet, lane: Lane) -> None:
    """Remove what lies in some stretches: host time, and anchors with what they launch."""
    contents = measure_contents(view, sheet.thread, lane)
    sheet.amounts -= contents.amounts
    sheet.counts -= contents.counts
    sheet.stays &= ~(anchor_mask(sheet.thread, lane) & np.isin(sheet.ops, _GO))


def _apply_change(view: ReplayView, draft: Draft, change: Change, params: ChangeParams) -> None:
    match change:
        case Drop():
            _drop(view, draft, change)
        case Scale():
            _scale(view, draft, change)
        case Merge():
            _merge(view, draft, change)
        case HostChange():
            _scale_host(draft, leaf_mask(change.leaves), change.factor.mid)
            _scale_exchange(draft, leaf_mask(change.leaves), change.factor.mid)
        case CopyChange():
            change_copies(view, draft, change, params.rates)
        case LoaderChange(wait=False):
            _scale_host(draft, leaf_mask(("idle.data.",)), 0.0)
        case LoaderChange() | Omit() | Delay() | Bucket():  # the last is made before: ``buckets``
            pass


def _drop(view: ReplayView, draft: Draft, change: Drop) -> None:
    """Remove time without frames: Python between operators, stages of a fetch."""
    mask = leaf_mask(change.leaves)
    if mask[_RETURN] and change.keep <= 0:
        _drop_waits(view, draft)
    if change.keep <= 0 or not len(find_frames(view, change.leaves)):
        _scale_host(draft, mask, change.keep)
    work = draft.graph.work
    is_meant = mask[work.leaf] & ~_is_launched_in(draft, select_lanes(view, change))
    draft.duration[is_meant] = np.rint(draft.duration[is_meant] * change.keep).astype(np.int64)


def _is_launched_in(draft: Draft, lanes: Lanes) -> Bool:
    """Return which activities are launched in some stretches: they go or stay with these."""
    is_launched = np.zeros(len(draft.duration), bool)
    for sheet in draft.sheets:
        lane = lanes.get(sheet.thread.track)
        rows = sheet.launching_rows()
        if lane is not None:
            is_launched[sheet.args[rows[anchor_mask(sheet.thread, lane)[rows]]]] = True
    return is_launched


def _drop_waits(view: ReplayView, draft: Draft) -> None:
    """Remove all waits for devices, short ones too: without the others they would be long."""
    leaf, work = view.host.context.leaf, draft.graph.work
    for sheet in draft.sheets:
        event = sheet.thread.event
        is_charged = (event >= 0) & (leaf[event] == _RETURN)
        is_wait = np.isin(sheet.ops, (Op.SYNC, Op.EVENT)) & is_charged
        copies = np.flatnonzero(sheet.ops == Op.COPY)
        is_wait[copies] = work.leaf[sheet.args[copies]] == LEAF["copy.d2h"]
        sheet.stays &= ~is_wait


def _scale(view: ReplayView, draft: Draft, change: Scale) -> None:
    work, trace = draft.graph.work, view.joined_trace.threads.trace
    if not draft.graph.on_device:
        _scale_on_host(view, draft, change)
        return
    is_meant = (
        leaf_mask(change.leaves)[work.leaf] if change.leaves else np.zeros(len(work.leaf), bool)
    )
    if change.names:
        is_meant = is_meant | match_names(trace.names, change.names)[trace.events.name[work.event]]
    draft.duration[is_meant] = np.rint(draft.duration[is_meant] * change.factor.mid).astype(
        np.int64
    )


def _scale_on_host(view: ReplayView, draft: Draft, change: Scale) -> None:
    """Scale the time of operators that run on the training thread itself."""
    _scale_host(draft, leaf_mask(change.leaves or ("none",)), change.factor.mid)
    _scale_exchange(draft, leaf_mask(change.leaves or ("none",)), change.factor.mid)
    lanes = lanes_of(view, find_calls(view, change.names))
    for sheet in draft.sheets:
        lane = lanes.get(sheet.thread.track)
        if lane is not None:
            amounts = measure_contents(view, sheet.thread, lane).amounts
            amounts = np.minimum(amounts, sheet.amounts)
            sheet.amounts -= np.rint(amounts * (1 - change.factor.mid)).astype(np.int64)


def _scale_host(draft: Draft, mask: Bool, factor: float) -> None:
    """Scale host time of some leaves; traced events are assumed to lie evenly."""
    for sheet in draft.sheets:
        before_ns = sheet.amounts.sum(axis=1)
        sheet.amounts[:, mask] = np.rint(sheet.amounts[:, mask] * factor).astype(np.int64)
        after_ns = sheet.amounts.sum(axis=1)
        share = np.where(before_ns > 0, after_ns / np.maximum(before_ns, 1), 1.0)
        sheet.counts = np.rint(sheet.counts * share).astype(np.int64)
        for op, leaf in ((Op.LAUNCH, _API), (Op.COPY, _API), (Op.SYNC, _RETURN)):
            if mask[leaf]:
                is_op = sheet.ops == op
                sheet.own_ns[is_op] = np.rint(sheet.own_ns[is_op] * factor).astype(np.int64)
    if mask[_LATENCY]:
        draft.lag = np.rint(draft.lag * factor).astype(np.int64)


def _scale_exchange(draft: Draft, mask: Bool, factor: float) -> None:
    """Scale collectives that threads of the host carry out."""
    if not draft.graph.on_device:
        is_meant = mask[draft.graph.work.leaf]
        scaled = np.rint(draft.duration[is_meant] * factor).astype(np.int64)
        draft.duration[is_meant] = scaled


def _delay(draft: Draft, ns: int) -> None:
    """Make the training thread take longer before each of its steps ends."""
    sheet = draft.sheets[0]
    sheet.amounts[sheet.ops == Op.STEP, _PYTHON] += round(ns * draft.graph.pace)


def _merge(view: ReplayView, draft: Draft, change: Merge) -> None:
    """Let few launches do the work of many in each of some frames, except callbacks of a step."""
    lanes = lanes_of(view, find_calls(view, change.names))
    closures = view.joined_trace.threads.closures
    for sheet in draft.sheets:
        track = sheet.thread.track
        lane = subtract(lanes.get(track, NO_LANE), closures.get(track, NO_LANE))
        if not len(lane):
            continue
        kept_shares = [
            _merge_frame(draft, sheet, rows, change) for rows in _launches_in(sheet, lane)
        ]
        contents = measure_contents(view, sheet.thread, lane, [1 - share for share in kept_shares])
        sheet.amounts -= np.minimum(contents.amounts, sheet.amounts)
        sheet.counts -= np.minimum(contents.counts, sheet.counts)


def _launches_in(sheet: ThreadSheet, lane: Lane) -> list[Int64]:
    """Return the launches in each of some stretches."""
    rows = sheet.launching_rows()
    rows = rows[sheet.ops[rows] == Op.LAUNCH]
    begin = sheet.thread.begin[rows]
    begins, ends = np.searchsorted(begin, lane.start), np.searchsorted(begin, lane.end)
    return [rows[lo:hi] for lo, hi in zip(begins.tolist(), ends.tolist(), strict=True)]


def _merge_frame(draft: Draft, sheet: ThreadSheet, rows: Int64, change: Merge) -> float:
    """Keep some of the launches of a frame, spread evenly, with all of its device time.

    Returns the share of the host time that stays: 1 where there are no more launches than are
    kept.
    """
    count = change.launches
    if len(rows) <= count or count < 1:
        return 1.0
    kept_rows = rows[(np.arange(count) * 2 + 1) * len(rows) // (2 * count)]
    jobs = sheet.args[rows]
    device = int(draft.duration[jobs].sum()) * change.device.mid
    draft.duration[sheet.args[kept_rows]] = round(device / count)
    sheet.stays[rows] = False
    sheet.stays[kept_rows] = True
    return count / len(rows)
