"""Waits for data, charged to what the batch was waiting for (docs: the account, waiting for data).

Only the length of each stage of a fetch is known, not its position: the part of a fetch that falls
into a wait is divided among its stages in proportion to those lengths. Only one in several short
fetches is recorded: a wait for another is divided like the known ones.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from gapless import wire
from gapless.accounting.intervals import Lane, cover, empty_column, union
from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES
from gapless.model.recording import Marks
from gapless.model.trace import Int64
from gapless.recorded.loaders.delays import Delays, measure_delays
from gapless.recorded.loaders.fetches import (
    Fetches,
    FetchMatches,
    drop_uncertain,
    find_iterations,
    gather_fetches,
    match_in_process,
    match_workers,
)
from gapless.recorded.loaders.sampler import SAMPLER_LEAF, charge_sampler, sampling_lane
from gapless.recorded.loaders.wait_pieces import WaitPieces, spread_pieces, stack_pieces
from gapless.recorded.training.edges import Bool, fact_of
from gapless.recorded.training.processes import Training
from gapless.recorded.training.stretches import SummedCalls, share_out

_STAGES: Final = np.array([RUN_LEAF[f"data.{stage}"] for stage in wire.STAGES])
_BEGINNING_NS: Final = np.iinfo(np.int64).min


_WaitColumns = tuple[Int64, Int64, Bool]  # waits: from, to, whether the first of an iteration


class Waits(Struct, frozen=True):
    """The waits for one loader on the training thread, and their pieces."""

    loader: int
    start: Int64
    end: Int64
    is_first: Bool  # the first of its iteration
    pieces: WaitPieces
    summed: SummedCalls  # waits that were not kept one by one
    default_leaf: int  # the leaf of a wait about which nothing is known
    delays: Delays

    def shares(self, backlog: int = 0) -> Int64:
        """Return the time of the summed waits, [row, leaf], divided like the kept ones.

        With a ``backlog`` so many ns at the start of each wait are left out.
        """
        usual = _usual_pieces(self.pieces, self.is_first)
        leaf_ns = _leaf_sums(usual)
        if not leaf_ns.sum():
            remaining = np.maximum(self.summed.total - self.summed.count * backlog, 0)
            return remaining[:, None] * (np.arange(len(RUN_LEAVES)) == self.default_leaf)
        start = np.maximum(usual.start, self.start[usual.wait] + backlog)
        remaining = WaitPieces(usual.wait, start, np.maximum(usual.end, start), usual.leaf)
        return share_out(self.summed.total, _leaf_sums(remaining), int(leaf_ns.sum()))


def select_marks(marks: Marks, rows: Int64) -> Marks:
    """Select marks."""
    return Marks(**{name: column[rows] for name, column in asdict(marks).items()})


def loader_waits(training: Training) -> tuple[Waits, ...]:
    """Return the waits of a process for each of its loaders, in the order of their numbers."""
    marks, thread = training.process.marks, training.edges.thread
    is_next = (marks.kind == wire.NEXT) & (marks.thread == thread)
    summed_calls = training.sums.calls.select(wire.NEXT, thread=thread)
    loaders: list[int] = np.unique(np.append(marks.subject[is_next], summed_calls.subject)).tolist()
    return tuple(_build_waits(training, loader) for loader in loaders)


class MatchedWaits(Struct, frozen=True):
    """The waits for one loader on the training thread, by their start, and who made the batches."""

    ask_ns: Int64
    got_ns: Int64
    position: Int64  # of the batch in its iteration
    iteration_starts: Int64  # when iterations began
    iteration: Int64  # of each wait: its iteration
    fetches: Fetches
    matches: FetchMatches


def match_waits(training: Training, loader: int) -> MatchedWaits:
    """Match the waits for a loader with the fetches of their batches."""
    marks, is_loader = training.process.marks, training.process.marks.subject == loader
    is_hand_over = (marks.kind == wire.NEXT) & ((marks.flags & wire.EXHAUSTED) == 0)
    rows = np.flatnonzero(is_hand_over & is_loader & (marks.thread == training.edges.thread))
    rows = rows[np.argsort(marks.start[rows], kind="stable")]
    ask_ns, got_ns, position = marks.start[rows], marks.end[rows], marks.value[rows]
    iteration_starts = _iteration_starts(training, loader)
    loader_fetches = gather_fetches(loader, training.process, training.workers, iteration_starts)
    iteration = find_iterations(iteration_starts, ask_ns)
    dispatch_marks = select_marks(marks, np.flatnonzero(is_loader & (marks.kind == wire.DISPATCH)))
    gaps = training.sums.stretches_with(training.sums.calls.select(wire.DISPATCH, subject=loader))
    matches = _first_known(
        match_workers(
            loader_fetches, dispatch_marks, iteration_starts, (iteration, position), gaps
        ),
        match_in_process(loader_fetches, ask_ns, got_ns),
    )
    return MatchedWaits(
        ask_ns,
        got_ns,
        position,
        iteration_starts,
        iteration,
        loader_fetches,
        drop_uncertain(matches, loader_fetches, ask_ns, got_ns),
    )


def _build_waits(training: Training, loader: int) -> Waits:
    matched_waits = match_waits(training, loader)
    ask_ns, got_ns, iteration, loader_fetches, matches = (
        matched_waits.ask_ns,
        matched_waits.got_ns,
        matched_waits.iteration,
        matched_waits.fetches,
        matched_waits.matches,
    )
    marks = training.process.marks
    is_pin = (marks.subject == loader) & (marks.kind == wire.PIN)
    pin_lane = union(marks.start[is_pin], marks.end[is_pin])
    is_first = np.concatenate(([True], iteration[1:] != iteration[:-1]))[: len(iteration)]
    if len(training.sums):
        is_first &= matched_waits.position == 0
    default_leaf = _default_leaf(training, loader)
    sampler_lane = sampling_lane(training, [loader])
    pieces = _cut_waits(
        (ask_ns, got_ns, is_first), matches, loader_fetches, (pin_lane, sampler_lane), default_leaf
    )
    summed_calls = training.sums.calls.select(
        wire.NEXT, subject=loader, thread=training.edges.thread
    )
    summed_calls = summed_calls.without(wire.EXHAUSTED)
    sampler_calls = training.sums.calls.select(
        wire.SAMPLER, subject=loader, thread=training.edges.thread
    )
    summed_calls = summed_calls.with_inner(sampler_calls)
    wait_delays = measure_delays(ask_ns, got_ns, matches.fetch, loader_fetches)
    return Waits(loader, ask_ns, got_ns, is_first, pieces, summed_calls, default_leaf, wait_delays)


def _iteration_starts(training: Training, loader: int) -> Int64:
    """Return the starts of a loader's iterations; for summed ones, the ends of the stretches."""
    marks, sums = training.process.marks, training.sums
    recorded = marks.start[(marks.kind == wire.ITER) & (marks.subject == loader)]
    gaps = sums.stretches_with(sums.calls.select(wire.ITER, subject=loader))
    return np.sort(np.concatenate((recorded, gaps.end)))


