"""Each loader of a run: how long it was waited for, how often it started anew, who fed it."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap
from gapless.accounting.run_row import RUN_LEAVES
from gapless.model.recording import Fact
from gapless.model.run import LoaderUse
from gapless.model.trace import Int64
from gapless.study.recorded.delays import Delays
from gapless.study.recorded.edges import fact_of
from gapless.study.recorded.rows import added
from gapless.study.recorded.training import Training, regular, within
from gapless.study.recorded.waits import Waits
from gapless.study.recorded.workers import worker_use

Waited = tuple[Training, tuple[Waits, ...]]
_Key = tuple[int, str | None, int | None]


def loader_uses(every: Sequence[Waited]) -> tuple[LoaderUse, ...]:
    """Describe the loaders of the training processes, the one waited for longest first.

    A loader of several ranks is one: the same number, made in the same line.
    """
    found: dict[_Key, list[tuple[Training, Waits | None]]] = {}
    for training, waits in every:
        by_loader = {one.loader: one for one in waits}
        for loader in sorted(_numbers(training) | by_loader.keys()):
            fact = fact_of(training.process, "loader", loader)
            key = (loader, fact.file, fact.line) if fact else (loader, None, None)
            found.setdefault(key, []).append((training, by_loader.get(loader)))
    uses = [_use(key[0], parts) for key, parts in found.items()]
    return tuple(sorted(uses, key=lambda one: -one.wait_ns))


def _numbers(training: Training) -> set[int]:
    return {one.id for one in training.process.facts if one.noun == "loader"}


def _use(loader: int, parts: Sequence[tuple[Training, Waits | None]]) -> LoaderUse:
    used = [(training, waits) for training, waits in parts if waits is not None]
    lengths = np.concatenate([np.empty(0, np.int64), *(one.end - one.start for _, one in used)])
    firsts = np.concatenate(
        [np.empty(0, np.int64), *((one.end - one.start)[one.first] for _, one in used)]
    )
    stages = added([_stages(one) for _, one in used])
    waits = len(lengths) + sum(int(one.summed.count.sum()) for _, one in used)
    wait = int(lengths.sum()) + sum(int(one.summed.total.sum()) for _, one in used)
    summed = np.concatenate([np.empty(0, np.int64), *(one.summed.longest for _, one in used)])
    fact = next((fact for fact in _facts(loader, parts) if fact is not None), None)
    turns, restart = _turns(loader, [training for training, _ in parts])
    return LoaderUse(
        id=loader,
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
            loader,
            [training.process for training, _ in parts],
            [worker for training, _ in parts for worker in training.workers],
        ),
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


def _facts(loader: int, parts: Iterable[tuple[Training, object]]) -> Iterable[Fact | None]:
    return (fact_of(training.process, "loader", loader) for training, _ in parts)


def _stages(waits: Waits) -> dict[str, int]:
    sums = waits.shares().sum(axis=0)
    np.add.at(sums, waits.pieces.leaf, waits.pieces.end - waits.pieces.start)
    return {RUN_LEAVES[code]: int(sums[code]) for code in np.flatnonzero(sums).tolist()}


def _share(used: Sequence[tuple[Training, Waits]]) -> float | None:
    """Give the share of waits in the time of the counted steps."""
    whole = waited = 0
    for training, waits in used:
        lane = regular(training)
        whole += int((lane.end - lane.start).sum())
        waited += int(overlap(lane, waits.start, waits.end).sum())
        waited += int(within(training, lane, waits.summed).total.sum())
    return waited / whole if whole else None


def _turns(loader: int, every: Sequence[Training]) -> tuple[int, int]:
    """Count the iterations, and sum the time in which they began and ended."""
    count, spent = 0, 0
    for training in every:
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
