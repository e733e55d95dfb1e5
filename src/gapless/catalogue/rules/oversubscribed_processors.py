"""G103."""

from typing import Final

from gapless.catalogue.examples import cpu, fed, gpu, loader, machine
from gapless.catalogue.loading import QUEUED, Loading, evidence, percent, waited
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.run import Others
from gapless.model.seen import Seen

_STEP: Final = {"busy.math": 60.0, "idle.data.decode": 40.0}
_EIGHT: Final = fed()
_MUCH: Final = 0.25  # of the processors
_FOUR: Final = loader(num_workers=4, prefetch_factor=2)
_TWO: Final = loader(num_workers=2, prefetch_factor=2)


@rule(
    "G103",
    "oversubscribed-processors",
    since="0.1",
    figures=[
        Figure(
            "Eight workers on two processors",
            "8 workers and 2 threads of the training share 2 processors: a worker waits for one "
            "60 % of the time that it works.",
            seen(
                cpu(_EIGHT),
                _STEP,
                used(
                    _EIGHT,
                    {"decode": 40.0},
                    made_by(8, {"decode": 1.0}, on_cpu=0.4, run_queue=0.6, blocked=0.0),
                ),
            ),
        ),
        Figure(
            "Two workers, and libraries with threads of their own in each",
            "2 workers share 16 processors: a worker waits for one 50 % of the time that it works.",
            seen(
                gpu(_TWO),
                _STEP,
                used(
                    _TWO,
                    {"decode": 40.0},
                    made_by(2, {"decode": 1.0}, on_cpu=0.5, run_queue=0.5, blocked=0.0),
                ),
            ),
        ),
        Figure(
            "Four workers with four threads each on two processors",
            "4 workers with 4 threads each and 2 threads of the training share 2 processors: a "
            "worker waits for one 50 % of the time that it works.",
            seen(
                cpu(_FOUR),
                _STEP,
                used(
                    _FOUR,
                    {"decode": 40.0},
                    made_by(4, {"decode": 1.0}, on_cpu=0.5, run_queue=0.5, blocked=0.0, threads=4),
                ),
            ),
        ),
        Figure(
            "Others took the processors",
            None,
            seen(
                gpu(_TWO, machine(cpus=16, intra_op_threads=8)),
                _STEP,
                used(
                    _TWO,
                    {"decode": 40.0},
                    made_by(2, {"decode": 1.0}, on_cpu=0.5, run_queue=0.5, blocked=0.0, threads=1),
                ),
                Others(12.0, 0.0, 16),
            ),
        ),
        Figure(
            "Processors are free",
            None,
            seen(
                gpu(_EIGHT),
                _STEP,
                used(_EIGHT, {"decode": 40.0}, made_by(8, {"decode": 1.0}, run_queue=0.05)),
            ),
        ),
        Figure(
            "Eight workers on two processors, whom nobody waits for",
            None,
            seen(
                gpu(_EIGHT, machine(cpus=2)),
                {"busy.math": 100.0},
                used(_EIGHT, {"hand-over": 0.2}, made_by(8, {"decode": 1.0}, run_queue=0.5)),
            ),
        ),
    ],
)
def oversubscribed_processors(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise more workers and threads than there are processors for.

    ## Why it costs time
    Workers that wait for a processor make no batch sooner than fewer would, and pay for being
    switched. Threads of the training's own operators spin while they wait, and take processors from
    workers. Libraries in workers (OpenCV, BLAS) start a thread for each processor, in each worker.

    ## How it is measured
    By Linux's own count of the time in which a worker could run and had no processor
    (``/proc/thread-self/schedstat``), around each fetch, and by ``torch.get_num_threads()`` in the
    training and in each worker. Where each of these threads has a processor, and others took a
    quarter of them while the run was recorded, it is those that workers wait for: the report's list
    of the machine tells.
    """
    one = waited(seen, loader) if loader.num_workers else None
    if one is None:
        return None
    queued = one.queued
    if queued < QUEUED or _by_others(seen, one):
        return None
    workers, threads = _room(one)
    return oversubscribed_processors.loss(
        f"{_crowd(one)} share {one.machine.own} processors: a worker waits for one "
        f"{percent(queued)} of the time that it works.",
        _room_made(one, workers, threads),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("workers wait for a processor", queued, "share"),
            Measure("processors", one.machine.own, ""),
            Measure("threads of the training", one.machine.threads or "?", ""),
        ),
        helps=_helps(one, workers, threads),
    )


def _team(one: Loading) -> int:
    """Give the threads of operators in a worker, if those of all crowd the processors; else 1."""
    threads = one.workers.threads or 1
    return threads if threads * one.loader.num_workers > one.machine.own else 1


def _room(one: Loading) -> tuple[int, int | None]:
    """Give how many workers, and threads beside them, have a processor each."""
    machine = one.machine
    workers = min(one.loader.num_workers, max(1, one.most()))
    threads = machine.threads or 1
    if not machine.computes or threads == 1 or threads + workers <= machine.own:
        return workers, None
    return workers, max(1, machine.own - workers)


def _room_made(one: Loading, workers: int, threads: int | None) -> Feed:
    """Give the change that leaves each a processor; where counts allow it already, libraries'."""
    if _team(one) > 1 or (workers == one.loader.num_workers and threads is None):
        return Feed(one.loader.id, worker_threads=1)
    return Feed(one.loader.id, num_workers=workers, intra_op_threads=threads)


def _crowd(one: Loading) -> str:
    many, threads = one.loader.num_workers, one.machine.threads
    words = f"{many} worker{'s' if many > 1 else ''}"
    if _team(one) > 1:
        words += f" with {_team(one)} threads each"
    if one.machine.computes and threads is not None and threads > 1:
        return f"{words} and {threads} threads of the training"
    return words


def _helps(one: Loading, workers: int, threads: int | None) -> tuple[str, ...]:
    fewer = (one.asked("more-workers", workers),) if workers < one.loader.num_workers else ()
    own = () if threads is None else (f"intra-op-threads={threads}",)
    alone = one.asked("worker-threads", 1)
    return (alone, *own, *fewer) if _team(one) > 1 else (*own, *fewer, alone)


def _by_others(seen: Seen, one: Loading) -> bool:
    """Tell whether the run has a processor for each of its threads, and others took some of them.

    That workers have no libraries' threads beside torch's is not known where theirs are not.
    """
    recorded = seen.study.recorded
    others = None if recorded is None else recorded.others
    threads, workers = one.machine.threads or 1, one.workers.threads
    if others is None or workers is None or others.cores < _MUCH * one.machine.own:
        return False
    return threads + workers * one.loader.num_workers <= one.machine.own