def _first_known(preferred: FetchMatches, fallback: FetchMatches) -> FetchMatches:
    is_known = preferred.fetch >= 0
    return FetchMatches(
        np.where(is_known, preferred.fetch, fallback.fetch),
        np.where(preferred.dispatched >= 0, preferred.dispatched, fallback.dispatched),
    )


def _default_leaf(training: Training, loader: int) -> int:
    """Return the leaf of a wait about which nothing is known."""
    fact = fact_of(training.process, "loader", loader)
    in_process = fact is not None and fact.values.get("num_workers") == 0
    return RUN_LEAF["data.main" if in_process else "data.unstaged"]


def _cut_waits(
    columns: _WaitColumns,
    matches: FetchMatches,
    loader_fetches: Fetches,
    lanes: tuple[Lane, Lane],
    default_leaf: int,
) -> WaitPieces:
    """Cut waits by the rules, going back from the consumer.

    ``lanes``: when batches were pinned, and when samplers chose samples.
    """
    pin_lane, sampler_lane = lanes
    ask_ns, got_ns, _ = columns
    wait = np.arange(len(ask_ns))
    is_known = matches.fetch >= 0
    rows, unmatched = wait[is_known], wait[~is_known]
    fetch = matches.fetch[rows]
    ready_ns = (
        np.clip(loader_fetches.end[fetch], ask_ns[rows], got_ns[rows])
        if len(rows)
        else empty_column()
    )
    tables = [_pieces_after(rows, ready_ns, got_ns[rows], pin_lane)]
    for slot in np.unique(loader_fetches.worker[fetch]).tolist():
        slot_rows = np.flatnonzero(loader_fetches.worker[fetch] == slot)
        waiting = WaitPieces(
            rows[slot_rows], ask_ns[rows[slot_rows]], ready_ns[slot_rows], fetch[slot_rows]
        )
        tables += _pieces_before(waiting, loader_fetches, slot, matches.dispatched)
    tables = [charge_sampler(table, sampler_lane) for table in tables]
    return stack_pieces(
        [
            *tables,
            charge_sampler(
                _share_like_others(tables, unmatched, columns, default_leaf), sampler_lane
            ),
        ]
    )


