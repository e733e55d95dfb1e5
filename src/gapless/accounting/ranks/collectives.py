"""Collectives over ranks: who came last, and how long the others waited (docs: the account, 4).

A collective is known on every rank by its process group and sequence number. Writers that leave the
number out (torch 2.11 among them) are matched by order, and only if all ranks of the group ran the
same sequence of the same collectives; in windows of a recorded run, whose steps are known, within
each step that all ranks recorded. Clocks are aligned by the ends of collectives (``clock_lines``).
"""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.accounting.device.activities import COMM, collect_activities
from gapless.accounting.host.steps import find_steps
from gapless.accounting.host.threads import Threads, sort_threads
from gapless.accounting.intervals import empty_column
from gapless.accounting.ranks.clock_lines import ClockLine, fit_clock
from gapless.accounting.ranks.gloo import host_collectives
from gapless.model.trace import Collective, Int64, Trace


class Collectives(Struct, frozen=True):
    """The communication kernels of one rank that name their collective, in order of start.

    Without a device: what threads of the host carry out.
    """

    rank: int | None
    origin_ns: int
    event: Int64
    start: Int64
    end: Int64
    calls: tuple[Collective, ...]
    step: Int64  # of the run, in which it was launched; −1: not known


class Arrivals(Struct, frozen=True):
    """For communication kernels of one rank: when and which rank came last, on its own axis."""

    event: Int64
    last_start: Int64
    rank: Int64
    n_matched: int  # collectives that all ranks of their group are known for
    n_unmatched: int
    by_order: bool  # matched without sequence numbers
    meeting: Int64 = field(default_factory=empty_column)  # the same number on all ranks that meet


NO_ARRIVALS = Arrivals(empty_column(), empty_column(), empty_column(), 0, 0, by_order=False)


def gather_collectives(trace: Trace, first_step: int | None = None) -> Collectives:
    """Collect what ``match_collectives`` needs of a rank: small, so that many fit in memory.

    ``first_step`` is the number that the first step of the capture has in its run.
    """
    host_threads = sort_threads(trace)
    acts = collect_activities(trace, host_threads)
    if not len(acts):
        on_host = host_collectives(host_threads)
        return Collectives(
            trace.rank,
            trace.origin_ns,
            on_host.event,
            on_host.start,
            on_host.end,
            on_host.calls,
            _run_steps(host_threads, on_host.start, first_step),
        )
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    rows = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    rows = rows[np.argsort(acts.start[rows], kind="stable")]
    indices: list[int] = detail[rows].tolist()
    return Collectives(
        trace.rank,
        trace.origin_ns,
        acts.event[rows],
        acts.start[rows],
        acts.end[rows],
        tuple(trace.collectives[index] for index in indices),
        _run_steps(host_threads, acts.call_start[rows], first_step),
    )


def _run_steps(host_threads: Threads, instants: Int64, first_step: int | None) -> Int64:
    """Return the step of the run that each instant lies in, −1 where that is not known."""
    steps = None if first_step is None else find_steps(host_threads)
    if first_step is None or steps is None or steps.numbers is None:
        return np.full(len(instants), -1)
    position = np.searchsorted(steps.boundaries, instants, side="right") - 1
    return np.where((position >= 0) & (position < len(steps.numbers)), first_step + position, -1)


_GroupKey = tuple[str | None, str | None]  # a process group: its name and its ranks, as written


class _Member(Struct, frozen=True):
    """A rank's collectives in one process group: which rank (position), and which of its own."""

    rank_index: int
    rows: list[int]


def match_collectives(captures: Sequence[Collectives]) -> tuple[Arrivals, ...]:
    """Find for each rank's collectives when the last rank of their process group came."""
    groups: dict[_GroupKey, list[_Member]] = {}
    for rank_index, capture in enumerate(captures):
        for group, rows in _rows_by_group(capture).items():
            groups.setdefault(group, []).append(_Member(rank_index, rows))
    arrivals_by_rank: list[list[Arrivals]] = [[] for _ in captures]
    n_meetings = 0
    for members in groups.values():
        for member, arrivals in zip(members, _match_group(members, captures), strict=True):
            numbered = replace(arrivals, meeting=arrivals.meeting + n_meetings)
            arrivals_by_rank[member.rank_index].append(numbered)
        n_meetings += max(len(member.rows) for member in members)
    return tuple(_concatenate(pieces) for pieces in arrivals_by_rank)


def pair_ends(first: Collectives, second: Collectives) -> tuple[Int64, Int64]:
    """Return when the collectives that two ranks have in common ended, each on its own axis.

    Their process groups need not be complete. Empty where nothing shows which belong together.
    """
    seconds_by_group = _rows_by_group(second)
    pairs: list[tuple[int, int]] = []
    for group, rows in _rows_by_group(first).items():
        members = [_Member(0, rows), _Member(1, seconds_by_group.get(group, []))]
        captures = (first, second)
        numbered, stepped = _match_manner(members, captures)
        if not members[1].rows or not (numbered or stepped or _has_same_order(members, captures)):
            continue
        tables = [
            _key_rows(member.rows, _match_heads(captures[member.rank_index], numbered, stepped))
            for member in members
        ]
        pairs += [(tables[0][key], tables[1][key]) for key in _common_keys(tables, stepped=stepped)]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return first.end[rows[:, 0]], second.end[rows[:, 1]]


def _match_manner(members: Sequence[_Member], captures: Sequence[Collectives]) -> tuple[bool, bool]:
    """Return whether collectives are matched by their numbers, and whether by their steps."""
    pairs = [(captures[member.rank_index], member) for member in members]
    numbered = all(
        capture.calls[row].seq is not None for capture, member in pairs for row in member.rows
    )
    stepped = not numbered and all(
        (capture.step[member.rows] >= 0).any() for capture, member in pairs
    )
    return numbered, stepped


