"""Each loader of a run: how long it was waited for, how often it restarted, who fed it."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import overlap
from gapless.accounting.run_row import RUN_LEAVES
from gapless.model.recording import Fact
from gapless.model.run import LoaderUse
from gapless.model.trace import Int64
from gapless.recorded.loaders.delays import Delays
from gapless.recorded.loaders.waits import Waits
from gapless.recorded.loaders.workers import worker_use
from gapless.recorded.steps.evaluations import Evaluating
from gapless.recorded.steps.rows import TrainingRow, sum_leaves
from gapless.recorded.training.edges import fact_of, loader_kind
from gapless.recorded.training.processes import (
    Training,
    calls_within,
    counted_lane,
    does_train,
)

_LineKey = tuple[int, str | None, int | None, object]


class _RankLoader(Struct, frozen=True):
    """A loader of one training process."""

    training: Training
    loader: int
    fact: Fact | None
    waits: Waits | None
    evaluating: Evaluating | None  # which of its waits are part of evaluations
    is_beside: bool = False  # of a process that trains nothing, while others do

    @property
    def line_key(self) -> _LineKey:
        """Return the key that other ranks' loaders share: number, line, and size of a batch."""
        if self.fact is None:
            return self.loader, None, None, None
        return self.loader, self.fact.file, self.fact.line, self.fact.values.get("batch_size")


def loader_uses(training_rows: Sequence[TrainingRow]) -> tuple[LoaderUse, ...]:
    """Describe the loaders of the training processes, the one waited for longest first.

    A loader of several ranks is one. So are those that one line created with the same settings:
    again for each epoch, say. One of a process that only tests what others train is another, comes
    last, and has no share.
    """
    some_train = any(does_train(training_row.training) for training_row in training_rows)
    kinds_by_line: dict[_LineKey, object] = {}
    loaders_by_kind: dict[tuple[bool, object], list[_RankLoader]] = {}
    for training_row in training_rows:
        training = training_row.training
        waits_by_loader = {waits.loader: waits for waits in training_row.waits}
        evaluating = training_row.evaluations.loaders
        evaluating_by_loader = dict(zip(waits_by_loader, evaluating, strict=True))
        for loader in sorted(_loader_numbers(training) | waits_by_loader.keys()):
            fact = fact_of(training.process, "loader", loader)
            rank_loader = _RankLoader(
                training,
                loader,
                fact,
                waits_by_loader.get(loader),
                evaluating_by_loader.get(loader),
                is_beside=some_train and not does_train(training),
            )
            kind = kinds_by_line.setdefault(
                rank_loader.line_key, loader_kind(training.process, loader)
            )
            loaders_by_kind.setdefault((rank_loader.is_beside, kind), []).append(rank_loader)
    uses = [(is_beside, _build_use(group)) for (is_beside, _), group in loaders_by_kind.items()]
    return tuple(use for _, use in sorted(uses, key=lambda use: (use[0], -use[1].wait_ns)))


def _loader_numbers(training: Training) -> set[int]:
    return {fact.id for fact in training.process.facts if fact.noun == "loader"}


def _build_use(rank_loaders: Sequence[_RankLoader]) -> LoaderUse:
    training_waits = [
        (rank_loader.training, rank_loader.waits)
        for rank_loader in rank_loaders
        if rank_loader.waits is not None
    ]
    lengths_ns = np.concatenate(
        [np.empty(0, np.int64), *(waits.end - waits.start for _, waits in training_waits)]
    )
    first_lengths_ns = np.concatenate(
        [
            np.empty(0, np.int64),
            *((waits.end - waits.start)[waits.is_first] for _, waits in training_waits),
        ]
    )
    stages = sum_leaves([_stage_ns(waits) for _, waits in training_waits])
    n_waits = len(lengths_ns) + sum(int(waits.summed.count.sum()) for _, waits in training_waits)
    wait_ns = int(lengths_ns.sum()) + sum(
        int(waits.summed.total.sum()) for _, waits in training_waits
    )
    summed_longest = np.concatenate(
        [np.empty(0, np.int64), *(waits.summed.longest for _, waits in training_waits)]
    )
    fact = next(
        (rank_loader.fact for rank_loader in rank_loaders if rank_loader.fact is not None), None
    )
    iterations, restart_ns = _iteration_costs(rank_loaders)
    return LoaderUse(
        id=rank_loaders[0].loader,
        file=fact.file if fact else None,
        line=fact.line if fact else None,
        function=fact.function if fact else None,
        settings=dict(fact.values) if fact else {},
        waits=n_waits,
        wait_ns=wait_ns,
        share=_wait_share(rank_loaders),
        evaluation_ns=sum(map(_evaluation_ns, rank_loaders)),
        mean_ns=round(wait_ns / n_waits) if n_waits else None,
        p95_ns=round(float(np.quantile(lengths_ns, 0.95))) if len(lengths_ns) else None,
        longest_ns=max([*lengths_ns.tolist(), *summed_longest.tolist()], default=None),
        first_ns=round(float(first_lengths_ns.mean())) if len(first_lengths_ns) else None,
        hand_over_ns=stages.get("data.hand-over", 0) + stages.get("data.pin", 0),
        stages=stages,
        iterations=iterations,
        restart_ns=restart_ns,
        workers=worker_use(
            [(rank_loader.training.process, rank_loader.loader) for rank_loader in rank_loaders],
            [
                (worker, rank_loader.loader)
                for rank_loader in rank_loaders
                for worker in rank_loader.training.workers
                if worker.loader == rank_loader.loader
            ],
            n_waits,
        ),
        made=len({rank_loader.loader for rank_loader in rank_loaders}),
        **_sum_delays([waits.delays for _, waits in training_waits]),
    )


