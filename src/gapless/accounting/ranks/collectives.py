"""Collectives over ranks: who came last, and how long the others waited (docs: the account, 4).

A collective is known on every rank by its process group and sequence number. Writers that leave the
number out (torch 2.11 among them) are matched by order, and only if all ranks of the group ran the
same sequence of the same collectives; in windows of a recorded run, whose steps are known, within
each step that all ranks recorded. What one of two ranks sends the other receives: neither goes on
before both have come. Of more ranks, the inputs of the call say who the other is. Clocks are
aligned by the ends of collectives (``clock_lines``).
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

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

_MIRRORED: Final = {
    "send": "recv",
    "recv": "send",
    "gloo:send": "gloo:recv",
    "gloo:recv": "gloo:send",
}


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


GroupKey = tuple[str | None, str | None]  # a process group: its name and its ranks, as written


def match_collectives(captures: Sequence[Collectives]) -> tuple[Arrivals, ...]:
    """Find for each rank's collectives when the last rank of their process group came."""
    members_by_group: dict[GroupKey, dict[int, Collectives]] = {}
    for index, capture in enumerate(captures):
        numbered = capture if capture.rank is not None else replace(capture, rank=index)
        for group, member in split_groups(numbered):
            members_by_group.setdefault(group, {})[index] = member
    arrivals_by_rank: list[list[Arrivals]] = [[] for _ in captures]
    first_meeting = 0
    for members in members_by_group.values():
        matched = match_group([*members.values()], len(captures), first_meeting)
        for index, arrivals in zip(members, matched, strict=True):
            arrivals_by_rank[index].append(arrivals)
        first_meeting += max(len(member.calls) for member in members.values())
    return tuple(join_arrivals(pieces) for pieces in arrivals_by_rank)


def split_groups(capture: Collectives) -> tuple[tuple[GroupKey, Collectives], ...]:
    """Return the collectives of each process group that a rank is in.

    Two ranks of which one sends to the other are a group of their own.
    """
    rows_by_group: dict[GroupKey, list[int]] = {}
    for row, call in enumerate(capture.calls):
        group = (call.group, _pair_ranks(capture.rank, call) or call.ranks)
        rows_by_group.setdefault(group, []).append(row)
    return tuple((group, _take(capture, rows)) for group, rows in rows_by_group.items())


def _pair_ranks(rank: int | None, call: Collective) -> str | None:
    """Return two ranks of a larger group that exchange; ``None`` for a collective of all."""
    if rank is None or call.peer is None or call.group_size == 2:  # noqa: PLR2004 - the group is it
        return None
    peer = _peer_rank(call.peer, call)
    return f"{rank} and another" if peer is None else str(sorted((rank, peer)))


def _peer_rank(peer: int, call: Collective) -> int | None:
    """Return the rank of all that a group numbers so; ``None``: that is not known.

    Of large groups the ranks between the first ones and the last are left out.
    """
    if call.ranks is None:
        return peer
    ranks = [int(digits) for digits in re.findall(r"\d+", call.ranks)]
    if call.group_size not in (None, len(ranks)):
        span = range(ranks[0], ranks[-1] + 1) if ranks else range(0)
        ranks = [*span] if len(span) == call.group_size else []
    return ranks[peer] if peer < len(ranks) else None


def _take(capture: Collectives, rows: list[int]) -> Collectives:
    return replace(
        capture,
        event=capture.event[rows],
        start=capture.start[rows],
        end=capture.end[rows],
        calls=tuple(_hide_peer(capture.calls[row]) for row in rows),
        step=capture.step[rows],
    )


def _hide_peer(call: Collective) -> Collective:
    """Return a call as both of a pair have it: each counts what it exchanges with others, too."""
    if call.peer is None:
        return call
    seq = call.seq if call.group_size == 2 else None  # noqa: PLR2004 - a group of two counts alike
    return replace(call, peer=None, group_size=2, seq=seq)


def pair_ends(first: Collectives, second: Collectives) -> tuple[Int64, Int64]:
    """Return when the collectives that two ranks have in common ended, each on its own axis.

    Their process groups need not be complete. Empty where nothing shows which belong together.
    """
    seconds_by_group = dict(split_groups(second))
    ends: list[tuple[Int64, Int64]] = [(empty_column(), empty_column())]
    for group, member in split_groups(first):
        peer = seconds_by_group.get(group)
        if peer is not None:
            rows = _match_rows([member, peer])
            ends.append((member.end[rows[0]], peer.end[rows[1]]))
    first_ends, second_ends = zip(*ends, strict=True)
    return np.concatenate(first_ends), np.concatenate(second_ends)


