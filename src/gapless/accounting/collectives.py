"""Collectives over ranks: who came last, and how long the others waited (docs: the account, 4).

A collective is known on every rank by its process group and sequence number. Writers that leave the
number out (torch 2.11 among them) are matched by order, and only if all ranks of the group ran the
same sequence of the same collectives. Clocks are aligned by the median over collectives of the
difference of their ends, since a collective ends everywhere at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import COMM, Activities, activities
from gapless.accounting.charges import Charges, stacked
from gapless.accounting.intervals import empty
from gapless.accounting.threads import threads
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Int64, Trace

_QUANTILE = 0.1  # of the durations of like collectives: taken for the transfer alone
_EXPOSED = LEAF["comm.exposed"]
_STRAGGLER, _ESTIMATED = LEAF["comm.straggler_wait"], LEAF["comm.wait_estimated"]


@dataclass(frozen=True)
class Collectives:
    """The communication kernels of one rank that name their collective, in order of start."""

    rank: int | None
    origin_ns: int
    event: Int64
    start: Int64
    end: Int64
    what: tuple[Collective, ...]


@dataclass(frozen=True)
class Arrivals:
    """For communication kernels of one rank: when and which rank came last, on its own axis."""

    event: Int64
    last: Int64
    rank: Int64
    matched: int  # collectives that all ranks of their group are known for
    unmatched: int
    by_order: bool  # matched without sequence numbers


NO_ARRIVALS = Arrivals(empty(), empty(), empty(), 0, 0, by_order=False)


def collectives(trace: Trace) -> Collectives:
    """Collect what ``match`` needs of one rank: small, so that many ranks fit in memory."""
    acts = activities(trace, threads(trace))
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    rows = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    rows = rows[np.argsort(acts.start[rows], kind="stable")]
    which: list[int] = detail[rows].tolist()
    what = tuple(trace.collectives[at] for at in which)
    return Collectives(
        trace.rank, trace.origin_ns, acts.event[rows], acts.start[rows], acts.end[rows], what
    )


def match(ranks: Sequence[Collectives]) -> tuple[Arrivals, ...]:
    """Find for each rank's collectives when the last rank of the group came."""
    keyed = [_keys(one) for one in ranks]
    by_order = any(not numbered for _, numbered in keyed)
    tables = [dict(zip(keys, range(len(keys)), strict=True)) for keys, _ in keyed]
    common = [key for key in tables[0] if _complete(key, ranks, tables)] if ranks else []
    common = common if not by_order or _same_order(ranks) else []
    if len(ranks) <= 1 or not common:
        return tuple(replace(NO_ARRIVALS, unmatched=len(one.what)) for one in ranks)
    rows = np.array([[table[key] for key in common] for table in tables], np.int64)
    start = np.stack([one.start[row] for one, row in zip(ranks, rows, strict=True)])
    end = np.stack([one.end[row] for one, row in zip(ranks, rows, strict=True)])
    apart = end - end[0]  # own axis less the first rank's: may be too large for exact floats
    near = apart[:, :1]
    offset = near[:, 0] + np.median(apart - near, axis=1).round().astype(np.int64)
    aligned = start - offset[:, None]
    last, late = aligned.max(axis=0), aligned.argmax(axis=0)
    numbers = np.array([at if one.rank is None else one.rank for at, one in enumerate(ranks)])
    return tuple(
        Arrivals(
            one.event[row],
            last + offset[at],
            numbers[late],
            len(common),
            len(one.what) - len(common),
            by_order,
        )
        for at, (one, row) in enumerate(zip(ranks, rows, strict=True))
    )


def _keys(one: Collectives) -> tuple[list[tuple[str | None, int, int]], bool]:
    """Give the key (group, number, repetition) of each collective.

    Also tell whether all of them have a sequence number.
    """
    numbered = all(what.seq is not None for what in one.what)
    seen: dict[tuple[str | None, int], int] = {}
    keys = list[tuple[str | None, int, int]]()
    for what in one.what:
        head = (what.group, what.seq if numbered and what.seq is not None else 0)
        keys.append((*head, seen.get(head, 0)))
        seen[head] = seen.get(head, 0) + 1
    return keys, numbered


def _complete(
    key: tuple[str | None, int, int],
    ranks: Sequence[Collectives],
    tables: Sequence[dict[tuple[str | None, int, int], int]],
) -> bool:
    """Tell whether every rank ran a collective, and these are all the ranks of its group."""
    if not all(key in table for table in tables):
        return False
    return all(
        one.what[table[key]].group_size in (None, len(ranks))
        for one, table in zip(ranks, tables, strict=True)
    )


def _same_order(ranks: Sequence[Collectives]) -> bool:
    def sequence(one: Collectives) -> list[Collective]:
        return [replace(what, seq=None) for what in one.what]

    first = sequence(ranks[0])
    return all(sequence(one) == first for one in ranks[1:])


@dataclass(frozen=True)
class Transfers:
    """For each activity when its transfer began, the leaf of the time before, who was late (−1)."""

    begins: Int64
    leaf: Int64
    peer: Int64


def split(owned: Charges, acts: Activities, arrived: Transfers) -> Charges:
    """Cut what communication owns (``query``: position in ``acts``) into waiting and transfer."""
    comm = acts.kind[owned.query] == COMM
    if not comm.any():
        return owned
    mine = owned.take(comm)
    middle = np.clip(arrived.begins[mine.query], mine.start, mine.end)
    leaf, peer = arrived.leaf[mine.query], arrived.peer[mine.query]
    waiting = replace(mine, end=middle, leaf=leaf, peer=np.where(leaf == _STRAGGLER, peer, -1))
    moving = replace(mine, start=middle, leaf=np.full(len(mine), _EXPOSED))
    parts = [one.take(one.end > one.start) for one in (waiting, moving)]
    return stacked([owned.take(~comm), *parts])


def transfers(acts: Activities, trace: Trace, arrivals: Arrivals) -> Transfers:
    """Tell waiting from transfer: by the last rank's arrival, else by the quickest of its like."""
    begins, leaf = acts.start.copy(), np.full(len(acts), _STRAGGLER)
    peer = np.full(len(acts), -1)
    for like in _alike(acts, trace):
        length = acts.end[like] - acts.start[like]
        transfer = np.quantile(length, _QUANTILE, method="lower").astype(np.int64)
        begins[like] = np.maximum(acts.end[like] - transfer, acts.start[like])
        leaf[like] = _ESTIMATED
    order = np.argsort(arrivals.event)
    known = arrivals.event[order]
    if len(known):
        at = np.minimum(np.searchsorted(known, acts.event), len(known) - 1)
        rows = np.flatnonzero(known[at] == acts.event)
        last = arrivals.last[order][at[rows]]
        begins[rows] = np.clip(last, acts.start[rows], acts.end[rows])
        leaf[rows], peer[rows] = _STRAGGLER, arrivals.rank[order][at[rows]]
    return Transfers(begins, leaf, peer)


def _alike(acts: Activities, trace: Trace) -> list[Int64]:
    """Group the communication kernels of the same collective, size and process group."""
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    groups: dict[Collective, list[int]] = {}
    named = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    which: list[int] = detail[named].tolist()
    for row, at in zip(named.tolist(), which, strict=True):
        groups.setdefault(replace(trace.collectives[at], seq=None), []).append(row)
    return [np.array(rows, np.int64) for rows in groups.values()]