def _sum_delays(delays: Sequence[Delays]) -> dict[str, int]:
    """Add up the facets; nothing where no worker's fetch is known."""
    if not any(len(loader_delays.wait) for loader_delays in delays):
        return {}
    return {
        "known_ns": sum(int(loader_delays.wait.sum()) for loader_delays in delays),
        "queueing_ns": sum(int(loader_delays.queueing.sum()) for loader_delays in delays),
        "hol_ns": sum(int(loader_delays.blocked.sum()) for loader_delays in delays),
    }


def _stage_ns(waits: Waits) -> dict[str, int]:
    sums = waits.shares().sum(axis=0)
    np.add.at(sums, waits.pieces.leaf, waits.pieces.end - waits.pieces.start)
    return {RUN_LEAVES[code]: int(sums[code]) for code in np.flatnonzero(sums).tolist()}


def _wait_share(rank_loaders: Sequence[_RankLoader]) -> float | None:
    """Return the share of waits in the time of the counted steps, without those of evaluations."""
    lanes = {
        id(loader.training): counted_lane(loader.training)
        for loader in rank_loaders
        if loader.waits is not None and not loader.is_beside
    }
    total_ns = sum(int((lane.end - lane.start).sum()) for lane in lanes.values())
    waited_ns = 0
    for loader in rank_loaders:
        if loader.waits is not None and loader.evaluating is not None and not loader.is_beside:
            lane, waits = lanes[id(loader.training)], loader.waits
            trains, is_summed = ~loader.evaluating.kept, ~loader.evaluating.summed
            waited_ns += int(overlap(lane, waits.start[trains], waits.end[trains]).sum())
            summed_calls = calls_within(loader.training, lane, waits.summed.take(is_summed))
            waited_ns += int(summed_calls.total.sum())
    return waited_ns / total_ns if total_ns else None


def _evaluation_ns(loader: _RankLoader) -> int:
    """Return how long evaluations waited for a loader."""
    waits, evaluating = loader.waits, loader.evaluating
    if waits is None or evaluating is None:
        return 0
    kept_ns = _total_ns(waits.start[evaluating.kept], waits.end[evaluating.kept])
    return kept_ns + int(waits.summed.take(evaluating.summed).total.sum())


def _iteration_costs(rank_loaders: Sequence[_RankLoader]) -> tuple[int, int]:
    """Count the iterations, and sum the time in which they began and ended."""
    count, spent_ns = 0, 0
    for rank_loader in rank_loaders:
        training, loader = rank_loader.training, rank_loader.loader
        marks = training.process.marks
        is_loader = (marks.subject == loader) & (marks.thread == training.edges.thread)
        is_begin = is_loader & (marks.kind == wire.ITER)
        count += int(is_begin.sum())
        spent_ns += _total_ns(marks.start[is_begin], marks.end[is_begin])
        calls = training.sums.calls
        select_calls = partial(calls.select, subject=loader, thread=training.edges.thread)
        count += int(select_calls(wire.ITER).count.sum())
        spent_ns += int(select_calls(wire.ITER, wire.CLOSE).total.sum())
        is_close = is_loader & (marks.kind == wire.CLOSE)
        spent_ns += _total_ns(marks.start[is_close], marks.end[is_close])
    return count, spent_ns


def _total_ns(start: Int64, end: Int64) -> int:
    return int((end - start).sum())
