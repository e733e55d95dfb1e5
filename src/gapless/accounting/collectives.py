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


_Group = tuple[str | None, str | None]  # a process group: its name and its ranks, as written


@dataclass(frozen=True)
class _Member:
    """A rank's collectives in one process group: which rank (position), and which of its own."""

    at: int
    rows: list[int]


def match(ranks: Sequence[Collectives]) -> tuple[Arrivals, ...]:
    """Find for each rank's collectives when the last rank of their process group came."""
    groups: dict[_Group, list[_Member]] = {}
    for at, one in enumerate(ranks):
        for group, rows in _by_group(one).items():
            groups.setdefault(group, []).append(_Member(at, rows))
    found: list[list[Arrivals]] = [[] for _ in ranks]
    for members in groups.values():
        for member, arrivals in zip(members, _matched(members, ranks), strict=True):
            found[member.at].append(arrivals)
    return tuple(_put_together(parts) for parts in found)


def _by_group(one: Collectives) -> dict[_Group, list[int]]:
    found: dict[_Group, list[int]] = {}
    for row, what in enumerate(one.what):
        found.setdefault((what.group, what.ranks), []).append(row)
    return found


def _put_together(parts: Sequence[Arrivals]) -> Arrivals:
    every = [NO_ARRIVALS, *parts]
    return Arrivals(
        np.concatenate([part.event for part in every]),
        np.concatenate([part.last for part in every]),
        np.concatenate([part.rank for part in every]),
        sum(part.matched for part in every),
        sum(part.unmatched for part in every),
        any(part.by_order for part in every),
    )


def _matched(members: Sequence[_Member], ranks: Sequence[Collectives]) -> list[Arrivals]:
    """Match the collectives of one process group, if all of its ranks are there."""
    own = [ranks[member.at] for member in members]
    numbered = all(
        one.what[row].seq is not None
        for one, member in zip(own, members, strict=True)
        for row in member.rows
    )
    common: list[tuple[int, int]] = []
    tables = [
        _numbers(one, member.rows, numbered) for one, member in zip(own, members, strict=True)
    ]
    if _is_whole(members, ranks) and (numbered or _same_order(members, ranks)):
        common = [key for key in tables[0] if all(key in table for table in tables)]
    if not common:
        return [replace(NO_ARRIVALS, unmatched=len(member.rows)) for member in members]
    rows = np.array([[table[key] for key in common] for table in tables], np.int64)
    start = np.stack([one.start[row] for one, row in zip(own, rows, strict=True)])
    end = np.stack([one.end[row] for one, row in zip(own, rows, strict=True)])
    apart = end - end[0]  # own axis less the first rank's: may be too large for exact floats
    near = apart[:, :1]
    offset = near[:, 0] + np.median(apart - near, axis=1).round().astype(np.int64)
    aligned = start - offset[:, None]
    last, late = aligned.max(axis=0), aligned.argmax(axis=0)
    numbers = np.array(
        [
            member.at if one.rank is None else one.rank
            for one, member in zip(own, members, strict=True)
        ]
    )
    return [
        Arrivals(
            one.event[row],
            last + offset[at],
            numbers[late],
            len(common),
            len(members[at].rows) - len(common),
            not numbered,
        )
        for at, (one, row) in enumerate(zip(own, rows, strict=True))
    ]


def _numbers(one: Collectives, rows: Sequence[int], numbered: bool) -> dict[tuple[int, int], int]:  # noqa: FBT001
    """Give the collective of each (sequence number, repetition); without numbers, of each place."""
    seen: dict[int, int] = {}
    found: dict[tuple[int, int], int] = {}
    for row in rows:
        number = one.what[row].seq if numbered else None
        head = 0 if number is None else number
        found[head, seen.get(head, 0)] = row
        seen[head] = seen.get(head, 0) + 1
    return found


def _is_whole(members: Sequence[_Member], ranks: Sequence[Collectives]) -> bool:
    """Tell whether these are all ranks of a group; of one of unknown size, all that are known."""
    first = members[0]
    size = ranks[first.at].what[first.rows[0]].group_size
    return len(members) > 1 and len(members) == (len(ranks) if size is None else size)


def _same_order(members: Sequence[_Member], ranks: Sequence[Collectives]) -> bool:
    def sequence(member: _Member) -> list[Collective]:
        return [replace(ranks[member.at].what[row], seq=None) for row in member.rows]

    first = sequence(members[0])
    return all(sequence(member) == first for member in members[1:])


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
