"""Each loader of a run: how long it was waited for, how often it started anew, who fed it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap
from gapless.accounting.run_row import RUN_LEAVES
from gapless.model.recording import Fact
from gapless.model.run import LoaderUse
from gapless.model.trace import Int64
from gapless.study.recorded.delays import Delays
from gapless.study.recorded.edges import fact_of, kind_of
from gapless.study.recorded.rows import added
from gapless.study.recorded.training import Training, regular, within
from gapless.study.recorded.waits import Waits
from gapless.study.recorded.workers import worker_use

Waited = tuple[Training, tuple[Waits, ...]]
_Place = tuple[int, str | None, int | None]


@dataclass(frozen=True)
class _Part:
    """A loader of one training process."""

    training: Training
    loader: int
    fact: Fact | None
    waits: Waits | None

    @property
    def place(self) -> _Place:
        """Tell what loaders of other ranks are this one: the same number, made in the same line."""
        fact = self.fact
        return (self.loader, fact.file, fact.line) if fact else (self.loader, None, None)


def loader_uses(every: Sequence[Waited]) -> tuple[LoaderUse, ...]:
    """Describe the loaders of the training processes, the one waited for longest first.

    A loader of several ranks is one. So are those that one line made with the same settings: anew
    for each epoch, say.
    """
    like: dict[_Place, object] = {}
    found: dict[object, list[_Part]] = {}
    for training, waits in every:
        by_loader = {one.loader: one for one in waits}
        for loader in sorted(_numbers(training) | by_loader.keys()):
            fact = fact_of(training.process, "loader", loader)
            part = _Part(training, loader, fact, by_loader.get(loader))
            kind = like.setdefault(part.place, kind_of(training.process, loader))
            found.setdefault(kind, []).append(part)
    return tuple(sorted(map(_use, found.values()), key=lambda one: -one.wait_ns))


def _numbers(training: Training) -> set[int]:
    return {one.id for one in training.process.facts if one.noun == "loader"}


def _use(parts: Sequence[_Part]) -> LoaderUse:
    used = [(one.training, one.waits) for one in parts if one.waits is not None]
    lengths = np.concatenate([np.empty(0, np.int64), *(one.end - one.start for _, one in used)])
    firsts = np.concatenate(
        [np.empty(0, np.int64), *((one.end - one.start)[one.first] for _, one in used)]
    )
    stages = added([_stages(one) for _, one in used])
    waits = len(lengths) + sum(int(one.summed.count.sum()) for _, one in used)
    wait = int(lengths.sum()) + sum(int(one.summed.total.sum()) for _, one in used)
    summed = np.concatenate([np.empty(0, np.int64), *(one.summed.longest for _, one in used)])
    fact = next((one.fact for one in parts if one.fact is not None), None)
    turns, restart = _turns(parts)
    return LoaderUse(
        id=parts[0].loader,
        file=fact.file if fact else None,
        line=fact.line if fact else None,
        function=fact.function if fact else None,
        settings=dict(fact.values) if fact else {},
        waits=waits,
        wait_ns=wait,
        share=_share(used),
        mean_ns=round(wait / waits) if waits else None,
        p95_ns=round(float(np.quantile(lengths, 0.95))) if len(lengths) else None,
        longest_ns=max([*lengths.tolist(), *summed.tolist()], default=None),
        first_ns=round(float(firsts.mean())) if len(firsts) else None,
        hand_over_ns=stages.get("data.hand-over", 0) + stages.get("data.pin", 0),
        stages=stages,
        iterations=turns,
        restart_ns=restart,
        workers=worker_use(
            [(one.training.process, one.loader) for one in parts],
            [
                (worker, one.loader)
                for one in parts
                for worker in one.training.workers
                if worker.loader == one.loader
            ],
            waits,
        ),
        made=len({one.loader for one in parts}),
        **_delays([one.delays for _, one in used]),
    )


def _delays(every: Sequence[Delays]) -> dict[str, int]:
    """Add the facets up, nothing where no worker's fetch is known."""
    if not any(len(one.wait) for one in every):
        return {}
    return {
        "known_ns": sum(int(one.wait.sum()) for one in every),
        "queueing_ns": sum(int(one.queueing.sum()) for one in every),
        "hol_ns": sum(int(one.blocked.sum()) for one in every),
    }


def _stages(waits: Waits) -> dict[str, int]:
    sums = waits.shares().sum(axis=0)
    np.add.at(sums, waits.pieces.leaf, waits.pieces.end - waits.pieces.start)
    return {RUN_LEAVES[code]: int(sums[code]) for code in np.flatnonzero(sums).tolist()}


def _share(used: Sequence[tuple[Training, Waits]]) -> float | None:
    """Give the share of waits in the time of the counted steps."""
    lanes = {id(training): regular(training) for training, _ in used}
    whole = sum(int((lane.end - lane.start).sum()) for lane in lanes.values())
    waited = 0
    for training, waits in used:
        lane = lanes[id(training)]
        waited += int(overlap(lane, waits.start, waits.end).sum())
        waited += int(within(training, lane, waits.summed).total.sum())
    return waited / whole if whole else None


def _turns(parts: Sequence[_Part]) -> tuple[int, int]:
    """Count the iterations, and sum the time in which they began and ended."""
    count, spent = 0, 0
    for one in parts:
        training, loader = one.training, one.loader
        marks = training.process.marks
        mine = (marks.subject == loader) & (marks.thread == training.edges.thread)
        turns = mine & (marks.kind == wire.ITER)
        count += int(turns.sum())
        spent += _spent(marks.start[turns], marks.end[turns])
        calls = training.sums.calls
        summed = partial(calls.of, subject=loader, thread=training.edges.thread)
        count += int(summed(wire.ITER).count.sum())
        spent += int(summed(wire.ITER, wire.CLOSE).total.sum())
        closed = mine & (marks.kind == wire.CLOSE)
        spent += _spent(marks.start[closed], marks.end[closed])
    return count, spent


def _spent(start: Int64, end: Int64) -> int:
    return int((end - start).sum())
