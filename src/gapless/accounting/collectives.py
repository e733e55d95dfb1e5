"""Collectives over ranks: who came last, and how long the others waited (docs: the account, 4).

A collective is known on every rank by its process group and sequence number. Writers that leave the
number out (torch 2.11 among them) are matched by order, and only if all ranks of the group ran the
same sequence of the same collectives; in windows of a recorded run, whose steps are known, within
each step that all ranks recorded. Clocks are aligned by the median over collectives of the
difference of their ends, since a collective ends everywhere at once.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import COMM, activities
from gapless.accounting.gloo import carried
from gapless.accounting.intervals import empty
from gapless.accounting.steps import find_steps
from gapless.accounting.threads import Threads, threads
from gapless.model.trace import Collective, Int64, Trace


@dataclass(frozen=True)
class Collectives:
    """The communication kernels of one rank that name their collective, in order of start.

    Without a device: what threads of the host carry out.
    """

    rank: int | None
    origin_ns: int
    event: Int64
    start: Int64
    end: Int64
    what: tuple[Collective, ...]
    step: Int64  # of the run, in which it was launched; −1: not known


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


def collectives(trace: Trace, first_step: int | None = None) -> Collectives:
    """Collect what ``match`` needs of one rank: small, so that many ranks fit in memory.

    ``first_step`` is the number that the first step of the capture has in its run.
    """
    side = threads(trace)
    acts = activities(trace, side)
    if not len(acts):
        own = carried(side)
        return Collectives(
            trace.rank,
            trace.origin_ns,
            own.event,
            own.start,
            own.end,
            own.what,
            _steps(side, own.start, first_step),
        )
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    rows = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    rows = rows[np.argsort(acts.start[rows], kind="stable")]
    which: list[int] = detail[rows].tolist()
    return Collectives(
        trace.rank,
        trace.origin_ns,
        acts.event[rows],
        acts.start[rows],
        acts.end[rows],
        tuple(trace.collectives[at] for at in which),
        _steps(side, acts.call_start[rows], first_step),
    )


def _steps(side: Threads, at: Int64, first: int | None) -> Int64:
    """Give the step of the run that each instant lies in, −1 where that is not known."""
    steps = None if first is None else find_steps(side)
    if first is None or steps is None or steps.numbers is None:
        return np.full(len(at), -1)
    place = np.searchsorted(steps.boundaries, at, side="right") - 1
    return np.where((place >= 0) & (place < len(steps.numbers)), first + place, -1)


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
    pairs = list(zip(own, members, strict=True))
    numbered = all(one.what[row].seq is not None for one, member in pairs for row in member.rows)
    stepped = not numbered and all((one.step[member.rows] >= 0).any() for one, member in pairs)
    tables = [_keyed(member.rows, _heads(one, numbered, stepped)) for one, member in pairs]
    alike = numbered or stepped or _same_order(members, ranks)
    common = _common(tables, stepped=stepped) if _is_whole(members, ranks) and alike else []
    rows = np.array([[table[key] for key in common] for table in tables], np.int64)
    if not common:
        return [replace(NO_ARRIVALS, unmatched=len(member.rows)) for member in members]
    start = np.stack([one.start[row] for one, row in zip(own, rows, strict=True)])
    end = np.stack([one.end[row] for one, row in zip(own, rows, strict=True)])
    apart = end - end[0]  # own axis less the first rank's: may be too large for exact floats
    near = apart[:, :1]
    offset = near[:, 0] + np.median(apart - near, axis=1).round().astype(np.int64)
    aligned = start - offset[:, None]
    last, late = aligned.max(axis=0), aligned.argmax(axis=0)
    met = last < (end - offset[:, None]).min(axis=0)
    met |= _is_named(members, ranks)  # else they may be of two groups, which never meet
    numbers = np.array(
        [
            member.at if one.rank is None else one.rank
            for one, member in zip(own, members, strict=True)
        ]
    )
    return [
        Arrivals(
            one.event[row[met]],
            last[met] + offset[at],
            numbers[late[met]],
            int(met.sum()),
            len(members[at].rows) - int(met.sum()),
            not numbered and not stepped,
        )
        for at, (one, row) in enumerate(zip(own, rows, strict=True))
    ]


_Key = tuple[Hashable, int]  # what tells a collective from others, and which of those alike


def _heads(one: Collectives, numbered: bool, stepped: bool) -> list[Hashable]:  # noqa: FBT001
    """Give what a collective is known by on all ranks: its number, its step and kind, or nothing.

    ``None``: it cannot be matched.
    """
    if numbered:
        return [what.seq for what in one.what]
    if not stepped:
        return [0] * len(one.what)
    steps: list[int] = one.step.tolist()
    return [
        (step, replace(what, seq=None)) if step >= 0 else None
        for step, what in zip(steps, one.what, strict=True)
    ]


def _keyed(rows: Sequence[int], heads: Sequence[Hashable]) -> dict[_Key, int]:
    seen = Counter[Hashable]()
    found: dict[_Key, int] = {}
    for row in rows:
        head = heads[row]
        if head is not None:
            found[head, seen[head]] = row
            seen[head] += 1
    return found


def _common(tables: Sequence[dict[_Key, int]], *, stepped: bool) -> list[_Key]:
    """Give what all ranks have; of a step only what they have equally often."""
    common = [key for key in tables[0] if all(key in table for table in tables)]
    if not stepped:
        return common
    counts = [Counter(head for head, _ in table) for table in tables]
    return [key for key in common if len({count[key[0]] for count in counts}) == 1]


def _is_named(members: Sequence[_Member], ranks: Sequence[Collectives]) -> bool:
    first = members[0]
    what = ranks[first.at].what[first.rows[0]]
    return what.group is not None or what.ranks is not None


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
