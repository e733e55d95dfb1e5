"""Trace → ledger: the whole of the account's definition, put together."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from gapless.accounting.ahead import map_ahead
from gapless.accounting.charges import Charges, stack_charges
from gapless.accounting.device.activities import Activities, clock_error, collect_activities
from gapless.accounting.device.busy import classify_activities
from gapless.accounting.device.devices import charge_device, tile_windows
from gapless.accounting.device.facets import (
    BackgroundLanes,
    background_lanes,
    find_phases,
    recompute_flags,
)
from gapless.accounting.device.windows import (
    device_windows,
    find_incomplete,
    find_searching,
    irregular_windows,
)
from gapless.accounting.host.host import HostSide, prepare_host
from gapless.accounting.host.host_row import host_pieces
from gapless.accounting.host.input_stages import find_input_stages
from gapless.accounting.host.stages import NO_STAGES, Stages
from gapless.accounting.host.steps import StepBounds, find_steps
from gapless.accounting.host.threads import Threads, sort_threads
from gapless.accounting.intervals import empty_column
from gapless.accounting.memory import release_memory
from gapless.accounting.ranks.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.ranks.peers import explain_waits, find_ties
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


class JoinedTrace(Struct, frozen=True, dict=True):
    """A trace's activities joined with its host side: what partition and tables both start from."""

    threads: Threads
    activities: Activities

    @cached_property
    def activity_facets(self) -> dict[str, Int64]:
        """Return what is known of each activity whatever the host did: its class, its facets."""
        host_threads, acts = self.threads, self.activities
        classes, why = classify_activities(host_threads, acts)
        phase = find_phases(host_threads, acts.thread, acts.call_start, acts.operator)
        recompute = recompute_flags(host_threads, acts.thread, acts.call_start)
        return {"class": classes, "phase": phase, "recompute": recompute, "why": why}


def join_trace(trace: Trace) -> JoinedTrace:
    """Join a trace's activities with their launches and operators."""
    host_threads = sort_threads(trace)
    return JoinedTrace(host_threads, collect_activities(trace, host_threads))


def partition(
    trace: Trace,
    arrivals: Arrivals = NO_ARRIVALS,
    stages: Stages = NO_STAGES,
    *,
    joined_trace: JoinedTrace | None = None,
) -> Ledger:
    """Charge every nanosecond of every window of a trace to one leaf.

    ``arrivals``: when the last rank came to each collective (``collectives.match_collectives``),
    ``stages`` what the loader's workers did (own recordings); ``joined_trace`` saves joining again.
    A capture without devices is charged on its training thread; one without any interval gives a
    ledger without rows.
    """
    joined_trace = joined_trace or join_trace(trace)
    steps = find_steps(joined_trace.threads)
    if steps is None:
        return _build_ledger(
            joined_trace, StepBounds(empty_column(), None, "none"), _LedgerParts([], [], ())
        )
    parts = _charge_trace(joined_trace, steps, arrivals, stages)
    release_memory()
    return _build_ledger(joined_trace, steps, parts)


class _LedgerParts(Struct, frozen=True):
    """A ledger in parts: its rows, batches of its columns, and notes."""

    rows: list[Row]
    slabs: list[_Slab]
    notes: tuple[Count, ...]


def _charge_trace(
    joined_trace: JoinedTrace, steps: StepBounds, arrivals: Arrivals, stages: Stages
) -> _LedgerParts:
    """Charge a trace device by device, batch by batch; what that needs is freed on return."""
    trace, acts = joined_trace.threads.trace, joined_trace.activities
    release_memory()
    with ThreadPoolExecutor(1) as pool:  # NumPy lets the other thread run meanwhile
        facets_job = pool.submit(lambda: joined_trace.activity_facets)
        own_stages = stages if len(stages.wait) else find_input_stages(joined_trace.threads)
        host_side = prepare_host(joined_trace.threads, acts, own_stages)
    joined_trace.threads.forget_operators()
    release_memory()
    notes = _make_notes(host_side, arrivals)
    if not len(acts):
        rows = _make_rows(trace, None, steps.boundaries, steps)
        return _LedgerParts(rows, [_charge_host(host_side, steps, arrivals)], notes)
    rows, slabs = list[Row](), list[_Slab]()
    odd_windows = find_incomplete(steps.boundaries, trace, acts)
    searching_windows = find_searching(steps.boundaries, trace, acts)
    count = len(steps.boundaries) - 1
    if len(irregular_windows(count) | odd_windows | searching_windows) < count:
        odd_windows |= searching_windows
    for device, bounds, batches in _charge_devices(
        host_side, acts, steps, arrivals, facets_job.result()
    ):
        for slab in batches:
            slab["row"] += len(rows)
            slabs.append(slab)
        rows += _make_rows(trace, device, bounds, steps, odd_windows)
    return _LedgerParts(rows, slabs, notes)


def _charge_devices(
    host_side: HostSide,
    acts: Activities,
    steps: StepBounds,
    arrivals: Arrivals,
    facets: dict[str, Int64],
) -> Iterator[tuple[int, Int64, Iterator[_Slab]]]:
    """Yield each device with its windows and the parts of its ledger."""
    peer_ties = find_ties(host_side.threads.trace, acts)
    acts_by_device = {device: acts.of_device(device) for device in np.unique(acts.device).tolist()}
    bounds = {
        device: device_windows(steps.boundaries, device_acts)
        for device, device_acts in acts_by_device.items()
    }

    def batches(device: int) -> Iterator[Charges]:
        classes = facets["class"][acts.device == device]
        return charge_device(acts_by_device[device], classes, host_side, bounds[device], arrivals)

    charges_by_device = (
        {device: stack_charges(list(batches(device))) for device in acts_by_device}
        if len(peer_ties)
        else {}
    )
    for device, device_acts in acts_by_device.items():
        parts = (
            iter([explain_waits(charges_by_device[device], peer_ties, charges_by_device)])
            if charges_by_device
            else batches(device)
        )
        device_facets = {name: facets[name][acts.device == device] for name in _OF_ACTIVITIES}
        finish = partial(
            _make_slab, device_acts, bounds[device], device_facets, background_lanes(device_acts)
        )
        yield device, bounds[device], map_ahead(finish, parts)