def _share_like_others(
    tables: Sequence[WaitPieces], wait: Int64, columns: _WaitColumns, default_leaf: int
) -> WaitPieces:
    """Divide waits whose fetch was not recorded like all others of their loader together."""
    known_pieces = stack_pieces(
        [WaitPieces(empty_column(), empty_column(), empty_column(), empty_column()), *tables]
    )
    leaf_ns = _leaf_sums(_usual_pieces(known_pieces, columns[2]))
    leaf_ns[SAMPLER_LEAF] = 0  # known for all waits
    leaves = np.flatnonzero(leaf_ns)
    start, end = columns[0][wait], columns[1][wait]
    if not len(leaves):
        return WaitPieces(wait, start, end, np.full(len(wait), default_leaf))
    weights = np.broadcast_to(leaf_ns[leaves], (len(wait), len(leaves)))
    return spread_pieces(WaitPieces(wait, start, end, wait), weights, leaves)


def _usual_pieces(pieces: WaitPieces, is_first: Bool) -> WaitPieces:
    """Leave the first waits of iterations out, unless there are no others.

    They differ from the rest: a sampler draws all its indices then.
    """
    later_pieces = pieces.take(~is_first[pieces.wait])
    return later_pieces if len(later_pieces.wait) else pieces


def _leaf_sums(pieces: WaitPieces) -> Int64:
    sums = np.zeros(len(RUN_LEAVES), np.int64)
    np.add.at(sums, pieces.leaf, pieces.end - pieces.start)
    return sums


def _pieces_after(wait: Int64, ready_ns: Int64, got_ns: Int64, pin_lane: Lane) -> WaitPieces:
    """Charge what came after the fetch: pinning where a batch was pinned, else the hand-over."""
    cut = cover(pin_lane, ready_ns, got_ns)
    leaf = np.where(cut.piece >= 0, RUN_LEAF["data.pin"], RUN_LEAF["data.hand-over"])
    return WaitPieces(wait[cut.query], cut.start, cut.end, leaf)


def _pieces_before(
    waiting: WaitPieces, loader_fetches: Fetches, slot: int, dispatched: Int64
) -> list[WaitPieces]:
    """Charge what came before the end of the fetch; ``waiting.leaf`` is the fetch of each wait.

    The worker runs it, or another one before it: its stages. Else the worker has not begun its
    first fetch (start-up), did not yet have the indices (dispatch), or had them and was idle
    (queue). The training process needs no dispatch: before its fetch the sampler chooses
    (other).
    """
    rows = np.flatnonzero(loader_fetches.worker == slot)
    reach = np.maximum.accumulate(np.concatenate(([_BEGINNING_NS], loader_fetches.end[rows][:-1])))
    begin_ns = np.maximum(loader_fetches.start[rows], reach)
    is_running = begin_ns < loader_fetches.end[rows]
    lane = Lane(begin_ns[is_running], loader_fetches.end[rows][is_running], rows[is_running])
    cut = cover(lane, waiting.start, waiting.end)
    wait, is_inside = waiting.wait[cut.query], cut.piece >= 0
    running = WaitPieces(wait, cut.start, cut.end, lane.owner[cut.piece]).take(is_inside)
    fetch = waiting.leaf[cut.query][~is_inside]
    idle = WaitPieces(wait, cut.start, cut.end, wait).take(~is_inside)
    in_process = slot < 0
    first_start = (
        np.full(len(fetch), _BEGINNING_NS) if in_process else loader_fetches.first_start[fetch]
    )
    told_ns = np.maximum(dispatched[idle.wait], first_start)
    leaves = (
        "data.start-up",
        "data.other" if in_process else "data.dispatch",
        "data.unstaged" if loader_fetches.sampled else "data.queue",
    )
    return [
        _stage_pieces(running, loader_fetches.stages),
        *_idle_pieces(idle, first_start, told_ns, leaves),
    ]


def _idle_pieces(
    idle: WaitPieces, first_start: Int64, told_ns: Int64, leaves: Sequence[str]
) -> list[WaitPieces]:
    """Cut idle stretches at two instants into three leaves: start-up, dispatch and queue."""
    bounds = (
        np.full(len(first_start), _BEGINNING_NS),
        first_start,
        told_ns,
        np.full(len(first_start), np.iinfo(np.int64).max),
    )
    return [
        WaitPieces(
            idle.wait,
            np.maximum(idle.start, bounds[index]),
            np.minimum(idle.end, bounds[index + 1]),
            np.full(len(first_start), RUN_LEAF[leaf]),
        )
        for index, leaf in enumerate(leaves)
    ]


def _stage_pieces(running: WaitPieces, weights: Int64) -> WaitPieces:
    """Divide the pieces of fetches (``running.leaf``) among their stages."""
    piece_weights = weights[running.leaf]
    is_unknown = piece_weights.sum(axis=1) <= 0
    unstaged = np.full(len(piece_weights), RUN_LEAF["data.unstaged"])
    unknown = WaitPieces(running.wait, running.start, running.end, unstaged).take(is_unknown)
    return stack_pieces(
        [spread_pieces(running.take(~is_unknown), piece_weights[~is_unknown], _STAGES), unknown]
    )
