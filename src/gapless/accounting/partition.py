"""Trace → ledger: the whole of the account's definition, put together."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gapless.accounting.activities import Activities, activities, clock_error
from gapless.accounting.ahead import ahead
from gapless.accounting.busy import busy
from gapless.accounting.charges import Charges, stacked
from gapless.accounting.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.devices import charged, tiled
from gapless.accounting.facets import Beneath, beneath, phases, recomputes
from gapless.accounting.host import Host, host
from gapless.accounting.hostrow import host_pieces
from gapless.accounting.intervals import empty
from gapless.accounting.memory import give_back
from gapless.accounting.peers import explain, ties
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.accounting.steps import Steps, find_steps
from gapless.accounting.threads import Threads, threads
from gapless.accounting.windows import cut, left_out, windows
from gapless.model.ledger import Facets, Ledger, Row
from gapless.model.trace import Count, Int64, Trace

_COLUMNS = {  # of a ledger, in the smallest types that hold them: millions of pieces are normal
    "row": np.int32,
    "start": np.int64,
    "end": np.int64,
    "leaf": np.uint8,
    "culprit": np.int32,
}
_FACETS = {
    "under": np.int8,
    "refill": np.int32,
    "phase": np.uint8,
    "recompute": np.uint8,
    "why": np.uint8,
    "peer": np.int32,
    "hidden_comm": np.int32,
    "hidden_copy": np.int32,
}
_OF_ACTIVITIES = ("phase", "recompute", "why")
_WIDE = np.iinfo(np.int32).max  # ns: what is hidden beneath a piece is seldom two seconds
_Slab = dict[str, npt.NDArray[Any]]  # a part of a ledger: its columns by name


@dataclass(frozen=True)
class Joined:
    """A trace's activities joined with its host side: what partition and tables both start from."""

    threads: Threads
    activities: Activities

    @cached_property
    def known(self) -> dict[str, Int64]:
        """Give what is known of each activity whatever the host did: its class, its facets."""
        side, acts = self.threads, self.activities
        classes, why = busy(side, acts)
        phase = phases(side, acts.thread, acts.call_start, acts.operator)
        again = recomputes(side, acts.thread, acts.call_start)
        return {"class": classes, "phase": phase, "recompute": again, "why": why}


def join(trace: Trace) -> Joined:
    """Join a trace's activities with their launches and operators."""
    side = threads(trace)
    return Joined(side, activities(trace, side))


def partition(
    trace: Trace,
    arrivals: Arrivals = NO_ARRIVALS,
    stages: Stages = NO_STAGES,
    *,
    joined: Joined | None = None,
) -> Ledger:
    """Charge every nanosecond of every window of a trace to one leaf.

    ``arrivals`` tells when the last rank came to each collective (``collectives.match``),
    ``stages`` what the loader's workers did (own recordings); ``joined`` saves joining again. A
    capture without devices is charged on its training thread; one without any interval gives a
    ledger without rows.
    """
    joined = joined or join(trace)
    steps = find_steps(joined.threads)
    if steps is None:
        return _ledger(joined, Steps(empty(), None, "none"), _Parts([], [], ()))
    parts = _parts(joined, steps, arrivals, stages)
    give_back()
    return _ledger(joined, steps, parts)


@dataclass(frozen=True)
class _Parts:
    """A ledger in parts: its rows, batches of its columns, and notes."""

    rows: list[Row]
    slabs: list[_Slab]
    notes: tuple[Count, ...]


def _parts(joined: Joined, steps: Steps, arrivals: Arrivals, stages: Stages) -> _Parts:
    """Charge a trace device by device, batch by batch; what that needs is freed on return."""
    trace, acts = joined.threads.trace, joined.activities
    give_back()
    with ThreadPoolExecutor(1) as pool:  # NumPy lets the other thread run meanwhile
        known = pool.submit(lambda: joined.known)
        asked = host(joined.threads, acts, stages)
    joined.threads.forget()
    give_back()
    notes = _notes(asked, arrivals)
    if not len(acts):
        rows = _rows(trace, None, steps.boundaries, steps)
        return _Parts(rows, [_on_host(asked, steps, arrivals)], notes)
    rows, slabs = list[Row](), list[_Slab]()
    lost = cut(steps.boundaries, trace, acts)
    for device, bounds, batches in _on_devices(asked, acts, steps, arrivals, known.result()):
        for slab in batches:
            slab["row"] += len(rows)
            slabs.append(slab)
        rows += _rows(trace, device, bounds, steps, lost)
    return _Parts(rows, slabs, notes)


