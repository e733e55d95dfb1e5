"""Trace → ledger: the whole of the account's definition, put together."""

import itertools
from dataclasses import dataclass

import numpy as np

from gapless.accounting.activities import Activities, activities, clock_error
from gapless.accounting.busy import busy
from gapless.accounting.charges import Charges, stacked
from gapless.accounting.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.devices import charged, tiled
from gapless.accounting.facets import phases, recomputes
from gapless.accounting.host import Host, host
from gapless.accounting.hostrow import host_pieces
from gapless.accounting.intervals import empty
from gapless.accounting.peers import explain, ties
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.accounting.steps import Steps, find_steps
from gapless.accounting.threads import Threads, threads
from gapless.accounting.windows import left_out, windows
from gapless.model.ledger import Facets, Ledger, Row
from gapless.model.trace import Count, Int64, Trace


@dataclass(frozen=True)
class _Part:
    """A device's (or the training thread's) pieces with facets; ``pieces.query``: the window."""

    device: int | None
    bounds: Int64
    pieces: Charges
    facets: Facets


def partition(trace: Trace, arrivals: Arrivals = NO_ARRIVALS, stages: Stages = NO_STAGES) -> Ledger:
    """Charge every nanosecond of every window of a trace to one leaf.

    ``arrivals`` tells when the last rank came to each collective (``collectives.match``),
    ``stages`` what the loader's workers did (own recordings). A capture without devices is charged
    on its training thread; one without any interval gives a ledger without rows.
    """
    side = threads(trace)
    acts = activities(trace, side)
    steps = find_steps(side)
    if steps is None:
        return _ledger(side, acts, Steps(empty(), None, "none"), [], ())
    asked = host(side, acts, stages)
    parts = [_on_host(asked, steps)] if not len(acts) else _on_devices(asked, acts, steps, arrivals)
    notes = _notes(asked, arrivals)
    return _ledger(side, acts, steps, parts, notes)


def _on_devices(asked: Host, acts: Activities, steps: Steps, arrivals: Arrivals) -> list[_Part]:
    classes, why = busy(asked.threads, acts)
    phase = phases(asked.threads, acts.thread, acts.call_start, acts.operator)
    again = recomputes(asked.threads, acts.thread, acts.call_start)
    found: dict[int, tuple[Activities, Int64, Charges]] = {}
    for device in np.unique(acts.device).tolist():
        own = acts.of(device)
        bounds = windows(steps.boundaries, own)
        charged_here = charged(own, classes[acts.device == device], asked, bounds, arrivals)
        found[device] = own, bounds, charged_here
    tied = ties(asked.threads.trace, acts)
    others = {device: every for device, (_, _, every) in found.items()}
    parts: list[_Part] = []
    for device, (own, bounds, every) in found.items():
        rows = acts.device == device
        made = tiled(own, explain(every, tied, others), bounds)
        owner = made.activity
        facets = Facets(
            under=made.pieces.under.astype(np.int32),
            refill=made.pieces.refill,
            phase=_of_owner(phase[rows], owner),
            recompute=_of_owner(again[rows], owner),
            why=_of_owner(why[rows], owner),
            peer=made.pieces.peer.astype(np.int32),
            hidden_comm=made.hidden_comm,
            hidden_copy=made.hidden_copy,
        )
        parts.append(_Part(device, bounds, made.pieces, facets))
    return parts


def _on_host(asked: Host, steps: Steps) -> _Part:
    made = host_pieces(asked, steps.boundaries)
    start, culprit = made.pieces.start, made.pieces.culprit
    nothing = np.zeros(len(start), np.int64)
    facets = Facets(
        under=made.pieces.under.astype(np.int32),
        refill=made.pieces.refill,
        phase=phases(asked.threads, made.thread, start, culprit).astype(np.uint8),
        recompute=recomputes(asked.threads, made.thread, start).astype(np.uint8),
        why=nothing.astype(np.uint8),
        peer=np.full(len(start), -1, np.int32),
        hidden_comm=nothing,
        hidden_copy=nothing,
    )
    return _Part(None, steps.boundaries, made.pieces, facets)


def _of_owner(column: Int64, owner: Int64) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Look a facet of activities up for each piece; 0 where the device was idle."""
    return np.where(owner >= 0, column[owner], 0).astype(np.uint8)


def _notes(asked: Host, arrivals: Arrivals) -> tuple[Count, ...]:
    found = (
        ("profiler overhead events that held no thread", asked.context.overhead_not_held),
        ("collectives matched over ranks", arrivals.matched),
        (
            "collectives matched over ranks by order, without Seq",
            arrivals.matched * arrivals.by_order,
        ),
        ("collectives without their counterpart on other ranks", arrivals.unmatched),
    )
    return tuple(Count(what, count) for what, count in found if count)


def _ledger(
    side: Threads, acts: Activities, steps: Steps, parts: list[_Part], notes: tuple[Count, ...]
) -> Ledger:
    """Put the parts together; that they tile every row is checked here."""
    first = np.cumsum([0, *(len(part.bounds) - 1 for part in parts)]).tolist()
    pieces = stacked([part.pieces for part in parts])
    row = [part.pieces.query + at for part, at in zip(parts, first, strict=False)]
    has = acts.call >= 0
    ledger = Ledger(
        rows=tuple(row for part in parts for row in _rows(side.trace, part, steps)),
        row=np.concatenate([np.empty(0, np.int64), *row]).astype(np.int32),
        start=pieces.start,
        end=pieces.end,
        leaf=pieces.leaf.astype(np.uint8),
        culprit=pieces.culprit,
        facets=_facets([part.facets for part in parts]),
        step_rule=steps.rule,
        main_track=side.main,
        launches_recorded=float(has.mean()) if len(has) else None,
        clock_error_ns=clock_error(acts),
        notes=notes,
    )
    _check(ledger)
    return ledger


def _rows(trace: Trace, part: _Part, steps: Steps) -> list[Row]:
    """Give the rows of one part: one a window, marked where it is no regular step."""
    bounds, numbers = part.bounds.tolist(), steps.numbers
    aside = left_out(len(numbers)) if numbers is not None else frozenset[int]()
    return [
        Row(trace.rank, part.device, None if numbers is None else numbers[at], lo, hi, at in aside)
        for at, (lo, hi) in enumerate(itertools.pairwise(bounds))
    ]


def _facets(parts: list[Facets]) -> Facets:
    """Put the facets of all parts into one set of columns."""
    empty_facets = Facets(
        *(np.empty(0, dtype) for dtype in ("i4", "i8", "u1", "u1", "u1", "i4", "i8", "i8"))
    )
    names = vars(empty_facets)
    return Facets(
        **{n: np.concatenate([vars(one)[n] for one in (empty_facets, *parts)]) for n in names}
    )


def _check(ledger: Ledger) -> None:
    """Assert that the pieces tile each row exactly: the sums of the account rest on it."""
    lengths = np.bincount(ledger.row, ledger.end - ledger.start, minlength=len(ledger.rows))
    wall = np.array([row.end - row.start for row in ledger.rows], np.float64)
    follows = (ledger.row[1:] != ledger.row[:-1]) | (ledger.start[1:] == ledger.end[:-1])
    first = np.flatnonzero(np.concatenate(([True], ledger.row[1:] != ledger.row[:-1])))[
        : len(ledger)
    ]
    begins = np.array([row.start for row in ledger.rows], np.int64)[ledger.row[first]]
    if not (
        np.array_equal(lengths, wall) and follows.all() and (ledger.start[first] == begins).all()
    ):
        msg = "the ledger does not tile its rows"
        raise AssertionError(msg)
