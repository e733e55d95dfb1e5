"""G115."""

from typing import Final

from gapless.catalogue.at_home import making_ns, start_ns, without_workers
from gapless.catalogue.examples import cpu, fed, gpu, loader, machine
from gapless.catalogue.loading import evidence, waited
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.windowed import ms
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_SHORTER: Final = 0.95  # of a step: what it would take without workers, at most
_READY: Final = loader(num_workers=2, prefetch_factor=2)
_SHORT: Final = loader(num_workers=2, prefetch_factor=2, iterations=10)
_STEP: Final = {"busy.math": 10.0, "idle.data.hand-over": 6.0}


@rule(
    "G115",
    "needless-workers",
    since="0.1",
    figures=[
        Figure(
            "Samples that lie in memory, handed over by workers",
            "2 workers make batches in 1.9 ms, and the training waits 6.0 ms of each 16.0 ms step "
            "for them: made by the training process itself, a step could take 11.4 ms.",
            seen(
                cpu(_READY, machine(cpus=2)),
                _STEP,
                used(_READY, {"hand-over": 6.0}, made_by(2, {"other": 0.01, "collate": 0.02})),
            ),
        ),
        Figure(
            "Epochs of a few batches, for which workers are started each time",
            "2 workers make batches in 1.9 ms, and the training waits 1.0 ms of each 15.0 ms step "
            "for them, and 3.6 ms for their start: made by the training process itself, a step "
            "could take 11.8 ms.",
            seen(
                gpu(_SHORT),
                {"busy.math": 10.0, "idle.data.hand-over": 1.0, "idle.data.start-up": 4.0},
                used(
                    _SHORT,
                    {"hand-over": 1.0},
                    made_by(2, {"other": 0.01, "collate": 0.02}),
                    restart_ns=400_000_000,
                ),
            ),
        ),
        Figure(
            "Images that are decoded",
            None,
            seen(
                gpu(fed()),
                {"busy.math": 40.0, "idle.data.hand-over": 6.0},
                used(fed(), {"hand-over": 6.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
        Figure(
            "No workers",
            None,
            seen(
                cpu(loader()),
                {"busy.math": 10.0, "idle.data.other": 6.0},
                used(loader(), {"other": 6.0}, made_by(0, {"other": 0.2})),
            ),
        ),
        Figure(
            "Nobody waits for them",
            None,
            seen(
                cpu(_READY),
                {"busy.math": 99.9, "idle.data.hand-over": 0.1},
                used(_READY, {"hand-over": 0.1}, made_by(2, {"other": 0.01, "collate": 0.02})),
            ),
        ),
    ],
)
def needless_workers(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise workers that take longer to hand a batch over than it takes to make one.

    ## Why it costs time
    A worker is a process: it is started for each epoch, it writes each batch into shared memory,
    and the training thread opens it there. On a CPU it also takes a processor from the training.
    Samples that lie in memory are put together in less time than that.

    ## How it is measured
    By what making a batch takes, waiting for a processor left out, beside what the training waits
    for one and for workers to start, each recorded for the whole run. Putting samples together
    takes the training process less than a worker, whose memory is new for each batch: 0.6 of it is
    reckoned with, 0.25 to all of it for the price. It is a cause where a step with its batch made
    at home would be a twentieth shorter. Where handing over takes longer than
    the size of a batch explains, that is the cause (hand-over-bound).
    """
    one = waited(seen, loader) if loader.num_workers else None
    if one is None:
        return None
    gone = without_workers(one, seen.share("busy."))
    if gone.mid < 1 - _SHORTER:
        return None
    start, home = start_ns(one), one.step_ns * (1 - gone.mid)
    begun = f", and {ms(start)} for their start" if start >= (1 - _SHORTER) * home else ""
    many = "1 worker makes" if loader.num_workers == 1 else f"{loader.num_workers} workers make"
    return needless_workers.loss(
        f"{many} batches in {ms(one.fetch_ns)}, and the training waits {ms(one.wait_ns)} of each "
        f"{ms(one.step_ns)} step for them{begun}: made by the training process itself, a step "
        f"could take {ms(home)}.",
        Feed(loader.id, num_workers=0),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("making a batch, in a worker", one.fetch_ns, "ns"),
            Measure("made by the training process, about", making_ns(one).mid, "ns"),
            Measure("starting workers, a batch", start, "ns"),
        ),
        helps=(one.asked("more-workers", 0),),
        unless="hand-over-bound",
    )
