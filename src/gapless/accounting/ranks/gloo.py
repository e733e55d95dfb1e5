"""Collectives that threads of the host carry out, where there is no device (docs: the account, 10).

gloo marks each of them on the thread that carries it out. The training thread waits without a
frame, and what it waits for ends about when it goes on. What it sends to one other rank, or
receives from it, it waits for in the mark itself.
"""

import re
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gapless.accounting.charges import NO_CHARGES, Charges, make_charges
from gapless.accounting.host.steps import find_steps
from gapless.accounting.host.threads import Threads, user_ranges
from gapless.accounting.intervals import Lane, cover
from gapless.accounting.sweep import sweep_device
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Int64, Shape

_GLOO_RANGE: Final = re.compile(r"^gloo:")
_EXCHANGES: Final = ("gloo:send", "gloo:recv")
_EXCHANGE_CALLS: Final = ("c10d::send", "c10d::recv_")
_PEER_AT: Final = 2  # of their inputs: tensors, group, peer, tag
# Assumed: who waits may go on before the mark ends (2.7 ms was seen).
_MAX_LATE_NS: Final = 5_000_000


class HostCollectives(Struct, frozen=True):
    """Collectives on threads other than main, and its own exchanges, in order of start."""

    event: Int64
    start: Int64
    end: Int64
    calls: tuple[Collective, ...]
    # rows of the same kind: the same place among those of its name in a step
    alike_rows: list[Int64]


def host_collectives(threads: Threads) -> HostCollectives:
    """Return the collectives that the threads of a capture carried out."""
    events = threads.trace.events
    rows = user_ranges(threads.trace, _GLOO_RANGE)
    is_exchange = np.array([name in _EXCHANGES for name in threads.trace.names], bool)
    rows = rows[(events.track[rows] != threads.main) | is_exchange[events.name[rows]]]
    names: list[int] = events.name[rows].tolist()
    start, end = events.start[rows], events.end[rows]
    peers = _find_peers(threads, rows, is_exchange[events.name[rows]])
    calls = tuple(
        Collective(threads.trace.names[name], peer=peer)
        for name, peer in zip(names, peers, strict=True)
    )
    return HostCollectives(rows, start, end, calls, _alike_rows(threads, start, names))


def _find_peers(threads: Threads, rows: Int64, is_exchange: NDArray[np.bool_]) -> list[int | None]:
    """Return whom the main thread sends to or receives from, by the call that each mark lies in.

    ``None`` where inputs of operators were not recorded, and of collectives.
    """
    trace, events = threads.trace, threads.trace.events
    is_call = np.array([name in _EXCHANGE_CALLS for name in trace.names], bool)[events.name]
    calls = np.flatnonzero(is_call & (events.category == category.CPU_OP) & (events.detail >= 0))
    calls = calls[np.argsort(events.start[calls], kind="stable")]
    position = np.searchsorted(events.start[calls], events.start[rows], side="right") - 1
    return [
        _peer_of(trace.shapes[events.detail[calls[row]]]) if row >= 0 and exchanges else None
        for row, exchanges in zip(position.tolist(), is_exchange.tolist(), strict=True)
    ]


def _peer_of(shape: Shape) -> int | None:
    text = shape.concrete[_PEER_AT] if len(shape.concrete) > _PEER_AT else ""
    return int(text) if text.isdecimal() else None


def _alike_rows(threads: Threads, start: Int64, names: list[int]) -> list[Int64]:
    steps = find_steps(threads)
    bounds = start[:0] if steps is None else steps.boundaries
    step: list[int] = np.searchsorted(bounds, start, side="right").tolist()
    counts: dict[tuple[int, int], int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(step, names, strict=True)):
        ordinal = counts[key] = counts.get(key, -1) + 1
        groups.setdefault((key[1], ordinal), []).append(row)
    return [np.array(rows, np.int64) for rows in groups.values()]


def split_waits(collectives: HostCollectives, holes: Charges) -> tuple[Charges, Charges]:
    """Cut stretches in which main has no frame: what it waited for a collective, and the rest.

    It waited up to the last end of a collective in the stretch, or right after it: by no more than
    the stretch is long. Before another end it was at work meanwhile. ``query`` of the first is the
    row of ``collectives`` that came first of those under way.
    """
    ends = np.sort(collectives.end)
    if not len(ends):
        return NO_CHARGES, holes
    slack_ns = np.minimum(holes.end - holes.start, _MAX_LATE_NS)
    position = np.searchsorted(ends, holes.end + slack_ns, side="right") - 1
    wait_ends = np.where(position >= 0, np.minimum(ends[position], holes.end), holes.start)
    wait_ends = np.maximum(wait_ends, holes.start)
    lane = sweep_device(collectives.start, collectives.end, np.zeros(len(ends), np.int64))
    cut = cover(lane, holes.start, wait_ends)
    inside = cut.piece >= 0
    row = lane.owner[cut.piece[inside]]
    waits = make_charges(
        cut.start[inside], cut.end[inside], LEAF["comm.exposed"], collectives.event[row], query=row
    )
    return waits, _subtract_waits(holes, waits)


def _subtract_waits(holes: Charges, waits: Charges) -> Charges:
    cut = cover(Lane(waits.start, waits.end, waits.query), holes.start, holes.end)
    is_free = cut.piece < 0
    query = holes.query[cut.query[is_free]]
    return make_charges(cut.start[is_free], cut.end[is_free], 0, query=query)
