"""Workers that cost more than they save."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.more_workers import more_workers
from gapless.catalogue.queries.input.loaders import find_waited_loading, measure_loading
from gapless.catalogue.queries.input.without_workers import (
    estimate_own_batch_ns,
    estimate_without_workers,
    restart_ns_per_batch,
)
from gapless.catalogue.queries.windows import ms
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MAX_STEP_RATIO: Final = 0.95  # of a step, without workers


@rule(
    "G115",
    "needless-workers",
    figures="""
    ready_loader = loader(num_workers=2, prefetch_factor=2)
    short_loader = loader(num_workers=2, prefetch_factor=2, iterations=10)
    # Samples that lie in memory, handed over by workers
    > 2 workers make batches in 1.9 ms, and the training waits 6.0 ms of each 16.0 ms step for them:
      if the training process made them itself, a step could take 11.4 ms.
    cpu(ready_loader, machine(cpus=2))
    busy.math 10.0, idle.data.hand-over 6.0
    example_use(ready_loader, {"hand-over": 6.0}, example_workers(2, {"other": 0.01, "collate":
      0.02}))
    # Epochs of a few batches, for which workers are started each time
    > 2 workers make batches in 1.9 ms, and the training waits 1.0 ms of each 15.0 ms step for them,
      and 3.6 ms for their start: if the training process made them itself, a step could take 11.8
      ms.
    gpu(short_loader)
    busy.math 10.0, idle.data.hand-over 1.0, idle.data.start-up 4.0
    example_use(short_loader, {"hand-over": 1.0}, example_workers(2, {"other": 0.01, "collate":
      0.02}), restart_ns=400_000_000)
    # Others take the processors that workers wait for: the training process would, too
    cpu(ready_loader, machine(cpus=2))
    busy.math 4.0, idle.data.other 50.0
    example_use(ready_loader, {"other": 50.0}, example_workers(1, {"other": 0.4}, on_cpu=0.5,
      run_queue=0.5))
    CpuContention(1.9, 0.0, 2)
    # Images that are decoded
    gpu(worker_loader())
    busy.math 40.0, idle.data.hand-over 6.0
    example_use(worker_loader(), {"hand-over": 6.0}, example_workers(8, {"decode": 1.0}))
    # No workers
    cpu(loader())
    busy.math 10.0, idle.data.other 6.0
    example_use(loader(), {"other": 6.0}, example_workers(0, {"other": 0.2}))
    # Nobody waits for them
    cpu(ready_loader)
    busy.math 99.9, idle.data.hand-over 0.1
    example_use(ready_loader, {"hand-over": 0.1}, example_workers(2, {"other": 0.01, "collate":
      0.02}))
    """,
)
def needless_workers(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise workers that take longer to hand a batch over than it takes to make one.

    ## Why it costs time
    A worker is a process: it is started for each epoch, it writes each batch into shared memory,
    and the training thread opens it there. On a CPU it also takes a processor from the training.
    Samples that are in memory are collated in less time than that.

    ## How it is measured
    The time to make a batch, without waits for a processor, except for those that other processes
    took, is compared with the time that the
    training waits for one and for workers to start, each recorded for the whole run. Collating
    takes the training process less time than a worker, whose memory is new for each batch: 0.6 of
    it is assumed, 0.25 to all of it for the price. It is a cause if a step that makes its own batch
    would be a twentieth shorter. If handing over takes longer than the size of a batch explains,
    that is the cause (hand-over-bound).
    """
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None:
        return None
    saving = estimate_without_workers(loading, evidence)
    if saving.mid < 1 - _MAX_STEP_RATIO:
        return None
    start, home_ns = restart_ns_per_batch(loading), loading.step_ns * (1 - saving.mid)
    start_words = (
        f", and {ms(start)} for their start" if start >= (1 - _MAX_STEP_RATIO) * home_ns else ""
    )
    subject = "1 worker makes" if loader.num_workers == 1 else f"{loader.num_workers} workers make"
    return needless_workers.detection(
        f"{subject} batches in {ms(loading.fetch_ns)}, and the training waits "
        f"{ms(loading.wait_ns)} of each {ms(loading.step_ns)} step for them{start_words}: if the "
        f"training process made them itself, a step could take {ms(home_ns)}.",
        LoaderChange(loader.id, num_workers=0),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("making a batch, in a worker", loading.fetch_ns, "ns"),
            Measure(
                "made by the training process, about", estimate_own_batch_ns(loading).mid, "ns"
            ),
            Measure("starting workers, a batch", start, "ns"),
        ),
        helps=(loading.request(more_workers, 0),),
        unless="hand-over-bound",
    )
