"""Batches that are made in time, and handed over slowly."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.samples.recycled_collate import recycled_collate
from gapless.catalogue.queries.input.late_batches import is_handed_over_late
from gapless.catalogue.queries.input.loaders import (
    MIN_QUEUE_SHARE,
    Loading,
    find_waited_loading,
    measure_loading,
    percent,
)
from gapless.catalogue.queries.windows import format_size, ms
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MANUAL_REMEDY: Final = (
    "Let a batch be few tensors, and large ones, instead of many small ones; hand it over in the "
    "type in which it is stored (uint8 images) and convert on the GPU; leave out what the training "
    "does not use."
)


@rule(
    "G111",
    "hand-over-bound",
    figures="""
    # A batch of thousands of small tensors
    > Batches are made in time, and handing one over takes 12.0 ms (86 % of the wait for it; a batch
      is 40 MB).
    gpu(worker_loader())
    busy.math 40.0, idle.data.hand-over 12.0, idle.data.decode 2.0
    example_use(worker_loader(), {"hand-over": 12.0, "decode": 2.0}, example_workers(8, {"decode":
      1.0}))
    # No workers
    gpu()
    busy.math 40.0, idle.data.other 12.0
    example_use(loader(), {"other": 2.0, "hand-over": 10.0}, example_workers(0, {"other": 0.1}))
    # More threads than processors
    gpu(worker_loader())
    busy.math 40.0, idle.data.hand-over 12.0
    example_use(worker_loader(), {"hand-over": 12.0}, example_workers(8, {"decode": 1.0},
      on_cpu=0.5, run_queue=0.5, blocked=0.0))
    # Thousands of small tensors, on busy processors: those alone explain little
    > Batches are made in time, and handing one over takes 30.0 ms (94 % of the wait for it; a batch
      is 40 MB).
    gpu(worker_loader())
    busy.math 40.0, idle.data.hand-over 30.0, idle.data.decode 2.0
    example_use(worker_loader(), {"hand-over": 30.0, "decode": 2.0}, example_workers(8, {"decode":
      0.1}, on_cpu=0.7, run_queue=0.3, blocked=0.0))
    # Batches are late
    gpu(worker_loader())
    busy.math 40.0, idle.data.hand-over 2.0, idle.data.decode 30.0
    example_use(worker_loader(), {"hand-over": 2.0, "decode": 30.0}, example_workers(8, {"decode":
      1.0}))
    """,
)
def hand_over_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise batches that are ready, and take long to get from a worker to the training.

    ## Why it costs time
    A worker sends a handle for each tensor of a batch; the training thread opens each of them and
    reassembles the batch; with pinned memory a thread of the training process copies it once more.
    No number of workers makes that shorter: it is the minimum cost of loading by processes.

    ## How it is measured
    By the part of each wait after the worker had made the batch, pinning included. It is a cause if
    it is longer than usual for a batch of that size in a few tensors. If workers wait for
    processors, everything takes longer: that share is subtracted first, and the rest must exceed
    the longest time seen on any machine plus the time to make the next batch.
    """
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None:
        return None
    share = loading.use.hand_over_ns / loading.use.wait_ns
    hand_over_ns = share * loading.wait_ns
    if not is_handed_over_late(loading) or not _is_long(loading, hand_over_ns):
        return None
    pinning_ns = loading.use.stages.get("data.pin", 0) / loading.use.wait_ns * loading.wait_ns
    size_words = (
        "" if loader.batch_bytes is None else f"; a batch is {format_size(loader.batch_bytes)}"
    )
    return hand_over_bound.detection(
        f"Batches are made in time, and handing one over takes {ms(hand_over_ns)} "
        f"({percent(share)} of the wait for it{size_words}).",
        LoaderChange(
            loader.id,
            stages=dict.fromkeys(("hand-over", "pin"), loading.hand_over_ns / hand_over_ns),
        ),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("handing over", hand_over_ns, "ns"),
            Measure("of that, pinning", pinning_ns, "ns"),
            Measure("usual for such a batch", loading.hand_over_ns, "ns"),
        ),
        helps=(loading.request(recycled_collate),),
        no_remedy=_MANUAL_REMEDY,
    )


def _is_long(loading: Loading, hand_over_ns: float) -> bool:
    """Return whether handing over takes longer than size and waits for processors explain.

    The thread of a worker that sends a batch may wait for the one that makes the next.
    """
    if loading.queue_share < MIN_QUEUE_SHARE:
        return hand_over_ns > loading.hand_over_ns
    return hand_over_ns * (1 - loading.queue_share) > loading.max_hand_over_ns + loading.fetch_ns
