"""Waits for data, charged to what the batch was waiting for (docs: the account, waiting for data).

Of a fetch only the length of each stage is known, not where it lay: the part of a fetch that falls
into a wait is shared out among its stages in proportion to those lengths. Of short fetches only one
in several is recorded: a wait for another is shared out as those that are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, cover, empty, union
from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES
from gapless.model.recording import Marks
from gapless.model.trace import Int64
from gapless.study.recorded.delays import Delays, delays
from gapless.study.recorded.edges import Bool, fact_of
from gapless.study.recorded.fetches import (
    Fetches,
    Made,
    certain,
    fetches,
    iterations,
    made_by_workers,
    made_in_process,
)
from gapless.study.recorded.pieces import Pieces, spread, stacked
from gapless.study.recorded.sampler import SAMPLER, sampling, to_sampler
from gapless.study.recorded.stretches import Calls, shared
from gapless.study.recorded.training import Training

_STAGES: Final = np.array([RUN_LEAF[f"data.{stage}"] for stage in wire.STAGES])
_FIRST: Final = np.iinfo(np.int64).min


_Asked = tuple[Int64, Int64, Bool]  # waits: from, to, whether the first of an iteration


@dataclass(frozen=True)
class Waits:
    """The waits for one loader on the training thread, and their pieces."""

    loader: int
    start: Int64
    end: Int64
    first: Bool  # the first of its iteration
    pieces: Pieces
    summed: Calls  # those that were not kept one by one
    default: int  # the leaf of a wait of which nothing is known
    delays: Delays

    def shares(self, backlog: int = 0) -> Int64:
        """Give the time of the summed waits, [row, leaf]: shared out as the kept ones.

        With a ``backlog`` the first so many ns of each wait are left out.
        """
        known = _usual(self.pieces, self.first)
        whole = _by_leaf(known)
        if not whole.sum():
            left = np.maximum(self.summed.total - self.summed.count * backlog, 0)
            return left[:, None] * (np.arange(len(RUN_LEAVES)) == self.default)
        start = np.maximum(known.start, self.start[known.wait] + backlog)
        left = Pieces(known.wait, start, np.maximum(known.end, start), known.leaf)
        return shared(self.summed.total, _by_leaf(left), int(whole.sum()))


def taken(marks: Marks, rows: Int64) -> Marks:
    """Select marks."""
    return Marks(**{name: column[rows] for name, column in vars(marks).items()})


def waits(training: Training) -> tuple[Waits, ...]:
    """Give the waits of a process for each of its loaders, in the order of their numbers."""
    marks, thread = training.process.marks, training.edges.thread
    asked = (marks.kind == wire.NEXT) & (marks.thread == thread)
    summed = training.sums.calls.of(wire.NEXT, thread=thread)
    loaders: list[int] = np.unique(np.append(marks.subject[asked], summed.subject)).tolist()
    return tuple(_waits(training, loader) for loader in loaders)


@dataclass(frozen=True)
class Matched:
    """The waits for one loader on the training thread, by their start, and who made the batches."""

    ask: Int64
    got: Int64
    position: Int64  # of the batch in its iteration
    turns: Int64  # when iterations began
    turn: Int64  # of each wait: its iteration
    fetches: Fetches
    made: Made


def matched(training: Training, loader: int) -> Matched:
    """Match the waits for a loader with the fetches of their batches."""
    marks, mine = training.process.marks, training.process.marks.subject == loader
    handed = (marks.kind == wire.NEXT) & ((marks.flags & wire.EXHAUSTED) == 0)
    rows = np.flatnonzero(handed & mine & (marks.thread == training.edges.thread))
    rows = rows[np.argsort(marks.start[rows], kind="stable")]
    ask, got, position = marks.start[rows], marks.end[rows], marks.value[rows]
    turns = _turns(training, loader)
    found = fetches(loader, training.process, training.workers, turns)
    turn = iterations(turns, ask)
    dispatched = taken(marks, np.flatnonzero(mine & (marks.kind == wire.DISPATCH)))
    gaps = training.sums.holding(training.sums.calls.of(wire.DISPATCH, subject=loader))
    made = _either(
        made_by_workers(found, dispatched, turns, (turn, position), gaps),
        made_in_process(found, ask, got),
    )
    return Matched(ask, got, position, turns, turn, found, certain(made, found, ask, got))


def _waits(training: Training, loader: int) -> Waits:
    one = matched(training, loader)
    ask, got, turn, found, made = one.ask, one.got, one.turn, one.fetches, one.made
    marks = training.process.marks
    pinned = (marks.subject == loader) & (marks.kind == wire.PIN)
    pin = union(marks.start[pinned], marks.end[pinned])
    first = np.concatenate(([True], turn[1:] != turn[:-1]))[: len(turn)]
    if len(training.sums):
        first &= one.position == 0
    default = _default(training, loader)
    chosen = sampling(training, [loader])
    pieces = _cut((ask, got, first), made, found, (pin, chosen), default)
    summed = training.sums.calls.of(wire.NEXT, subject=loader, thread=training.edges.thread)
    summed = summed.without(wire.EXHAUSTED)
    inside = training.sums.calls.of(wire.SAMPLER, subject=loader, thread=training.edges.thread)
    summed = summed.with_inner(inside)
    late = delays(ask, got, made.fetch, found)
    return Waits(loader, ask, got, first, pieces, summed, default, late)


def _turns(training: Training, loader: int) -> Int64:
    """Give the starts of a loader's iterations; of those that were summed the stretches' ends."""
    marks, sums = training.process.marks, training.sums
    kept = marks.start[(marks.kind == wire.ITER) & (marks.subject == loader)]
    gaps = sums.holding(sums.calls.of(wire.ITER, subject=loader))
    return np.sort(np.concatenate((kept, gaps.end)))


def _either(one: Made, other: Made) -> Made:
    known = one.fetch >= 0
    return Made(
        np.where(known, one.fetch, other.fetch),
        np.where(one.dispatched >= 0, one.dispatched, other.dispatched),
    )


def _default(training: Training, loader: int) -> int:
    """Give the leaf of a wait of which nothing is known."""
    fact = fact_of(training.process, "loader", loader)
    at_home = fact is not None and fact.values.get("num_workers") == 0
    return RUN_LEAF["data.main" if at_home else "data.unstaged"]


def _cut(
    asked: _Asked, made: Made, found: Fetches, beside: tuple[Lane, Lane], default: int
) -> Pieces:
    """Cut waits by the rules, going back from the consumer.

    ``beside``: when batches were pinned, and when samplers chose samples.
    """
    pin, chosen = beside
    ask, got, _ = asked
    wait = np.arange(len(ask))
    known = made.fetch >= 0
    rows, strange = wait[known], wait[~known]
    fetch = made.fetch[rows]
    ready = np.clip(found.end[fetch], ask[rows], got[rows]) if len(rows) else empty()
    parts = [_after(rows, ready, got[rows], pin)]
    for slot in np.unique(found.worker[fetch]).tolist():
        here = np.flatnonzero(found.worker[fetch] == slot)
        before = Pieces(rows[here], ask[rows[here]], ready[here], fetch[here])
        parts += _before(before, found, slot, made.dispatched)
    parts = [to_sampler(part, chosen) for part in parts]
    return stacked([*parts, to_sampler(_like(parts, strange, asked, default), chosen)])


def _like(parts: Sequence[Pieces], wait: Int64, asked: _Asked, default: int) -> Pieces:
    """Share waits out whose fetch was not recorded: as all others of their loader together."""
    known = stacked([Pieces(empty(), empty(), empty(), empty()), *parts])
    sums = _by_leaf(_usual(known, asked[2]))
    sums[SAMPLER] = 0  # it is known of every wait
    leaves = np.flatnonzero(sums)
    start, end = asked[0][wait], asked[1][wait]
    if not len(leaves):
        return Pieces(wait, start, end, np.full(len(wait), default))
    weights = np.broadcast_to(sums[leaves], (len(wait), len(leaves)))
    return spread(Pieces(wait, start, end, wait), weights, leaves)


def _usual(pieces: Pieces, first: Bool) -> Pieces:
    """Leave the first waits of iterations out, unless there are no others.

    They are unlike the rest: a sampler draws all its indices then.
    """
    usual = pieces.take(~first[pieces.wait])
    return usual if len(usual.wait) else pieces


def _by_leaf(pieces: Pieces) -> Int64:
    sums = np.zeros(len(RUN_LEAVES), np.int64)
    np.add.at(sums, pieces.leaf, pieces.end - pieces.start)
    return sums


def _after(wait: Int64, ready: Int64, got: Int64, pin: Lane) -> Pieces:
    """Charge what came after the fetch: pinning where a batch was pinned, else the hand-over."""
    cut = cover(pin, ready, got)
    leaf = np.where(cut.piece >= 0, RUN_LEAF["data.pin"], RUN_LEAF["data.hand-over"])
    return Pieces(wait[cut.query], cut.start, cut.end, leaf)


def _before(asked: Pieces, found: Fetches, slot: int, dispatched: Int64) -> list[Pieces]:
    """Charge what came before the end of the fetch; ``asked.leaf`` is the fetch of each wait.

    The worker runs it, or another one before it: its stages. Else the worker has not begun its
    first fetch (start-up), was not yet told of this one (dispatch), or was told and idle (queue).
    The training process need not be told: before its fetch the sampler chooses (other).
    """
    rows = np.flatnonzero(found.worker == slot)
    reach = np.maximum.accumulate(np.concatenate(([_FIRST], found.end[rows][:-1])))
    begin = np.maximum(found.start[rows], reach)
    runs = begin < found.end[rows]
    lane = Lane(begin[runs], found.end[rows][runs], rows[runs])
    cut = cover(lane, asked.start, asked.end)
    wait, inside = asked.wait[cut.query], cut.piece >= 0
    running = Pieces(wait, cut.start, cut.end, lane.owner[cut.piece]).take(inside)
    fetch = asked.leaf[cut.query][~inside]
    idle = Pieces(wait, cut.start, cut.end, wait).take(~inside)
    own = slot < 0
    begun = np.full(len(fetch), _FIRST) if own else found.first[fetch]
    told = np.maximum(dispatched[idle.wait], begun)
    leaves = (
        "data.start-up",
        "data.other" if own else "data.dispatch",
        "data.unstaged" if found.sampled else "data.queue",
    )
    return [_staged(running, found.stages), *_thirds(idle, begun, told, leaves)]


def _thirds(idle: Pieces, begun: Int64, told: Int64, leaves: Sequence[str]) -> list[Pieces]:
    """Cut idle stretches at two instants into three leaves: start-up, dispatch and queue."""
    bounds = (np.full(len(begun), _FIRST), begun, told, np.full(len(begun), np.iinfo(np.int64).max))
    return [
        Pieces(
            idle.wait,
            np.maximum(idle.start, bounds[at]),
            np.minimum(idle.end, bounds[at + 1]),
            np.full(len(begun), RUN_LEAF[leaf]),
        )
        for at, leaf in enumerate(leaves)
    ]


def _staged(running: Pieces, weights: Int64) -> Pieces:
    """Share the pieces of fetches (``running.leaf``) out among their stages."""
    mine = weights[running.leaf]
    dark = mine.sum(axis=1) <= 0
    unstaged = np.full(len(mine), RUN_LEAF["data.unstaged"])
    unknown = Pieces(running.wait, running.start, running.end, unstaged).take(dark)
    return stacked([spread(running.take(~dark), mine[~dark], _STAGES), unknown])
