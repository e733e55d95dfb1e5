"""G105."""

from dataclasses import replace
from typing import Final

from gapless.catalogue.examples import fed, gpu, loader
from gapless.catalogue.loading import Loading, evidence, loading
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.windowed import ms
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_OFTEN: Final = 2  # iterations: of a single one nothing was started again
_LONG: Final = 4.0  # times a usual fetch: then more than making it is in the first
_EPOCHS: Final = fed(iterations=5)
_TWO: Final = loader(num_workers=2, prefetch_factor=2, iterations=5)
_TESTS: Final = fed(id=1, iterations=5)
_KEPT: Final = fed(iterations=5, persistent_workers=True)
_ANEW: Final = fed(iterations=1)
_STEP: Final = {"busy.math": 80.0, "idle.data.start-up": 20.0}


@rule(
    "G105",
    "restarted-workers",
    since="0.1",
    figures=[
        Figure(
            "Short epochs",
            "8 workers start anew for each of 50 epochs: 4.0 ms until they run and 5.0 ms for the "
            "first batch, where a usual one takes 0.64 ms, every 2 steps.",
            drawing="""
                step    aaaaaaaaaaaaabbbbbbb
                main    ttttwwwwwlLsswlLsspp
                gpu     .........mmee.mmee..
            """,
            facts=gpu(fed(iterations=50)),
            parts=(
                used(
                    fed(iterations=50),
                    {"start-up": 2.5, "hand-over": 0.5},
                    made_by(8, {"decode": 0.01}),
                    restart_ns=50 * 4_000_000,
                    first_ns=5_000_000,
                ),
            ),
        ),
        Figure(
            "Each worker reads a table when it is first asked",
            "2 workers start anew for each of 5 epochs: 80.0 ms until they run and 660.0 ms for "
            "the first batch, where a usual one takes 7.0 ms, every 20 steps.",
            seen(
                gpu(_TWO),
                {"busy.math": 60.0, "idle.data.other": 36.0, "idle.data.start-up": 4.0},
                used(
                    _TWO,
                    {"other": 36.0},
                    made_by(2, {"other": 0.6}, fetch_median_ns=7_000_000),
                    restart_ns=5 * 80_000_000,
                    first_ns=660_000_000,
                ),
            ),
        ),
        Figure(
            "A loader that is made anew for each epoch",
            "8 workers start anew for each of 5 epochs: 300.0 ms until they run and 400.0 ms for "
            "the first batch, where a usual one takes 64.0 ms, every 20 steps.",
            seen(
                gpu(_EPOCHS),
                _STEP,
                used(
                    _EPOCHS,
                    {"start-up": 20.0},
                    made_by(8, {"decode": 1.0}),
                    restart_ns=5 * 300_000_000,
                    first_ns=400_000_000,
                    made=5,
                ),
            ),
        ),
        Figure(
            "Workers that live on",
            None,
            seen(
                gpu(_KEPT),
                {"busy.math": 99.0, "idle.data.start-up": 1.0},
                used(_KEPT, {"start-up": 1.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
        Figure(
            "One epoch",
            None,
            seen(
                gpu(_ANEW),
                {"busy.math": 99.0, "idle.data.start-up": 1.0},
                used(_ANEW, {"start-up": 1.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
        Figure(
            "A loader of tests, while another trains",
            None,
            seen(
                gpu(_ANEW, replace(_TESTS, trains=None)),
                _STEP,
                used(_ANEW, {"hand-over": 1.0}, made_by(8, {"decode": 1.0})),
                used(_TESTS, {"start-up": 19.0}, made_by(8, {"decode": 1.0}), restart_ns=10**9),
            ),
        ),
        Figure(
            "No workers",
            None,
            seen(
                gpu(loader(iterations=5)),
                _STEP,
                used(loader(iterations=5), {"main": 20.0}, made_by(0, {"decode": 1.0})),
            ),
        ),
    ],
)
def restarted_workers(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise workers that are ended and started again for each epoch.

    ## Why it costs time
    Each ``iter(loader)`` starts the workers, and the training waits until the first of them has
    made the first batch; at the end it waits until they are gone. With short epochs, a large data
    set object or workers that are spawned this is a good part of the run.

    ## How it is measured
    The recorder marks ``iter(loader)`` itself: no window of the profiler shows it as loading. What
    it takes, and the wait for the first batch of each iteration, are means over the run. A first
    batch that takes much longer than a usual one shows what each worker does when it is first asked
    (it opens or reads the data set); workers that live on do it once. Only of a loader that trains.
    """
    one = loading(seen, loader) if loader.num_workers else None
    if one is None or loader.persistent_workers or one.use.iterations < _OFTEN:
        return None
    if loader.trains is None and any(other.trains for other in one.facts.loaders):
        return None
    use = one.use
    start = use.restart_ns / use.iterations
    return restarted_workers.loss(
        f"{_workers(loader)} anew for each of {use.iterations} epochs: {ms(start)} until they run "
        f"and {ms(use.first_ns or 0)} for the first batch{_beyond(one)}, every {_every(one)} "
        "steps.",
        Feed(loader.id, persistent_workers=True),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("iterations", use.iterations, ""),
            Measure("to begin and end one", start, "ns"),
            Measure("first batch of one", use.first_ns or "?", "ns" if use.first_ns else ""),
        ),
        helps=(one.asked("persistent-workers"),) if use.made == 1 else (),
        no_remedy=None
        if use.made == 1
        else "Make the loader once, before the loop over epochs, with persistent_workers=True: as "
        "it is made anew each time, its workers cannot live on.",
    )


def _workers(loader: Loader) -> str:
    return "1 worker starts" if loader.num_workers == 1 else f"{loader.num_workers} workers start"


def _beyond(one: Loading) -> str:
    """Say what a usual batch takes, where the first of an iteration takes far longer."""
    usual, first = one.workers.fetch_median_ns or 0, one.use.first_ns or 0
    return f", where a usual one takes {ms(usual)}" if usual and first > _LONG * usual else ""


def _every(one: Loading) -> int:
    return round(one.use.waits / one.use.iterations)