def _on_devices(
    asked: Host, acts: Activities, steps: Steps, arrivals: Arrivals, known: dict[str, Int64]
) -> Iterator[tuple[int, Int64, Iterator[_Slab]]]:
    """Give each device with its windows and the parts of its ledger."""
    tied = ties(asked.threads.trace, acts)
    own = {device: acts.of(device) for device in np.unique(acts.device).tolist()}
    bounds = {device: windows(steps.boundaries, mine) for device, mine in own.items()}

    def batches(device: int) -> Iterator[Charges]:
        here = known["class"][acts.device == device]
        return charged(own[device], here, asked, bounds[device], arrivals)

    whole = {device: stacked(list(batches(device))) for device in own} if len(tied) else {}
    for device, mine in own.items():
        parts = iter([explain(whole[device], tied, whole)]) if whole else batches(device)
        own_facets = {name: known[name][acts.device == device] for name in _OF_ACTIVITIES}
        finish = partial(_slab, mine, bounds[device], own_facets, beneath(mine))
        yield device, bounds[device], ahead(finish, parts)


def _slab(
    acts: Activities, bounds: Int64, facets: dict[str, Int64], below: Beneath, every: Charges
) -> _Slab:
    """Give the columns of what a device is charged with; facets are its activities'."""
    made = tiled(acts, every, bounds, below)
    owner = made.activity
    known = {name: np.where(owner >= 0, column[owner], 0) for name, column in facets.items()}
    hidden = {"hidden_comm": made.hidden_comm, "hidden_copy": made.hidden_copy}
    return _columns(made.pieces, known | hidden)


def _on_host(asked: Host, steps: Steps, arrivals: Arrivals) -> _Slab:
    made = host_pieces(asked, steps.boundaries, arrivals)
    start, nothing = made.pieces.start, np.zeros(len(made.pieces), np.int64)
    known = {
        "phase": phases(asked.threads, made.thread, start, made.pieces.culprit),
        "recompute": recomputes(asked.threads, made.thread, start),
        "why": nothing,
        "hidden_comm": nothing,
        "hidden_copy": nothing,
    }
    return _columns(made.pieces, known)


def _columns(pieces: Charges, facets: dict[str, Int64]) -> _Slab:
    every = {**vars(pieces), **facets, "row": pieces.query}
    hidden = {name for name in ("hidden_comm", "hidden_copy") if every[name].max(initial=0) > _WIDE}
    kinds = _COLUMNS | _FACETS | dict.fromkeys(hidden, np.int64)
    return {name: every[name].astype(dtype) for name, dtype in kinds.items()}


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


def _ledger(joined: Joined, steps: Steps, parts: _Parts) -> Ledger:
    """Put the parts together; that they tile every row is checked here."""

    def column(name: str, dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
        pieces = [slab.pop(name) for slab in parts.slabs]
        whole = np.concatenate([np.empty(0, dtype), *pieces])
        del pieces
        give_back()  # so that one column is in memory twice, not all of them
        return whole

    has = joined.activities.call >= 0
    ledger = Ledger(
        rows=tuple(parts.rows),
        **{name: column(name, dtype) for name, dtype in _COLUMNS.items()},
        facets=Facets(**{name: column(name, dtype) for name, dtype in _FACETS.items()}),
        step_rule=steps.rule,
        main_track=joined.threads.main,
        launches_recorded=float(has.mean()) if len(has) else None,
        clock_error_ns=clock_error(joined.activities),
        notes=parts.notes,
    )
    _check(ledger)
    return ledger


def _rows(
    trace: Trace,
    device: int | None,
    bounds: Int64,
    steps: Steps,
    lost: frozenset[int] = frozenset(),
) -> list[Row]:
    """Give the rows of a device: one a window, marked where it is no regular step."""
    numbers = steps.numbers
    aside = left_out(len(numbers)) | lost if numbers is not None else frozenset[int]()
    return [
        Row(trace.rank, device, None if numbers is None else numbers[at], lo, hi, at in aside)
        for at, (lo, hi) in enumerate(itertools.pairwise(bounds.tolist()))
    ]


def _check(ledger: Ledger) -> None:
    """Assert that the pieces tile each row exactly: the sums of the account rest on it."""
    row, start, end = ledger.row, ledger.start, ledger.end
    new = row[1:] != row[:-1]
    head = np.flatnonzero(np.concatenate(([True], new)))[: len(row)]
    tail = np.append(head[1:], len(row))[: len(head)] - 1
    length = np.array([one.end - one.start for one in ledger.rows], np.int64)
    begins = np.array([one.start for one in ledger.rows], np.int64)[row[head]]
    tiles = (
        np.array_equal(row[head], np.flatnonzero(length))
        and np.array_equal(start[head], begins)
        and np.array_equal(end[tail], begins + length[row[head]])
        and bool(np.all(new | (start[1:] == end[:-1])))
    )
    if not tiles:
        msg = "the ledger does not tile its rows"
        raise AssertionError(msg)
