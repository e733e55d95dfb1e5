"""When activities start: after their launch, their stream, other streams, or nothing known.

From timestamps alone. An activity shows the lag of its launch only if its stream was empty when
it was launched, and the gap between activities only if it came there before the other was over;
what it does not show is what is usual for its class.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.intervals import overlap, union
from gapless.model.trace import Int64
from gapless.replay.nodes import nearly
from gapless.replay.span import Span
from gapless.replay.ties import Waits, recorded_waits
from gapless.replay.typical import Bool, imputed, paired
from gapless.replay.works import NEAR, NEVER, Enqueued, unheard

LATE: Final = 8_000  # ns: later than that, something else was waited for (measured on 49 traces)


@dataclass(frozen=True)
class Lags:
    """What decides when each activity starts; in ns."""

    lag: Int64
    gap: Int64
    hop: int
    after: tuple[tuple[int, ...], ...]  # rows of other streams
    late: Int64


def lags(span: Span, rows: Enqueued) -> Lags:
    """Say of each activity what it waited for, with imputed times."""
    reference = np.where(rows.blocks, rows.begin, rows.end)
    lag, gap = _usual(span, rows, reference)
    lag[rows.follows] = 0
    gap[rows.follows] = np.maximum(rows.start - rows.before, 0)[rows.follows]
    first = _first_after_unheard(span, rows)
    gap[first] = 0  # what was before is taken to end where it begins
    there, near = reference + lag, nearly(lag, gap, rows.first.astype(np.int8))
    behind = np.where(rows.before > there, gap, near)
    queued = np.where(rows.before > NEVER, rows.before + behind, NEVER)
    due = np.where(rows.before > there, queued, np.maximum(there, queued))
    known = ~rows.follows & ~first
    lateness = np.where(known, rows.start - due, 0)
    waits = recorded_waits(span, rows)
    waits = _with_inferred(rows, waits, lateness)
    until = _until(rows, waits)
    binding = (until > NEVER) & (lateness > LATE)
    hop = int(np.median((rows.start - until)[binding])) if binding.any() else 0
    hop = max(hop, 0)
    due = np.maximum(due, np.where(until > NEVER, until + hop, NEVER))
    left = np.where(known, rows.start - due, 0)
    late = np.where(left > LATE, left, 0)
    return Lags(lag, gap, hop, tuple(waits.get(row, ()) for row in range(len(rows))), late)


def _first_after_unheard(span: Span, rows: Enqueued) -> Bool:
    """Tell which activities were the first after work that was not recorded."""
    found = np.zeros(len(rows), bool)
    found[[rows.on[stream][0] for stream in unheard(span, rows)]] = True
    return found


def unexplained(rows: Enqueued, late: Int64) -> int:
    """Measure the time in which nothing ran because of what no edge explains, in ns."""
    held = np.flatnonzero(late)
    if not len(held):
        return 0
    acts = rows.acts
    device = acts.device[rows.at]
    total = 0
    for one in np.unique(device[held]).tolist():
        mine = held[device[held] == one]
        waited = union(rows.start[mine] - late[mine], rows.start[mine])
        there = acts.device == one
        ran = union(acts.start[there], acts.end[there])
        length = waited.end - waited.start
        total += int((length - overlap(ran, waited.start, waited.end)).sum())
    return total


def _usual(span: Span, rows: Enqueued, reference: Int64) -> tuple[Int64, Int64]:
    """Give each activity the lag and the gap that are usual for its like."""
    events, acts = span.joined.threads.trace.events, rows.acts
    name = events.name[rows.event].astype(np.int64)
    api = events.name[rows.call].astype(np.int64)
    kind = acts.kind[rows.at] * 2 + rows.blocks
    own, held = ~rows.follows & ~_first_after_unheard(span, rows), _held(rows)
    empty = own & rows.first & (rows.before <= rows.begin)
    between = own & rows.first & (rows.before > rows.begin) & (rows.before <= reference)
    size = _sizes(span, rows)
    seen = rows.start - reference
    lag = imputed(
        seen,
        (empty | between) & (rows.blocks | ~(held & (seen > LATE))),
        paired(paired(paired(api, kind), size), name),
        paired(paired(api, kind), size),
        paired(api, kind),
        kind,
    )
    queued = own & (rows.before > reference + lag)
    behind = np.where(rows.previous >= 0, rows.previous, 0)
    last = events.name[acts.event[behind]].astype(np.int64)
    inside = own & ~rows.first
    kinds = paired(acts.kind[behind], kind)
    here = np.arange(len(rows))
    place = here - np.maximum.accumulate(np.where(rows.first, here, 0))  # in its graph
    seen = np.maximum(rows.start - rows.before, 0)
    gap = imputed(
        seen,
        queued & ~(held & (seen > LATE)),
        paired(place, paired(last, name)),
        paired(paired(last, name), inside.astype(np.int64)),
        paired(kinds, inside.astype(np.int64)),
        kinds,
    )
    return lag, gap


def _held(rows: Enqueued) -> Bool:
    """Tell what may have waited for another stream: something ended there shortly before it."""
    since = rows.start - NEAR
    near = np.zeros(len(rows), np.int64)
    for sign, every in [(1, [np.arange(len(rows))]), (-1, rows.on)]:
        for mine in every:
            ends = np.sort(rows.stopped[mine])
            asked = mine if sign < 0 else slice(None)
            upto = np.searchsorted(ends, rows.start[asked], side="right")
            near[asked] += sign * (upto - np.searchsorted(ends, since[asked]))
    return near > 0


def _sizes(span: Span, rows: Enqueued) -> Int64:
    """Give the class of size of copies that are waited for: they are staged piece by piece."""
    trace = span.joined.threads.trace
    size = trace.gpu.bytes[trace.events.detail[rows.event]]
    log = np.log2(np.maximum(size, 1)).astype(np.int64)
    return np.where(rows.blocks & (size > 0), log, -1)


def _with_inferred(rows: Enqueued, waits: Waits, lateness: Int64) -> Waits:
    """Let what is late wait for what ended last on another stream, shortly before it started."""
    found = dict(waits)
    order = np.argsort(rows.stopped, kind="stable")
    ends = rows.stopped[order]
    late = np.flatnonzero((lateness > LATE) & ~rows.follows)
    late = late[~np.isin(late, np.fromiter(waits, np.int64, len(waits)))]
    lo = np.searchsorted(ends, rows.start[late] - NEAR)
    hi = np.searchsorted(ends, rows.start[late], side="right")
    for row, first, last in zip(late.tolist(), lo.tolist(), hi.tolist(), strict=True):
        near = order[first:last][::-1]
        other = (rows.stream[near] != rows.stream[row]) & (near < row)
        if other.any():
            found[row] = (int(near[int(other.argmax())]),)
    return found


def _until(rows: Enqueued, waits: Waits) -> Int64:
    """Give the latest end of what each row waits for, NEVER."""
    until = np.full(len(rows), NEVER)
    if not waits:
        return until
    waiting = np.repeat(list(waits), [len(others) for others in waits.values()])
    others = np.array([one for each in waits.values() for one in each], np.int64)
    np.maximum.at(until, waiting, rows.stopped[others])
    return until
