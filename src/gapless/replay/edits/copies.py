"""Changed copies to a device: from pinned memory, without waiting, a batch ahead.

Three changes, not one: on real traces they differed by nine points of a step.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import CopyChange
from gapless.model.estimate import Estimate
from gapless.model.leaf import LEAF
from gapless.model.machine import Constants
from gapless.model.trace import Int64
from gapless.replay.edits.draft import Draft, ThreadSheet
from gapless.replay.edits.select import ReplayView, match_names
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Op

_PAGEABLE, _PINNED = LEAF["copy.h2d.pageable"], LEAF["copy.h2d.pinned"]
_TAIL: Final = LEAF["idle.h2d.host"]
_PYTHON: Final = LEAF["idle.host.python"]
_WORKER_ITER: Final = ("*_MultiProcessingDataLoaderIter*",)
_NEW_STREAM: Final = -1  # the number of the stream of copies: no trace has one
_USUAL_CALL, _USUAL_LAG = 6_000, 2_000  # ns, of a copy that does not block (H200, torch 2.11)


_UNMAP_NS: Final = Estimate(0.03, 0.1, 0.8)  # ns a byte


class Rates(Struct, frozen=True):
    """What a trace of pageable copies in line cannot show of other copies.

    ``pinned``: bytes a second from pinned memory; usual are PCIe 3 to 5. ``slowdown``: factor for
    what computes during a copy. ``unmap_ns``: nanoseconds a byte, to unmap a batch that a worker
    shared (0.10 on the host of an H200, 0.2 to 1.0 on two processors that others used as well).
    """

    pinned: Estimate
    slowdown: Estimate
    unmap_ns: Estimate = _UNMAP_NS


USUAL_RATES: Final = Rates(Estimate(1.1e10, 2.5e10, 5.3e10), Estimate(1.0, 1.02, 1.05))


# By generation of the device, which knows one of PCI Express: sixteen lanes carry 15.8, 31.5 or 63
# GB/s, of which copies reach 80 to 87 % (two H200: 53 to 55). A host that is older, or fewer lanes,
# halve it.
_LINKS: Final[Mapping[int, Estimate]] = {
    7: Estimate(5.5e9, 1.2e10, 1.35e10),
    8: Estimate(1.1e10, 2.4e10, 2.7e10),
    9: Estimate(2.2e10, 5.2e10, 5.6e10),
    10: Estimate(2.2e10, 5.2e10, 5.6e10),
    12: Estimate(2.2e10, 5.2e10, 5.6e10),
}


def rates_of(constants: Constants | None, capability: tuple[int, int] | None = None) -> Rates:
    """Return the measured rates of a machine's copies, else those usual for its devices."""
    rates = () if constants is None else constants.series("copy.h2d.pinned")
    if not rates:
        link = None if capability is None else _LINKS.get(capability[0])
        return USUAL_RATES if link is None else replace(USUAL_RATES, pinned=link)
    rate = rates[-1][1]  # of the largest
    return Rates(Estimate(0.9 * rate, rate, 1.1 * rate), USUAL_RATES.slowdown)


def change_copies(view: ReplayView, draft: Draft, change: CopyChange, rates: Rates) -> None:
    """Change the copies to devices of a graph."""
    leaf = draft.graph.work.leaf
    is_copy = (leaf == _PAGEABLE) | ((leaf == _PINNED) & (not change.of_pageable))
    if not is_copy.any():
        return
    if change.pinned:
        _pin(view, draft, leaf == _PAGEABLE, rates.pinned.mid)
        _skip_unmapping(view, draft, leaf == _PAGEABLE, rates.unmap_ns.mid)
    is_pinned = is_copy & ((leaf == _PINNED) | change.pinned)
    for sheet in draft.sheets:
        jobs = np.where(np.isin(sheet.ops, (Op.LAUNCH, Op.COPY)), sheet.args, 0)
        is_staying = np.isin(sheet.ops, (Op.LAUNCH, Op.COPY)) & sheet.stays
        if change.pinned:
            _unblock(draft, sheet, is_staying & is_pinned[jobs])
        if change.non_blocking:
            _skip_waits(view, sheet, is_staying & is_copy[jobs])
    if change.ahead:
        _move_ahead(draft, is_copy, rates.slowdown.mid)


def _pin(view: ReplayView, draft: Draft, rows: Bool, rate: float) -> None:
    """Make copies take as long as their bytes do from pinned memory, if that is less."""
    trace, event = view.joined_trace.threads.trace, draft.graph.work.event
    size = trace.gpu.bytes[trace.events.detail[event]]
    known_rows = np.flatnonzero(rows & (size > 0))
    takes = np.rint(size[known_rows] / rate * 1e9).astype(np.int64)
    draft.duration[known_rows] = np.minimum(draft.duration[known_rows], takes)


def _skip_unmapping(view: ReplayView, draft: Draft, rows: Bool, ns_per_byte: float) -> None:
    """Let the thread that pins release workers' memory instead of the one that trains.

    A batch of a worker lies in shared memory, which is unmapped by whoever drops the last
    reference: in a loop over a loader that is Python between the next batch and its first use. No
    more than was seen there is removed.
    """
    trace = view.joined_trace.threads.trace
    if not match_names(trace.names, _WORKER_ITER).any():
        return
    hand_overs = [np.flatnonzero(sheet.ops[:-1] == Op.DATA) for sheet in draft.sheets]
    n_batches = sum(map(len, hand_overs))
    size = trace.gpu.bytes[trace.events.detail[draft.graph.work.event[rows]]]
    unmap_ns = round(ns_per_byte * int(size[size > 0].sum()) / n_batches) if n_batches else 0
    for sheet, data_rows in zip(draft.sheets, hand_overs, strict=True):
        sheet.amounts[data_rows + 1, _PYTHON] -= np.minimum(
            sheet.amounts[data_rows + 1, _PYTHON], unmap_ns
        )