def _make_slab(
    acts: Activities,
    bounds: Int64,
    facets: dict[str, Int64],
    background: BackgroundLanes,
    charges: Charges,
) -> _Slab:
    """Return the columns of what a device is charged with; facets are its activities'."""
    device_pieces = tile_windows(acts, charges, bounds, background)
    owner = device_pieces.activity
    piece_facets = {name: np.where(owner >= 0, column[owner], 0) for name, column in facets.items()}
    hidden_ns = {"hidden_comm": device_pieces.hidden_comm, "hidden_copy": device_pieces.hidden_copy}
    return _make_columns(device_pieces.pieces, piece_facets | hidden_ns)


def _charge_host(host_side: HostSide, steps: StepBounds, arrivals: Arrivals) -> _Slab:
    tiles = host_pieces(host_side, steps.boundaries, arrivals)
    start, zeros = tiles.pieces.start, np.zeros(len(tiles.pieces), np.int64)
    facets = {
        "phase": find_phases(host_side.threads, tiles.thread, start, tiles.pieces.culprit),
        "recompute": recompute_flags(host_side.threads, tiles.thread, start),
        "why": zeros,
        "hidden_comm": zeros,
        "hidden_copy": zeros,
    }
    return _make_columns(tiles.pieces, facets)


def _make_columns(pieces: Charges, facets: dict[str, Int64]) -> _Slab:
    columns = {**asdict(pieces), **facets, "row": pieces.query}
    wide_names = {
        name for name in ("hidden_comm", "hidden_copy") if columns[name].max(initial=0) > _WIDE
    }
    dtypes = _COLUMNS | _FACETS | dict.fromkeys(wide_names, np.int64)
    return {name: columns[name].astype(dtype) for name, dtype in dtypes.items()}


def _make_notes(host_side: HostSide, arrivals: Arrivals) -> tuple[Count, ...]:
    counts = (
        ("profiler overhead events that held no thread", host_side.context.n_overhead_loose),
        ("collectives matched over ranks", arrivals.n_matched),
        (
            "collectives matched over ranks by order, without Seq",
            arrivals.n_matched * arrivals.by_order,
        ),
        ("collectives without their counterpart on other ranks", arrivals.n_unmatched),
    )
    return tuple(Count(note, count) for note, count in counts if count)


def _build_ledger(joined_trace: JoinedTrace, steps: StepBounds, parts: _LedgerParts) -> Ledger:
    """Put the parts together; that they tile every row is checked here."""

    def join_column(name: str, dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
        pieces = [slab.pop(name) for slab in parts.slabs]
        full_column = np.concatenate([np.empty(0, dtype), *pieces])
        del pieces
        release_memory()  # so that one column is in memory twice, not all of them
        return full_column

    has_launch = joined_trace.activities.call >= 0
    ledger = Ledger(
        rows=tuple(parts.rows),
        **{name: join_column(name, dtype) for name, dtype in _COLUMNS.items()},
        facets=Facets(**{name: join_column(name, dtype) for name, dtype in _FACETS.items()}),
        step_rule=steps.rule,
        main_track=joined_trace.threads.main,
        launches_recorded=float(has_launch.mean()) if len(has_launch) else None,
        clock_error_ns=clock_error(joined_trace.activities),
        notes=parts.notes,
    )
    _check(ledger)
    return ledger


def _make_rows(
    trace: Trace,
    device: int | None,
    bounds: Int64,
    steps: StepBounds,
    odd_windows: frozenset[int] = frozenset(),
) -> list[Row]:
    """Return the rows of a device: one a window, marked where it is no regular step."""
    numbers = steps.numbers
    irregular = (
        irregular_windows(len(numbers)) | odd_windows if numbers is not None else frozenset[int]()
    )
    return [
        Row(
            trace.rank,
            device,
            None if numbers is None else numbers[index],
            lo,
            hi,
            index in irregular,
        )
        for index, (lo, hi) in enumerate(itertools.pairwise(bounds.tolist()))
    ]


def _check(ledger: Ledger) -> None:
    """Assert that the pieces tile each row exactly: the sums of the account rest on it."""
    row, start, end = ledger.row, ledger.start, ledger.end
    is_new = row[1:] != row[:-1]
    head = np.flatnonzero(np.concatenate(([True], is_new)))[: len(row)]
    tail = np.append(head[1:], len(row))[: len(head)] - 1
    length = np.array([window.end - window.start for window in ledger.rows], np.int64)
    begins = np.array([window.start for window in ledger.rows], np.int64)[row[head]]
    is_tiled = (
        np.array_equal(row[head], np.flatnonzero(length))
        and np.array_equal(start[head], begins)
        and np.array_equal(end[tail], begins + length[row[head]])
        and bool(np.all(is_new | (start[1:] == end[:-1])))
    )
    if not is_tiled:
        msg = "the ledger does not tile its rows"
        raise AssertionError(msg)
