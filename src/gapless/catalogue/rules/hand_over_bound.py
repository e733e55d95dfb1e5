"""G111."""

from typing import Final

from gapless.catalogue.examples import fed, gpu, loader
from gapless.catalogue.lateness import handed_over_late
from gapless.catalogue.loading import QUEUED, Loading, evidence, percent, waited
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.windowed import ms, size
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_BY_HAND: Final = (
    "Let a batch be few tensors, and large ones, instead of many small ones; hand it over in the "
    "type in which it is stored (uint8 images) and convert on the GPU; leave out what the training "
    "does not use."
)


@rule(
    "G111",
    "hand-over-bound",
    since="0.1",
    figures=[
        Figure(
            "A batch of thousands of small tensors",
            "Batches are made in time, and handing one over takes 12.0 ms (86 % of the wait for "
            "it; a batch is 40 MB).",
            seen(
                gpu(fed()),
                {"busy.math": 40.0, "idle.data.hand-over": 12.0, "idle.data.decode": 2.0},
                used(fed(), {"hand-over": 12.0, "decode": 2.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
        Figure(
            "No workers",
            None,
            seen(
                gpu(),
                {"busy.math": 40.0, "idle.data.other": 12.0},
                used(loader(), {"other": 2.0, "hand-over": 10.0}, made_by(0, {"other": 0.1})),
            ),
        ),
        Figure(
            "Processors are wanted by more than there are",
            None,
            seen(
                gpu(fed()),
                {"busy.math": 40.0, "idle.data.hand-over": 12.0},
                used(
                    fed(),
                    {"hand-over": 12.0},
                    made_by(8, {"decode": 1.0}, on_cpu=0.5, run_queue=0.5, blocked=0.0),
                ),
            ),
        ),
        Figure(
            "Thousands of small tensors, on processors that are wanted: that alone explains little",
            "Batches are made in time, and handing one over takes 30.0 ms (94 % of the wait for "
            "it; a batch is 40 MB).",
            seen(
                gpu(fed()),
                {"busy.math": 40.0, "idle.data.hand-over": 30.0, "idle.data.decode": 2.0},
                used(
                    fed(),
                    {"hand-over": 30.0, "decode": 2.0},
                    made_by(8, {"decode": 0.1}, on_cpu=0.7, run_queue=0.3, blocked=0.0),
                ),
            ),
        ),
        Figure(
            "Batches are late",
            None,
            seen(
                gpu(fed()),
                {"busy.math": 40.0, "idle.data.hand-over": 2.0, "idle.data.decode": 30.0},
                used(fed(), {"hand-over": 2.0, "decode": 30.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
    ],
)
def hand_over_bound(seen: Seen, loader: Loader) -> Loss | None:
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
    one = waited(seen, loader) if loader.num_workers else None
    if one is None:
        return None
    share = one.use.hand_over_ns / one.use.wait_ns
    over = share * one.wait_ns
    if not handed_over_late(one) or not _is_long(one, over):
        return None
    pinning = one.use.stages.get("data.pin", 0) / one.use.wait_ns * one.wait_ns
    batch = "" if loader.batch_bytes is None else f"; a batch is {size(loader.batch_bytes)}"
    return hand_over_bound.loss(
        f"Batches are made in time, and handing one over takes {ms(over)} ({percent(share)} of the "
        f"wait for it{batch}).",
        Feed(loader.id, stages=dict.fromkeys(("hand-over", "pin"), one.hand_over_ns / over)),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("handing over", over, "ns"),
            Measure("of that, pinning", pinning, "ns"),
            Measure("usual for such a batch", one.hand_over_ns, "ns"),
        ),
        no_remedy=_BY_HAND,
    )


def _is_long(one: Loading, over: float) -> bool:
    """Tell whether handing over takes longer than its size explains, and the want of processors.

    The thread of a worker that sends a batch may wait for the one that makes the next.
    """
    if one.queued < QUEUED:
        return over > one.hand_over_ns
    return over * (1 - one.queued) > one.hand_over_most_ns + one.fetch_ns
