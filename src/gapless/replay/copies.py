"""Copies to a device made in another way: from pinned memory, without waiting, a batch ahead.

Three changes, not one: on real traces they differed by nine points of a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gapless.model.change import Copied
from gapless.model.interval import Interval
from gapless.model.leaf import LEAF
from gapless.model.machine import Constants
from gapless.model.trace import Int64
from gapless.replay.draft import Draft, Sheet
from gapless.replay.nodes import Op
from gapless.replay.select import View, matching
from gapless.replay.typical import Bool

_PAGEABLE, _PINNED = LEAF["copy.h2d.pageable"], LEAF["copy.h2d.pinned"]
_TAIL: Final = LEAF["idle.h2d.host"]
_PYTHON: Final = LEAF["idle.host.python"]
_OF_WORKERS: Final = ("*_MultiProcessingDataLoaderIter*",)
_NEW_STREAM: Final = -1  # the number of the stream of copies: no trace has one
_USUAL_CALL, _USUAL_LAG = 6_000, 2_000  # ns, of a copy that does not block (H200, torch 2.11)


_LET_GO: Final = Interval(0.03, 0.1, 0.8)  # ns a byte


@dataclass(frozen=True)
class Rates:
    """What a trace of pageable copies in line cannot tell of others.

    ``pinned``: bytes a second from pinned memory; usual are PCIe 3 to 5. ``slowdown``: of what
    computes while a copy runs beside it, for as long as that takes. ``let_go``: nanoseconds a byte,
    to unmap a batch that a worker shared (0.10 on the host of an H200, 0.2 to 1.0 on two
    processors that others used as well).
    """

    pinned: Interval
    slowdown: Interval
    let_go: Interval = _LET_GO


USUAL_RATES: Final = Rates(Interval(1.1e10, 2.5e10, 5.3e10), Interval(1.0, 1.02, 1.05))


# By generation of the device, which knows one of PCI Express: sixteen lanes carry 15.8, 31.5 or 63
# GB/s, of which copies reach 80 to 87 % (two H200: 53 to 55). A host that is older, or fewer lanes,
# halve it.
_LINKS: Final[Mapping[int, Interval]] = {
    7: Interval(5.5e9, 1.2e10, 1.35e10),
    8: Interval(1.1e10, 2.4e10, 2.7e10),
    9: Interval(2.2e10, 5.2e10, 5.6e10),
    10: Interval(2.2e10, 5.2e10, 5.6e10),
    12: Interval(2.2e10, 5.2e10, 5.6e10),
}


def rates_of(constants: Constants | None, capability: tuple[int, int] | None = None) -> Rates:
    """Give the rates of a machine whose copies were measured; else what is usual of its devices."""
    rates = () if constants is None else constants.series("copy.h2d.pinned")
    if not rates:
        link = None if capability is None else _LINKS.get(capability[0])
        return USUAL_RATES if link is None else replace(USUAL_RATES, pinned=link)
    rate = rates[-1][1]  # of the largest
    return Rates(Interval(0.9 * rate, rate, 1.1 * rate), USUAL_RATES.slowdown)


def copied(view: View, draft: Draft, change: Copied, rates: Rates) -> None:
    """Change the copies to devices of a graph."""
    leaf = draft.graph.work.leaf
    moved = (leaf == _PAGEABLE) | (leaf == _PINNED)
    if not moved.any():
        return
    if change.pinned:
        _pin(view, draft, leaf == _PAGEABLE, rates.pinned.mid)
        _not_unmapped(view, draft, leaf == _PAGEABLE, rates.let_go.mid)
    pinned = (leaf == _PINNED) | (moved & change.pinned)
    for sheet in draft.sheets:
        jobs = np.where(np.isin(sheet.ops, (Op.LAUNCH, Op.COPY)), sheet.args, 0)
        mine = np.isin(sheet.ops, (Op.LAUNCH, Op.COPY)) & sheet.stays
        if change.pinned:
            _unblock(draft, sheet, mine & pinned[jobs])
        if change.non_blocking:
            _not_waited(view, sheet, mine & moved[jobs])
    if change.ahead:
        _ahead(draft, moved, rates.slowdown.mid)


def _pin(view: View, draft: Draft, rows: Bool, rate: float) -> None:
    """Let copies take as long as their bytes do from pinned memory, if that is less."""
    trace, event = view.joined.threads.trace, draft.graph.work.event
    size = trace.gpu.bytes[trace.events.detail[event]]
    known = np.flatnonzero(rows & (size > 0))
    takes = np.rint(size[known] / rate * 1e9).astype(np.int64)
    draft.duration[known] = np.minimum(draft.duration[known], takes)


def _not_unmapped(view: View, draft: Draft, rows: Bool, ns_per_byte: float) -> None:
    """Let the thread that pins give workers' memory back, and not the one that trains.

    A batch of a worker lies in shared memory, which whoever forgets it last unmaps: in a loop over
    a loader that is Python between the next batch and the first thing done with it. More than was
    seen there does not go.
    """
    trace = view.joined.threads.trace
    if not matching(trace.names, _OF_WORKERS).any():
        return
    handed = [np.flatnonzero(sheet.ops[:-1] == Op.DATA) for sheet in draft.sheets]
    many = sum(map(len, handed))
    size = trace.gpu.bytes[trace.events.detail[draft.graph.work.event[rows]]]
    most = round(ns_per_byte * int(size[size > 0].sum()) / many) if many else 0
    for sheet, got in zip(draft.sheets, handed, strict=True):
        sheet.amounts[got + 1, _PYTHON] -= np.minimum(sheet.amounts[got + 1, _PYTHON], most)


def _unblock(draft: Draft, sheet: Sheet, anchors: Bool) -> None:
    """Let calls enqueue their copies and return: who did not ask for that synchronises behind."""
    rows = np.flatnonzero(anchors & (sheet.ops == Op.COPY))
    call, lag = _usual(draft)
    sheet.ops[rows] = Op.LAUNCH
    sheet.own[rows] = call
    draft.lag[sheet.args[rows]] = lag


def _usual(draft: Draft) -> tuple[int, int]:
    """Give the cost and lag of a copy's call that does not block: the graph's, if it has any."""
    work, calls, lags = draft.graph.work, list[Int64](), list[Int64]()
    for sheet in draft.sheets:
        thread = sheet.thread
        rows = np.flatnonzero(thread.ops == Op.LAUNCH)
        rows = rows[np.isin(work.leaf[thread.args[rows]], (_PAGEABLE, _PINNED))]
        calls.append(thread.own[rows])
        lags.append(work.lag[thread.args[rows]])
    own, lag = np.concatenate(calls), np.concatenate(lags)
    if not len(own):
        return _USUAL_CALL, _USUAL_LAG
    return int(np.median(own)), int(np.median(lag))


def _not_waited(view: View, sheet: Sheet, copies: Bool) -> None:
    """Let the synchronisation go that ends a blocking copy.

    Behind a copy from pinned memory it is a wait like others: next in the same operator.
    """
    leaf, event = view.host.context.leaf, sheet.thread.event
    tail = (event >= 0) & (leaf[event] == _TAIL)
    inside = sheet.amounts.sum(axis=1) == sheet.amounts[:, _TAIL]
    tail[1:] |= copies[:-1] & inside[1:]
    sheet.stays &= ~(tail & np.isin(sheet.ops, (Op.SYNC, Op.EVENT)))


def _ahead(draft: Draft, moved: Bool, slowdown: float) -> None:
    """Move copies to a stream of their own, a step ahead of what needs them.

    The calls stay where they are: there, the copies of the next step are enqueued. What is launched
    behind a step's copies on their old stream waits for those of the step before.
    """
    jobs, step = _launch_order(draft)
    copies = np.flatnonzero(moved[jobs])
    if not len(copies):
        return
    ordinal = _ordinals(step[copies])
    before = {
        (int(when), int(which)): int(job)
        for when, which, job in zip(step[copies], ordinal, jobs[copies], strict=True)
    }
    for place, which in zip(copies.tolist(), ordinal.tolist(), strict=True):
        job = int(jobs[place])
        needs = _next_on(draft, jobs, moved, place)
        if needs is None:
            continue
        earlier = before.get((int(step[place]) - 1, which))
        if earlier is not None:
            draft.after[needs] = (*draft.after[needs], earlier)
        draft.duration[needs] += round((slowdown - 1) * int(draft.duration[job]))
    _move(draft, jobs[copies])


def _launch_order(draft: Draft) -> tuple[Int64, Int64]:
    """Give all activities in the order of their launches, and the step of each launch."""
    jobs, steps, begins = list[Int64](), list[Int64](), list[Int64]()
    for sheet in draft.sheets:
        rows = sheet.launching()
        jobs.append(sheet.args[rows].astype(np.int64))
        steps.append(sheet.thread.step[rows].astype(np.int64))
        begins.append(sheet.thread.begin[rows])
    order = np.argsort(np.concatenate(begins), kind="stable")
    return np.concatenate(jobs)[order], np.concatenate(steps)[order]


def _ordinals(step: Int64) -> Int64:
    """Give the number of each within its step, from 0."""
    order = np.argsort(step, kind="stable")
    out = np.empty(len(step), np.int64)
    out[order] = np.arange(len(step)) - np.searchsorted(step[order], step[order])
    return out


def _next_on(draft: Draft, jobs: Int64, moved: Bool, place: int) -> int | None:
    """Give the next activity behind a copy on its stream that is no such copy."""
    stream = draft.stream[jobs[place]]
    behind = jobs[place + 1 :]
    found = np.flatnonzero((draft.stream[behind] == stream) & ~moved[behind])
    return int(behind[found[0]]) if len(found) else None


def _move(draft: Draft, copies: Int64) -> None:
    """Give copies a stream of their own on their device."""
    found: list[int] = np.unique(draft.stream[copies]).tolist()
    for device in sorted({draft.streams[at][0] for at in found}):
        draft.streams.append((device, _NEW_STREAM))
        mine = [
            job for job in copies.tolist() if draft.streams[int(draft.stream[job])][0] == device
        ]
        draft.stream[mine] = len(draft.streams) - 1
