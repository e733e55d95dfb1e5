"""Changes applied to a graph (``model.change`` says what each means)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.intervals import NO_LANE, Lane, subtract
from gapless.model.change import Change, Copied, Delay, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64
from gapless.replay.copies import USUAL_RATES, Rates, copied
from gapless.replay.cuts import USUAL, going, selected
from gapless.replay.draft import Draft, Sheet, finished, opened
from gapless.replay.nodes import Graph, Op
from gapless.replay.select import (
    Lanes,
    View,
    anchors_in,
    calls_named,
    frames_charged,
    held,
    lanes_of,
    leaf_mask,
    matching,
)
from gapless.replay.typical import Bool

_API, _LATENCY = LEAF["idle.launch.api"], LEAF["idle.launch.latency"]
_PYTHON: Final = LEAF["idle.host.python"]
_RETURN: Final = LEAF["idle.sync.return"]
_GO: Final = (Op.LAUNCH, Op.SYNC, Op.COPY, Op.EVENT, Op.ASK, Op.DATA)  # hand-offs and steps stay


@dataclass(frozen=True)
class How:
    """What a change leaves open."""

    rates: Rates = USUAL_RATES
    offset: float = USUAL  # of the calls that stay where a share of them does: ``cuts``


def apply(view: View, graph: Graph, changes: Sequence[Change], how: How | None = None) -> Graph:
    """Give a graph with some changes made, all at once; factors are the middles of intervals.

    A ``Feed`` changes only that loaders are never waited for; what else it sets is their source's.
    """
    how = how or How()
    draft = opened(graph)
    lanes = going(view, graph, changes, how.offset)
    for sheet in draft.sheets:
        if sheet.thread.track in lanes:
            _cut(view, sheet, lanes[sheet.thread.track])
    for one in changes:
        _make(view, draft, one, how)
    _delay(draft, sum(one.ns for one in changes if isinstance(one, Delay)))
    return finished(draft)


def _cut(view: View, sheet: Sheet, lane: Lane) -> None:
    """Let what lies in some stretches go: host time, and anchors with what they launch."""
    inside = held(view, sheet.thread, lane)
    sheet.amounts -= inside.amounts
    sheet.counts -= inside.counts
    sheet.stays &= ~(anchors_in(sheet.thread, lane) & np.isin(sheet.ops, _GO))


def _make(view: View, draft: Draft, change: Change, how: How) -> None:
    match change:
        case Drop():
            _drop(view, draft, change)
        case Scale():
            _scale(view, draft, change)
        case Merge():
            _merge(view, draft, change)
        case Hosted():
            _host(draft, leaf_mask(change.leaves), change.factor.mid)
        case Copied():
            copied(view, draft, change, how.rates)
        case Feed(wait=False):
            _host(draft, leaf_mask(("idle.data.",)), 0.0)
        case Feed() | Omit() | Delay():
            pass


def _drop(view: View, draft: Draft, change: Drop) -> None:
    """Let time go that no frame stands for: Python between operators, stages of a fetch."""
    mask = leaf_mask(change.leaves)
    if mask[_RETURN] and change.keep <= 0:
        _no_waits(view, draft)
    if change.keep <= 0 or not len(frames_charged(view, change.leaves)):
        _host(draft, mask, change.keep)
    work = draft.graph.work
    meant = mask[work.leaf] & ~_launched_in(draft, selected(view, change))
    draft.duration[meant] = np.rint(draft.duration[meant] * change.keep).astype(np.int64)


def _launched_in(draft: Draft, lanes: Lanes) -> Bool:
    """Tell which activities are launched in some stretches: they go or stay with these."""
    found = np.zeros(len(draft.duration), bool)
    for sheet in draft.sheets:
        lane = lanes.get(sheet.thread.track)
        rows = sheet.launching()
        if lane is not None:
            found[sheet.args[rows[anchors_in(sheet.thread, lane)[rows]]]] = True
    return found


def _no_waits(view: View, draft: Draft) -> None:
    """Let each wait for devices go, short ones too: once others are gone they are not."""
    leaf, work = view.host.context.leaf, draft.graph.work
    for sheet in draft.sheets:
        event = sheet.thread.event
        charged = (event >= 0) & (leaf[event] == _RETURN)
        waits = np.isin(sheet.ops, (Op.SYNC, Op.EVENT)) & charged
        copies = np.flatnonzero(sheet.ops == Op.COPY)
        waits[copies] = work.leaf[sheet.args[copies]] == LEAF["copy.d2h"]
        sheet.stays &= ~waits


def _scale(view: View, draft: Draft, change: Scale) -> None:
    work, trace = draft.graph.work, view.joined.threads.trace
    if not draft.graph.on_device:
        _scale_on_host(view, draft, change)
        return
    meant = leaf_mask(change.leaves)[work.leaf] if change.leaves else np.zeros(len(work.leaf), bool)
    if change.names:
        meant = meant | matching(trace.names, change.names)[trace.events.name[work.event]]
    draft.duration[meant] = np.rint(draft.duration[meant] * change.factor.mid).astype(np.int64)


def _scale_on_host(view: View, draft: Draft, change: Scale) -> None:
    """Let operators take another time where they run on the training thread itself."""
    _host(draft, leaf_mask(change.leaves or ("none",)), change.factor.mid)
    lanes = lanes_of(view, calls_named(view, change.names))
    for sheet in draft.sheets:
        lane = lanes.get(sheet.thread.track)
        if lane is not None:
            inside = held(view, sheet.thread, lane).amounts
            inside = np.minimum(inside, sheet.amounts)
            sheet.amounts -= np.rint(inside * (1 - change.factor.mid)).astype(np.int64)


def _host(draft: Draft, mask: Bool, factor: float) -> None:
    """Let host time of some leaves take another time; traced events are taken to lie evenly."""
    for sheet in draft.sheets:
        before = sheet.amounts.sum(axis=1)
        sheet.amounts[:, mask] = np.rint(sheet.amounts[:, mask] * factor).astype(np.int64)
        after = sheet.amounts.sum(axis=1)
        part = np.where(before > 0, after / np.maximum(before, 1), 1.0)
        sheet.counts = np.rint(sheet.counts * part).astype(np.int64)
        for op, leaf in ((Op.LAUNCH, _API), (Op.COPY, _API), (Op.SYNC, _RETURN)):
            if mask[leaf]:
                own = sheet.ops == op
                sheet.own[own] = np.rint(sheet.own[own] * factor).astype(np.int64)
    if mask[_LATENCY]:
        draft.lag = np.rint(draft.lag * factor).astype(np.int64)


def _delay(draft: Draft, ns: int) -> None:
    """Let the training thread take longer before each of its steps ends."""
    sheet = draft.sheets[0]
    sheet.amounts[sheet.ops == Op.STEP, _PYTHON] += round(ns * draft.graph.pace)


def _merge(view: View, draft: Draft, change: Merge) -> None:
    """Let few launches do what many did, in each of some frames; not what a step calls back."""
    lanes = lanes_of(view, calls_named(view, change.names))
    called = view.joined.threads.closures
    for sheet in draft.sheets:
        track = sheet.thread.track
        lane = subtract(lanes.get(track, NO_LANE), called.get(track, NO_LANE))
        if not len(lane):
            continue
        rest = [_merged(draft, sheet, rows, change) for rows in _launches(sheet, lane)]
        inside = held(view, sheet.thread, lane, [1 - one for one in rest])
        sheet.amounts -= np.minimum(inside.amounts, sheet.amounts)
        sheet.counts -= np.minimum(inside.counts, sheet.counts)


def _launches(sheet: Sheet, lane: Lane) -> list[Int64]:
    """Give the launches in each of some stretches."""
    rows = sheet.launching()
    rows = rows[sheet.ops[rows] == Op.LAUNCH]
    begin = sheet.thread.begin[rows]
    first, last = np.searchsorted(begin, lane.start), np.searchsorted(begin, lane.end)
    return [rows[lo:hi] for lo, hi in zip(first.tolist(), last.tolist(), strict=True)]


def _merged(draft: Draft, sheet: Sheet, rows: Int64, change: Merge) -> float:
    """Keep some of the launches of a frame, spread evenly, with all of its device time.

    Gives the share of the host time that stays: 1 where there are no more launches than are kept.
    """
    count = change.launches
    if len(rows) <= count or count < 1:
        return 1.0
    kept = rows[(np.arange(count) * 2 + 1) * len(rows) // (2 * count)]
    jobs = sheet.args[rows]
    device = int(draft.duration[jobs].sum()) * change.device.mid
    draft.duration[sheet.args[kept]] = round(device / count)
    sheet.stays[rows] = False
    sheet.stays[kept] = True
    return count / len(rows)
