"""More workers and threads than processors."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.catalogue.fixes.input.more_workers import more_workers
from gapless.catalogue.fixes.input.worker_threads import worker_threads
from gapless.catalogue.queries.input.loaders import (
    MIN_QUEUE_SHARE,
    Loading,
    find_waited_loading,
    measure_loading,
    percent,
)
from gapless.model.change import LoaderChange
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_TAKEN_SHARE: Final = 0.25  # of the processors


@rule(
    "G103",
    "oversubscribed-processors",
    figures="""
    eight_workers = worker_loader()
    four_workers = loader(num_workers=4, prefetch_factor=2)
    two_workers = loader(num_workers=2, prefetch_factor=2)
    # Eight workers on two processors
    > 8 workers and 2 threads of the training share 2 processors: a worker waits for one 60 % of the
      time that it works.
    cpu(eight_workers)
    busy.math 60.0, idle.data.decode 40.0
    example_use(eight_workers, {"decode": 40.0}, example_workers(8, {"decode": 1.0}, on_cpu=0.4,
      run_queue=0.6, blocked=0.0))
    # Two workers, and libraries with threads of their own in each
    > 2 workers share 16 processors: a worker waits for one 50 % of the time that it works.
    gpu(two_workers)
    busy.math 60.0, idle.data.decode 40.0
    example_use(two_workers, {"decode": 40.0}, example_workers(2, {"decode": 1.0}, on_cpu=0.5,
      run_queue=0.5, blocked=0.0))
    # Four workers with four threads each on two processors
    > 4 workers with 4 threads each and 2 threads of the training share 2 processors: a worker waits
      for one 50 % of the time that it works.
    cpu(four_workers)
    busy.math 60.0, idle.data.decode 40.0
    example_use(four_workers, {"decode": 40.0}, example_workers(4, {"decode": 1.0}, on_cpu=0.5,
      run_queue=0.5, blocked=0.0, threads=4))
    # Others took the processors
    gpu(two_workers, machine(cpus=16, intra_op_threads=8))
    busy.math 60.0, idle.data.decode 40.0
    example_use(two_workers, {"decode": 40.0}, example_workers(2, {"decode": 1.0}, on_cpu=0.5,
      run_queue=0.5, blocked=0.0, threads=1))
    CpuContention(12.0, 0.0, 16)
    # Processors are free
    gpu(eight_workers)
    busy.math 60.0, idle.data.decode 40.0
    example_use(eight_workers, {"decode": 40.0}, example_workers(8, {"decode": 1.0},
      run_queue=0.05))
    # Two workers of one thread on two processors, of which others took more than one
    gpu(two_workers, machine(cpus=2))
    busy.math 10.0, idle.data.decode 30.0
    example_use(two_workers, {"decode": 30.0}, example_workers(2, {"decode": 1.0}, run_queue=0.7,
      on_cpu=0.3, threads=1))
    CpuContention(1.2, 0.0, 2)
    # Eight workers on two processors, for which nothing waits
    gpu(eight_workers, machine(cpus=2))
    busy.math 100.0
    example_use(eight_workers, {"hand-over": 0.2}, example_workers(8, {"decode": 1.0},
      run_queue=0.5))
    """,
)
def oversubscribed_processors(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise more workers and threads than there are processors for.

    ## Why it costs time
    Workers that wait for a processor make no batch sooner than fewer workers would, and pay for
    context switches. Threads of the training's own operators spin while they wait, and take
    processors from workers. Libraries in workers (OpenCV, BLAS) start a thread for each processor,
    in each worker.

    ## How it is measured
    By Linux's own count of the time in which a worker was runnable without a processor
    (``/proc/thread-self/schedstat``), around each fetch, and by ``torch.get_num_threads()`` in the
    training and in each worker. If each of these threads has a processor, or none can be cut, and
    other processes took a quarter of them during the recording, workers wait for those: see the
    machine in the report.
    """
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None:
        return None
    queue_share = loading.queue_share
    if queue_share < MIN_QUEUE_SHARE or _is_others_load(evidence, loading):
        return None
    workers, threads = _fitting_counts(loading)
    return oversubscribed_processors.detection(
        f"{_describe_crowd(loading)} share {loading.processors.count} processors: a worker waits "
        f"for one {percent(queue_share)} of the time that it works.",
        _change_to_fit(loading, workers, threads),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("workers wait for a processor", queue_share, "share"),
            Measure("processors", loading.processors.count, ""),
            Measure("threads of the training", loading.processors.threads or "?", ""),
        ),
        helps=_choose_fixes(loading, workers, threads),
    )


def _worker_threads(loading: Loading) -> int:
    """Return the operator threads of a worker if they crowd the processors; else 1."""
    threads = loading.workers.threads or 1
    return threads if threads * loading.loader.num_workers > loading.processors.count else 1


def _fitting_counts(loading: Loading) -> tuple[int, int | None]:
    """Return how many workers, and threads beside them, can have a processor each."""
    machine = loading.processors
    workers = min(loading.loader.num_workers, max(1, loading.max_workers()))
    threads = machine.threads or 1
    if not machine.computes or threads == 1 or threads + workers <= machine.count:
        return workers, None
    return workers, max(1, machine.count - workers)


def _change_to_fit(loading: Loading, workers: int, threads: int | None) -> LoaderChange:
    """Return the change after which each has a processor: of counts, or of threads in workers."""
    if _worker_threads(loading) > 1 or (workers == loading.loader.num_workers and threads is None):
        return LoaderChange(loading.loader.id, worker_threads=1)
    return LoaderChange(loading.loader.id, num_workers=workers, intra_op_threads=threads)


def _describe_crowd(loading: Loading) -> str:
    n_workers, threads = loading.loader.num_workers, loading.processors.threads
    words = f"{n_workers} worker{'s' if n_workers > 1 else ''}"
    if _worker_threads(loading) > 1:
        words += f" with {_worker_threads(loading)} threads each"
    if loading.processors.computes and threads is not None and threads > 1:
        return f"{words} and {threads} threads of the training"
    return words


def _choose_fixes(loading: Loading, workers: int, threads: int | None) -> tuple[FixRequest, ...]:
    worker_fixes = (
        (loading.request(more_workers, workers),) if workers < loading.loader.num_workers else ()
    )
    thread_fixes = () if threads is None else (intra_op_threads.request(threads),)
    library_fix = loading.request(worker_threads, 1)
    return (
        (library_fix, *thread_fixes, *worker_fixes)
        if _worker_threads(loading) > 1
        else (*thread_fixes, *worker_fixes, library_fix)
    )


def _is_others_load(evidence: Evidence, loading: Loading) -> bool:
    """Return whether others took some of the processors, which would do for the run's own threads.

    They would if there is one for each thread, or if nothing can be cut: no worker, no thread. If
    the threads of workers are not known, their libraries may have more.
    """
    contention = evidence.contention
    threads, workers = loading.processors.threads or 1, loading.workers.threads
    if (
        contention is None
        or workers is None
        or contention.cores < _MIN_TAKEN_SHARE * loading.processors.count
    ):
        return False
    if threads + workers * loading.loader.num_workers <= loading.processors.count:
        return True
    return workers == 1 and _fitting_counts(loading) == (loading.loader.num_workers, None)
