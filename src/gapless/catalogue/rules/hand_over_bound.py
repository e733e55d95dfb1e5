"""G111."""

from typing import Final

from gapless.catalogue.examples import worker_loader, gpu, loader
from gapless.catalogue.lateness import is_handed_over_late
from gapless.catalogue.loading import MIN_QUEUE_SHARE, Loading, measure_loading, percent, find_waited_loading
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of
from gapless.catalogue.seen_parts import example_workers, example_use
from gapless.catalogue.windowed import ms, format_size
from gapless.model.change import LoaderChange
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence

_MANUAL_REMEDY: Final = (
    "Let a batch be few tensors, and large ones, instead of many small ones; hand it over in the "
    "type in which it is stored (uint8 images) and convert on the GPU; leave out what the training "
    "does not use."
)


@rule(
    "G111",
    "hand-over-bound",
    since="0.1",
    figures=[
        RuleFigure(
            "A batch of thousands of small tensors",
            "Batches are made in time, and handing one over takes 12.0 ms (86 % of the wait for "
            "it; a batch is 40 MB).",
            evidence_of(
                gpu(worker_loader()),
                {"busy.math": 40.0, "idle.data.hand-over": 12.0, "idle.data.decode": 2.0},
                example_use(worker_loader(), {"hand-over": 12.0, "decode": 2.0}, example_workers(8, {"decode": 1.0})),
            ),
        ),
        RuleFigure(
            "No workers",
            None,
            evidence_of(
                gpu(),
                {"busy.math": 40.0, "idle.data.other": 12.0},
                example_use(loader(), {"other": 2.0, "hand-over": 10.0}, example_workers(0, {"other": 0.1})),
            ),
        ),
        RuleFigure(
            "Processors are wanted by more than there are",
            None,
            evidence_of(
                gpu(worker_loader()),
                {"busy.math": 40.0, "idle.data.hand-over": 12.0},
                example_use(
                    worker_loader(),
                    {"hand-over": 12.0},
                    example_workers(8, {"decode": 1.0}, on_cpu=0.5, run_queue=0.5, blocked=0.0),
                ),
            ),
        ),
        RuleFigure(
            "Thousands of small tensors, on processors that are wanted: that alone explains little",
            "Batches are made in time, and handing one over takes 30.0 ms (94 % of the wait for "
            "it; a batch is 40 MB).",
            evidence_of(
                gpu(worker_loader()),
                {"busy.math": 40.0, "idle.data.hand-over": 30.0, "idle.data.decode": 2.0},
                example_use(
                    worker_loader(),
                    {"hand-over": 30.0, "decode": 2.0},
                    example_workers(8, {"decode": 0.1}, on_cpu=0.7, run_queue=0.3, blocked=0.0),
                ),
            ),
        ),
        RuleFigure(
            "Batches are late",
            None,
            evidence_of(
                gpu(worker_loader()),
                {"busy.math": 40.0, "idle.data.hand-over": 2.0, "idle.data.decode": 30.0},
                example_use(worker_loader(), {"hand-over": 2.0, "decode": 30.0}, example_workers(8, {"decode": 1.0})),
            ),
        ),
    ],
)
def hand_over_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise batches that are ready, and take long to come from a worker to the training.

    ## Why it costs time
    A worker sends a handle for each tensor of a batch, and the training thread opens each of them
    and puts the batch together again; with pinned memory a thread of the training process copies it
    once more. No number of workers makes that shorter: it is the floor of loading by processes.

    ## How it is measured
    The part of each wait after the worker had made the batch, pinning included. It is a cause where
    it is longer than a batch of that size usually takes as few tensors. Where workers wait for
    processors everything takes longer: then that share is taken off first, and what is left must be
    longer than it took on any machine and making the next batch beside it takes.
    """
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None:
        return None
    share = loading.use.hand_over_ns / loading.use.wait_ns
    hand_over_ns = share * loading.wait_ns
    if not is_handed_over_late(loading) or not _is_long(loading, hand_over_ns):
        return None
    pinning_ns = loading.use.stages.get("data.pin", 0) / loading.use.wait_ns * loading.wait_ns
    size_words = "" if loader.batch_bytes is None else f"; a batch is {format_size(loader.batch_bytes)}"
    return hand_over_bound.detection(
        f"Batches are made in time, and handing one over takes {ms(hand_over_ns)} ({percent(share)} of the "
        f"wait for it{size_words}).",
        LoaderChange(loader.id, stages=dict.fromkeys(("hand-over", "pin"), loading.hand_over_ns / hand_over_ns)),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("handing over", hand_over_ns, "ns"),
            Measure("of that, pinning", pinning_ns, "ns"),
            Measure("usual for such a batch", loading.hand_over_ns, "ns"),
        ),
        no_remedy=_MANUAL_REMEDY,
    )


def _is_long(loading: Loading, hand_over_ns: float) -> bool:
    """Return whether handing over takes longer than its size explains, and the want of processors.

    The thread of a worker that sends a batch may wait for the one that makes the next.
    """
    if loading.queue_share < MIN_QUEUE_SHARE:
        return hand_over_ns > loading.hand_over_ns
    return hand_over_ns * (1 - loading.queue_share) > loading.max_hand_over_ns + loading.fetch_ns
