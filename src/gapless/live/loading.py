"""The data queue of each loader now: batches that are ready, and what each worker does."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.live.activity import Activity
from gapless.live.view import LoaderView, WorkerView
from gapless.model.recording import Fact, Process
from gapless.model.trace import Int64
from gapless.recorded.training.edges import fact_of, loader_kind
from gapless.recorded.training.processes import Training
from gapless.recorded.values import as_int

_LATE_NS: Final = 1_000_000  # a batch that is ready is handed over sooner
_N_FETCHES: Final = 8  # the latest, which figures of a worker are of
Look = Callable[[int], Activity | None]  # what the first thread of a process does


class _RunningIteration(Struct, frozen=True):
    """The running iteration of a loader."""

    begin_ns: int  # 0: before what is looked at
    handed: int | None  # batches that were handed over in it; None: not known
    waits_ns: Int64  # of the latest hand-overs that are recorded one by one


def loader_views(trainings: Sequence[Training], look: Look) -> tuple[LoaderView, ...]:
    """Return the loaders that are iterated now, of all ranks."""
    return tuple(view for training in trainings for view in _rank_loaders(training, look))


def _rank_loaders(training: Training, look: Look) -> Iterator[LoaderView]:
    for loader in _newest_loaders(training.process):
        fact = fact_of(training.process, "loader", loader)
        iteration = _running_iteration(training.process, loader)
        workers = _running_workers(training, loader)
        capacity = _capacity(fact, len(workers))
        ready = _count_ready(workers, iteration, capacity)
        is_full = ready is not None and capacity is not None and ready >= capacity
        yield LoaderView(
            rank=training.process.rank,
            id=loader,
            file=None if fact is None else fact.file,
            line=None if fact is None else fact.line,
            num_workers=None if fact is None else as_int(fact.values.get("num_workers")),
            ready=ready,
            capacity=capacity,
            workers=tuple(_worker_view(worker, look, is_full=is_full) for worker in workers),
            late_share=_late_share(iteration.waits_ns),
        )


def _late_share(waits_ns: Int64) -> float | None:
    return float((waits_ns > _LATE_NS).mean()) if len(waits_ns) else None


def _newest_loaders(process: Process) -> list[int]:
    """Return the loaders that were asked last; of those made anew for each epoch the last."""
    marks = process.marks
    is_next = (marks.kind == wire.NEXT) & ((marks.flags & wire.NOT_MAIN) == 0)
    newest_by_kind: dict[Hashable, int] = {}
    for loader in dict.fromkeys(marks.subject[is_next].tolist()):
        newest_by_kind[loader_kind(process, loader)] = loader
    return list(newest_by_kind.values())


def _running_iteration(process: Process, loader: int) -> _RunningIteration:
    marks = process.marks
    is_loader = marks.subject == loader
    begins = marks.start[is_loader & (marks.kind == wire.ITER)]
    begin_ns = int(begins.max()) if len(begins) else 0
    is_handed = is_loader & (marks.kind == wire.NEXT) & ((marks.flags & wire.EXHAUSTED) == 0)
    rows = np.flatnonzero(is_handed & (marks.start >= begin_ns))
    last_ns = int(marks.end[rows[-1]]) if len(rows) else begin_ns
    handed = 0 if len(begins) else None
    if _has_summed_waits(process, loader, last_ns):
        handed = None
    elif len(rows):
        handed = int(marks.value[rows[-1]]) + 1
    return _RunningIteration(begin_ns, handed, (marks.end - marks.start)[is_handed])


def _has_summed_waits(process: Process, loader: int, since_ns: int) -> bool:
    """Return whether waits for a loader were summed up later: how many batches came is unknown."""
    if process.mark_sums is None:
        return False
    sums = process.mark_sums.columns
    is_wait = (sums["kind"] == wire.NEXT) & (sums["subject"] == loader)
    return bool((is_wait & (sums["end"] > since_ns)).any())


def _running_workers(training: Training, loader: int) -> list[Process]:
    """Return the last process in each slot of a loader, if it has not ended."""
    by_slot: dict[int, Process] = {}
    for worker in training.workers:
        slot = worker.worker
        if worker.loader == loader and slot is not None:
            current = by_slot.get(slot)
            if current is None or worker.start >= current.start:
                by_slot[slot] = worker
    return [by_slot[slot] for slot in sorted(by_slot) if by_slot[slot].end is None]


def _count_ready(
    workers: Sequence[Process], iteration: _RunningIteration, capacity: int | None
) -> int | None:
    """Return how many batches were made in an iteration, and not handed over yet.

    ``None`` where that is not known: no workers, or single fetches are not recorded now.
    """
    if iteration.handed is None or not workers:
        return None
    n_batches = 0
    for worker in workers:
        columns = worker.batches.columns
        sequence = columns["sequence"][columns["start"] >= iteration.begin_ns]
        n_batches += int(sequence.max()) + 1 if len(sequence) else 0
    ready = n_batches - iteration.handed
    is_possible = ready >= 0 and (capacity is None or ready <= capacity)
    return ready if is_possible else None


def _capacity(fact: Fact | None, n_workers: int) -> int | None:
    prefetch = None if fact is None else as_int(fact.values.get("prefetch_factor"))
    return None if prefetch is None or not n_workers else prefetch * n_workers


def _worker_view(worker: Process, look: Look, *, is_full: bool) -> WorkerView:
    activity = look(worker.pid)
    columns = {name: column[-_N_FETCHES:] for name, column in worker.batches.columns.items()}
    lengths_ns = columns["end"] - columns["start"]
    return WorkerView(
        worker=-1 if worker.worker is None else worker.worker,
        pid=worker.pid,
        doing=_describe(activity, is_full=is_full),
        on_processor=None if activity is None else activity.on_processor,
        ready=None if activity is None else activity.ready,
        fetch_ns=round(float(lengths_ns.mean())) if len(lengths_ns) else None,
        stages=_stage_shares(columns),
    )


def _describe(activity: Activity | None, *, is_full: bool) -> str:
    """Say what a worker does; where the queue is full, it has nothing to do.

    It is not seen where it runs on another machine, nor at the first look.
    """
    if activity is None:
        return "is not seen"
    doing = activity.describe()
    return "is idle: the queue is full" if is_full and doing.startswith("waits") else doing


def _stage_shares(columns: Mapping[str, Int64]) -> dict[str, float]:
    """Return the share of each stage in fetches whose stages were measured."""
    is_detailed = columns["detailed"] == 1
    wall_ns = int((columns["end"] - columns["start"])[is_detailed].sum())
    if not wall_ns:
        return {}
    known_ns = {
        stage: int(np.maximum(columns[f"{stage}_wall"][is_detailed], 0).sum())
        for stage in wire.STAGES
    }
    known_ns["other"] += max(0, wall_ns - sum(known_ns.values()))
    return {stage: ns / wall_ns for stage, ns in known_ns.items() if ns}