def _rows_by_group(capture: Collectives) -> dict[_GroupKey, list[int]]:
    rows_by_group: dict[_GroupKey, list[int]] = {}
    for row, call in enumerate(capture.calls):
        rows_by_group.setdefault((call.group, call.ranks), []).append(row)
    return rows_by_group


def _concatenate(pieces: Sequence[Arrivals]) -> Arrivals:
    all_pieces = [NO_ARRIVALS, *pieces]
    return Arrivals(
        np.concatenate([piece.event for piece in all_pieces]),
        np.concatenate([piece.last_start for piece in all_pieces]),
        np.concatenate([piece.rank for piece in all_pieces]),
        sum(piece.n_matched for piece in all_pieces),
        sum(piece.n_unmatched for piece in all_pieces),
        any(piece.by_order for piece in all_pieces),
        np.concatenate([piece.meeting for piece in all_pieces]),
    )


def _match_group(members: Sequence[_Member], captures: Sequence[Collectives]) -> list[Arrivals]:
    """Match the collectives of one process group, if all of its ranks are there."""
    group_captures = [captures[member.rank_index] for member in members]
    pairs = list(zip(group_captures, members, strict=True))
    numbered, stepped = _match_manner(members, captures)
    tables = [
        _key_rows(member.rows, _match_heads(capture, numbered, stepped))
        for capture, member in pairs
    ]
    is_alike = numbered or stepped or _has_same_order(members, captures)
    common = (
        _common_keys(tables, stepped=stepped)
        if _is_complete(members, captures) and is_alike
        else []
    )
    rows = np.array([[table[key] for key in common] for table in tables], np.int64)
    if not common:
        return [replace(NO_ARRIVALS, n_unmatched=len(member.rows)) for member in members]
    start = np.stack(
        [capture.start[row] for capture, row in zip(group_captures, rows, strict=True)]
    )
    end = np.stack([capture.end[row] for capture, row in zip(group_captures, rows, strict=True)])
    lines = [fit_clock(end[0], rank_end) for rank_end in end]
    aligned = _align(start, lines)
    last_start, latest = aligned.max(axis=0), aligned.argmax(axis=0)
    is_met = last_start < _align(end, lines).min(axis=0)
    is_met |= _is_named_group(members, captures)  # else they may be of two groups, which never meet
    rank_numbers = np.array(
        [
            member.rank_index if capture.rank is None else capture.rank
            for capture, member in zip(group_captures, members, strict=True)
        ]
    )
    return [
        Arrivals(
            capture.event[row[is_met]],
            lines[index].from_reference(last_start[is_met]),
            rank_numbers[latest[is_met]],
            int(is_met.sum()),
            len(members[index].rows) - int(is_met.sum()),
            not numbered and not stepped,
            np.flatnonzero(is_met),
        )
        for index, (capture, row) in enumerate(zip(group_captures, rows, strict=True))
    ]


def _align(instants: Int64, lines: Sequence[ClockLine]) -> Int64:
    return np.stack([line.to_reference(row) for line, row in zip(lines, instants, strict=True)])


_Key = tuple[Hashable, int]  # what distinguishes a collective, and which of those alike it is


def _match_heads(capture: Collectives, numbered: bool, stepped: bool) -> list[Hashable]:  # noqa: FBT001
    """Return what a collective is known by on all ranks: its number, its step and kind, or nothing.

    ``None``: it cannot be matched.
    """
    if numbered:
        return [call.seq for call in capture.calls]
    if not stepped:
        return [0] * len(capture.calls)
    steps: list[int] = capture.step.tolist()
    return [
        (step, replace(call, seq=None)) if step >= 0 else None
        for step, call in zip(steps, capture.calls, strict=True)
    ]


def _key_rows(rows: Sequence[int], heads: Sequence[Hashable]) -> dict[_Key, int]:
    counts = Counter[Hashable]()
    rows_by_key: dict[_Key, int] = {}
    for row in rows:
        head = heads[row]
        if head is not None:
            rows_by_key[head, counts[head]] = row
            counts[head] += 1
    return rows_by_key


def _common_keys(tables: Sequence[dict[_Key, int]], *, stepped: bool) -> list[_Key]:
    """Return what all ranks have; of a step only what they have equally often."""
    common = [key for key in tables[0] if all(key in table for table in tables)]
    if not stepped:
        return common
    counts = [Counter(head for head, _ in table) for table in tables]
    return [key for key in common if len({count[key[0]] for count in counts}) == 1]


def _is_named_group(members: Sequence[_Member], captures: Sequence[Collectives]) -> bool:
    member = members[0]
    call = captures[member.rank_index].calls[member.rows[0]]
    return call.group is not None or call.ranks is not None


def _is_complete(members: Sequence[_Member], captures: Sequence[Collectives]) -> bool:
    """Return whether these are all ranks of a group; of one of unknown size, all that are known."""
    member = members[0]
    size = captures[member.rank_index].calls[member.rows[0]].group_size
    return len(members) > 1 and len(members) == (len(captures) if size is None else size)


def _has_same_order(members: Sequence[_Member], captures: Sequence[Collectives]) -> bool:
    def call_sequence(member: _Member) -> list[Collective]:
        return [replace(captures[member.rank_index].calls[row], seq=None) for row in member.rows]

    reference = call_sequence(members[0])
    return all(call_sequence(member) == reference for member in members[1:])