def _mirror_exchanges(captures: Sequence[Collectives]) -> Sequence[Collectives]:
    """Call what the second of two ranks does in an exchange what the first does in it."""
    if len(captures) != 2:  # noqa: PLR2004 - of more nobody knows whom others send to
        return captures
    first, second = captures
    calls = tuple(
        replace(call, name=_MIRRORED.get(call.name or "", call.name)) for call in second.calls
    )
    return first, replace(second, calls=calls)


def _match_manner(captures: Sequence[Collectives]) -> tuple[bool, bool]:
    """Return whether collectives are matched by their numbers, and whether by their steps."""
    numbered = all(call.seq is not None for capture in captures for call in capture.calls)
    return numbered, not numbered and all((capture.step >= 0).any() for capture in captures)


def _match_rows(captures: Sequence[Collectives]) -> Int64:
    """Return for each rank which of its collectives are the common ones, in the same order."""
    captures = _mirror_exchanges(captures)
    numbered, stepped = _match_manner(captures)
    if not (numbered or stepped or _has_same_order(captures)):
        return np.zeros((len(captures), 0), np.int64)
    tables = [_key_rows(_match_heads(capture, numbered, stepped)) for capture in captures]
    common = _common_keys(tables, stepped=stepped)
    return np.array([[table[key] for key in common] for table in tables], np.int64)


def join_arrivals(pieces: Sequence[Arrivals]) -> Arrivals:
    """Return the arrivals of a rank in all of its process groups."""
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


def match_group(
    captures: Sequence[Collectives], n_captures: int, first_meeting: int
) -> list[Arrivals]:
    """Match the collectives of one process group, if all of its ranks are there.

    ``captures`` are of these alone and each has its rank; ``n_captures`` counts all that there are.
    Meetings are numbered from ``first_meeting`` on.
    """
    rows = _match_rows(captures) if _is_complete(captures, n_captures) else None
    if rows is None or not rows.size:
        return [replace(NO_ARRIVALS, n_unmatched=len(capture.calls)) for capture in captures]
    start = np.stack([capture.start[row] for capture, row in zip(captures, rows, strict=True)])
    end = np.stack([capture.end[row] for capture, row in zip(captures, rows, strict=True)])
    lines = [fit_clock(end[0], rank_end) for rank_end in end]
    aligned = _align(start, lines)
    last_start, latest = aligned.max(axis=0), aligned.argmax(axis=0)
    is_met = last_start < _align(end, lines).min(axis=0)
    is_met |= _is_named_group(captures)  # else they may be of two groups, which never meet
    ranks = np.array([capture.rank for capture in captures])
    by_order = not any(_match_manner(captures))
    return [
        Arrivals(
            capture.event[row[is_met]],
            line.from_reference(last_start[is_met]),
            ranks[latest[is_met]],
            int(is_met.sum()),
            len(capture.calls) - int(is_met.sum()),
            by_order,
            np.flatnonzero(is_met) + first_meeting,
        )
        for capture, line, row in zip(captures, lines, rows, strict=True)
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


def _key_rows(heads: Sequence[Hashable]) -> dict[_Key, int]:
    counts = Counter[Hashable]()
    rows_by_key: dict[_Key, int] = {}
    for row, head in enumerate(heads):
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


def _is_named_group(captures: Sequence[Collectives]) -> bool:
    call = captures[0].calls[0]
    return call.group is not None or call.ranks is not None


def _is_complete(captures: Sequence[Collectives], n_captures: int) -> bool:
    """Return whether these are all ranks of a group; of one of unknown size, all that are known."""
    size = captures[0].calls[0].group_size
    return len(captures) > 1 and len(captures) == (n_captures if size is None else size)


def _has_same_order(captures: Sequence[Collectives]) -> bool:
    def call_sequence(capture: Collectives) -> list[Collective]:
        return [replace(call, seq=None) for call in capture.calls]

    reference = call_sequence(captures[0])
    return all(call_sequence(capture) == reference for capture in captures[1:])
