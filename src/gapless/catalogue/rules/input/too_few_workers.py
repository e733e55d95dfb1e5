"""Too few workers."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.traps import find_workers_trap
from gapless.catalogue.fixes.input.workers_and_one_thread import request_workers
from gapless.catalogue.queries.input.data_waits import detect_late_workers
from gapless.catalogue.queries.input.late_batches import is_restart_bound
from gapless.catalogue.queries.input.loaders import (
    Loading,
    change_workers,
    find_waited_loading,
    measure_loading,
)
from gapless.catalogue.queries.input.stages import describe_main_stage
from gapless.catalogue.queries.windows import ms
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_FETCH_RATIO: Final = 1.1  # of the time per batch to that between batches


@rule(
    "G102",
    "too-few-workers",
    figures="""
    two_workers = loader(num_workers=2, prefetch_factor=2)
    stage_waits = {"decode": 30.0, "hand-over": 2.0}
    step = {"busy.math": 20.0, "idle.data.decode": 30.0, "idle.data.hand-over": 2.0}
    # Two workers, sixteen processors
    > 2 workers make a batch every 9.9 ms, where the training needs one every 3.0 ms: 8 would keep
      up. A worker takes 19.8 ms for a batch. Decoding takes 81 % of making one.
    . step    aaaaaaaaaabbbbbbbbbb
    . main    wwwwwwwlLswwwwwwwlLs
    . gpu     .......me........me.
    . worker  dddddcc...dddddcc...
    gpu(two_workers)
    example_use(two_workers, {"decode": 5.0, "collate": 2.0}, example_workers(2, {"decode": 0.25,
      "collate": 0.06}, busy=0.97))
    # Reads that wait for the disk leave their processor to others
    > 2 workers make a batch every 64.0 ms, where the training needs one every 20.0 ms: 8 would keep
      up. A worker takes 128.0 ms for a batch. Reading takes 95 % of making one.
    gpu(two_workers, machine(cpus=2))
    busy.math 20.0, idle.data.decode 30.0, idle.data.hand-over 2.0
    example_use(two_workers, stage_waits, example_workers(2, {"read": (1.9, 0.3), "decode": 0.1},
      busy=0.97))
    # Both processors are at work
    gpu(two_workers, machine(cpus=2))
    busy.math 20.0, idle.data.decode 30.0, idle.data.hand-over 2.0
    example_use(two_workers, stage_waits, example_workers(2, {"decode": 1.5}, busy=0.97))
    # A trace without a recorded run: it is known that they are late
    > Workers make batches more slowly than the training uses them: it waits for them in 40.0 ms of
      each 60.0 ms step; how many workers there are the trace does not tell.
    busy.math 20, idle.data.unstaged 40
    operator("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", calls=1, host_ms=40)
    # A trace in which a batch is handed over, and no more
    busy.math 9, idle.data.unstaged 0.3
    operator("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", calls=1, host_ms=0.3)
    # A long text in some batches: two keep up with the mean, though they are hardly idle
    gpu(two_workers)
    busy.math 70.0, idle.data.decode 28.0, idle.data.hand-over 2.0
    example_use(two_workers, {"decode": 28.0, "hand-over": 2.0}, example_workers(2, {"decode": 2.2},
      busy=0.86, fetch_median_ns=60_000_000))
    # Eight keep up
    gpu(worker_loader())
    busy.math 99.5, idle.data.hand-over 0.5
    example_use(worker_loader(), {"hand-over": 0.5}, example_workers(8, {"decode": 1.5}, busy=0.12))
    """,
)
def too_few_workers(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise workers that are always busy and still too slow, where more could run.

    ## Why it costs time
    Workers make batches in parallel. If one takes six times as long for a batch as the training
    does, six are needed; with fewer the training waits in each step for the difference.

    ## How it is measured
    From the recorder's marks: how long a worker takes for a batch (without waits for a processor),
    and how long the training takes between two batches. It is a cause if all workers together take
    more than a tenth longer than that. If one stage takes most of a fetch, it is named with its
    line: less of it helps as well as more workers. More can run if fetches leave processors free:
    a fetch that waits for the disk nine tenths of its time leaves room for nine others on the same
    processor.

    A trace alone shows that batches come from workers, and how long the device (or without one, the
    step) waits for them, beyond the time to hand a batch over.
    """
    if evidence.is_trace_only:
        return detect_late_workers(too_few_workers, evidence, loader)
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None:
        return None
    n_workers = loading.target_workers()
    batch_ns = loading.fetch_ns / loader.num_workers
    if (
        batch_ns <= _MIN_FETCH_RATIO * loading.work_ns
        or n_workers <= loader.num_workers
        or is_restart_bound(loading)
    ):
        return None
    obstacle = find_workers_trap(loading.facts, loader, n_workers)
    subject = "1 worker makes" if loader.num_workers == 1 else f"{loader.num_workers} workers make"
    limit = (
        "would keep up" if loading.enough_workers() <= n_workers else "is what the processors feed"
    )
    return too_few_workers.detection(
        f"{subject} a batch every {ms(batch_ns)}, where the training needs one every "
        f"{ms(loading.work_ns)}: {n_workers} {limit}. A worker takes {ms(loading.fetch_ns)} for a "
        f"batch.{describe_main_stage(evidence, loading)}",
        change_workers(loading),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            *_busy_measures(loading),
            Measure("a batch in a worker", loading.fetch_ns, "ns"),
            Measure("processors", loading.processors.count, ""),
        ),
        helps=() if obstacle else request_workers(loading),
        no_remedy=None
        if obstacle is None
        else f"More workers cannot be used as it is: {obstacle}.",
    )


def _busy_measures(loading: Loading) -> tuple[Measure, ...]:
    busy_share = loading.workers.busy
    return () if busy_share is None else (Measure("workers are busy", busy_share, "share"),)