def _unblock(draft: Draft, sheet: ThreadSheet, anchors: Bool) -> None:
    """Let calls enqueue their copies and return, without the synchronisation after them."""
    rows = np.flatnonzero(anchors & (sheet.ops == Op.COPY))
    call, lag = _usual_call(draft)
    sheet.ops[rows] = Op.LAUNCH
    sheet.own_ns[rows] = call
    draft.lag[sheet.args[rows]] = lag


def _usual_call(draft: Draft) -> tuple[int, int]:
    """Return the cost and lag of a copy's call that does not block: the graph's, if it has any."""
    work, calls, lags = draft.graph.work, list[Int64](), list[Int64]()
    for sheet in draft.sheets:
        thread = sheet.thread
        rows = np.flatnonzero(thread.ops == Op.LAUNCH)
        rows = rows[np.isin(work.leaf[thread.args[rows]], (_PAGEABLE, _PINNED))]
        calls.append(thread.own_ns[rows])
        lags.append(work.lag[thread.args[rows]])
    call_ns, lag = np.concatenate(calls), np.concatenate(lags)
    if not len(call_ns):
        return _USUAL_CALL, _USUAL_LAG
    return int(np.median(call_ns)), int(np.median(lag))


def _skip_waits(view: ReplayView, sheet: ThreadSheet, copies: Bool) -> None:
    """Remove the synchronisation that ends a blocking copy.

    After a copy from pinned memory it is a wait like others: next in the same operator.
    """
    leaf, event = view.host.context.leaf, sheet.thread.event
    is_tail = (event >= 0) & (leaf[event] == _TAIL)
    is_inside = sheet.amounts.sum(axis=1) == sheet.amounts[:, _TAIL]
    is_tail[1:] |= copies[:-1] & is_inside[1:]
    sheet.stays &= ~(is_tail & np.isin(sheet.ops, (Op.SYNC, Op.EVENT)))


def _move_ahead(draft: Draft, is_copy: Bool, slowdown: float) -> None:
    """Move copies to a stream of their own, a step ahead of what needs them.

    The calls stay where they are: there, the copies of the next step are enqueued. What is launched
    after a step's copies on their old stream waits for those of the step before.
    """
    jobs, step = _launch_order(draft)
    copies = np.flatnonzero(is_copy[jobs])
    if not len(copies):
        return
    ordinals = _number_in_steps(step[copies])
    before = {
        (int(step_number), int(ordinal)): int(job)
        for step_number, ordinal, job in zip(step[copies], ordinals, jobs[copies], strict=True)
    }
    for position, ordinal in zip(copies.tolist(), ordinals.tolist(), strict=True):
        job = int(jobs[position])
        needing = _find_next(draft, jobs, is_copy, position)
        if needing is None:
            continue
        earlier = before.get((int(step[position]) - 1, ordinal))
        if earlier is not None:
            draft.after[needing] = (*draft.after[needing], earlier)
        draft.duration[needing] += round((slowdown - 1) * int(draft.duration[job]))
    _move_stream(draft, jobs[copies])


def _launch_order(draft: Draft) -> tuple[Int64, Int64]:
    """Return all activities in the order of their launches, and the step of each launch."""
    jobs, steps, begins = list[Int64](), list[Int64](), list[Int64]()
    for sheet in draft.sheets:
        rows = sheet.launching_rows()
        jobs.append(sheet.args[rows].astype(np.int64))
        steps.append(sheet.thread.step[rows].astype(np.int64))
        begins.append(sheet.thread.begin[rows])
    order = np.argsort(np.concatenate(begins), kind="stable")
    return np.concatenate(jobs)[order], np.concatenate(steps)[order]


def _number_in_steps(step: Int64) -> Int64:
    """Return the number of each within its step, from 0."""
    order = np.argsort(step, kind="stable")
    numbers = np.empty(len(step), np.int64)
    numbers[order] = np.arange(len(step)) - np.searchsorted(step[order], step[order])
    return numbers


def _find_next(draft: Draft, jobs: Int64, is_copy: Bool, position: int) -> int | None:
    """Return the next activity after a copy on its stream that is not such a copy."""
    stream = draft.stream[jobs[position]]
    later_jobs = jobs[position + 1 :]
    matches = np.flatnonzero((draft.stream[later_jobs] == stream) & ~is_copy[later_jobs])
    return int(later_jobs[matches[0]]) if len(matches) else None


def _move_stream(draft: Draft, copies: Int64) -> None:
    """Move copies to a stream of their own on their device."""
    streams: list[int] = np.unique(draft.stream[copies]).tolist()
    for device in sorted({draft.streams[stream][0] for stream in streams}):
        draft.streams.append((device, _NEW_STREAM))
        device_jobs = [
            job for job in copies.tolist() if draft.streams[int(draft.stream[job])][0] == device
        ]
        draft.stream[device_jobs] = len(draft.streams) - 1
