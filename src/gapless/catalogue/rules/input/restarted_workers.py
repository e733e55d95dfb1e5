"""Workers that are restarted for each epoch."""

from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare.rule import RuleFigure, rule
from gapless.catalogue.examples.evidence import figure
from gapless.catalogue.examples.example_facts import gpu, loader, worker_loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.fixes.input.persistent_workers import persistent_workers
from gapless.catalogue.queries.input.loaders import Loading, find_loading, measure_loading
from gapless.catalogue.queries.windows import ms
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_ITERATIONS: Final = 2  # iterations: a single one has no restart
_MIN_FIRST_RATIO: Final = 4.0  # times a usual fetch: then the first does more
_EPOCH_LOADER: Final = worker_loader(iterations=5)
_TWO_WORKERS: Final = loader(num_workers=2, prefetch_factor=2, iterations=5)
_TEST_LOADER: Final = worker_loader(id=1, iterations=5)
_PERSISTENT_LOADER: Final = worker_loader(iterations=5, persistent_workers=True)
_ONE_EPOCH_LOADER: Final = worker_loader(iterations=1)
_STEP: Final = {"busy.math": 80.0, "idle.data.start-up": 20.0}


@rule(
    "G105",
    "restarted-workers",
    figures=lambda: [
        RuleFigure(
            "Short epochs",
            "8 workers are restarted for each of 50 epochs: 4.0 ms until they run and 5.0 ms for "
            "the first batch, where a usual one takes 0.64 ms, every 2 steps.",
            drawing="""
                step    aaaaaaaaaaaaabbbbbbb
                main    ttttwwwwwlLsswlLsspp
                gpu     .........mmee.mmee..
            """,
            facts=gpu(worker_loader(iterations=50)),
            parts=(
                example_use(
                    worker_loader(iterations=50),
                    {"start-up": 2.5, "hand-over": 0.5},
                    example_workers(8, {"decode": 0.01}),
                    restart_ns=50 * 4_000_000,
                    first_ns=5_000_000,
                ),
            ),
        ),
        figure(
            "Each worker reads a table on first use",
            "2 workers are restarted for each of 5 epochs: 80.0 ms until they run and 660.0 ms "
            "for the first batch, where a usual one takes 7.0 ms, every 20 steps.",
            gpu(_TWO_WORKERS),
            {"busy.math": 60.0, "idle.data.other": 36.0, "idle.data.start-up": 4.0},
            example_use(
                _TWO_WORKERS,
                {"other": 36.0},
                example_workers(2, {"other": 0.6}, fetch_median_ns=7_000_000),
                restart_ns=5 * 80_000_000,
                first_ns=660_000_000,
            ),
        ),
        figure(
            "A loader that is made again for each epoch",
            "8 workers are restarted for each of 5 epochs: 300.0 ms until they run and 400.0 ms "
            "for the first batch, where a usual one takes 64.0 ms, every 20 steps.",
            gpu(_EPOCH_LOADER),
            _STEP,
            example_use(
                _EPOCH_LOADER,
                {"start-up": 20.0},
                example_workers(8, {"decode": 1.0}),
                restart_ns=5 * 300_000_000,
                first_ns=400_000_000,
                made=5,
            ),
        ),
        figure(
            "Persistent workers",
            None,
            gpu(_PERSISTENT_LOADER),
            {"busy.math": 99.0, "idle.data.start-up": 1.0},
            example_use(_PERSISTENT_LOADER, {"start-up": 1.0}, example_workers(8, {"decode": 1.0})),
        ),
        figure(
            "One epoch",
            None,
            gpu(_ONE_EPOCH_LOADER),
            {"busy.math": 99.0, "idle.data.start-up": 1.0},
            example_use(_ONE_EPOCH_LOADER, {"start-up": 1.0}, example_workers(8, {"decode": 1.0})),
        ),
        figure(
            "A loader of tests, while another trains",
            None,
            gpu(_ONE_EPOCH_LOADER, replace(_TEST_LOADER, trains=None)),
            _STEP,
            example_use(_ONE_EPOCH_LOADER, {"hand-over": 1.0}, example_workers(8, {"decode": 1.0})),
            example_use(
                _TEST_LOADER,
                {"start-up": 19.0},
                example_workers(8, {"decode": 1.0}),
                restart_ns=10**9,
            ),
        ),
        figure(
            "No workers",
            None,
            gpu(loader(iterations=5)),
            _STEP,
            example_use(loader(iterations=5), {"main": 20.0}, example_workers(0, {"decode": 1.0})),
        ),
    ],
)
def restarted_workers(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise workers that are ended and started again for each epoch.

    ## Why it costs time
    Each ``iter(loader)`` starts the workers, and the training waits until one of them has made the
    first batch; at the end it waits until they have exited. With short epochs, a large data set
    object or spawned workers this is a good part of the run.

    ## How it is measured
    The recorder marks ``iter(loader)`` itself: no window of the profiler shows it as loading. Its
    duration, and the wait for the first batch of each iteration, are means over the run. A first
    batch that takes much longer than a usual one shows what each worker does on first use (it opens
    or reads the data set); persistent workers do it once. Only loaders that train are considered.
    """
    loading = find_loading(evidence, loader) if loader.num_workers else None
    if loading is None or loader.persistent_workers or loading.use.iterations < _MIN_ITERATIONS:
        return None
    if loader.trains is None and any(other_loader.trains for other_loader in loading.facts.loaders):
        return None
    use = loading.use
    start = use.restart_ns / use.iterations
    return restarted_workers.detection(
        f"{_subject(loader)} restarted for each of {use.iterations} epochs: {ms(start)} until they "
        f"run and {ms(use.first_ns or 0)} for the first batch{_usual_words(loading)}, every "
        f"{_epoch_steps(loading)} steps.",
        LoaderChange(loader.id, persistent_workers=True),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("iterations", use.iterations, ""),
            Measure("to begin and end one", start, "ns"),
            Measure("first batch of one", use.first_ns or "?", "ns" if use.first_ns else ""),
        ),
        helps=(loading.request(persistent_workers),) if use.made == 1 else (),
        no_remedy=None
        if use.made == 1
        else "Make the loader once, before the loop over epochs, with persistent_workers=True: the "
        "workers of a loader that is made again each time cannot persist.",
    )


def _subject(loader: Loader) -> str:
    return "1 worker is" if loader.num_workers == 1 else f"{loader.num_workers} workers are"


def _usual_words(loading: Loading) -> str:
    """Return a phrase on a usual batch, if the first of an iteration takes far longer."""
    usual_ns, first_ns = loading.workers.fetch_median_ns or 0, loading.use.first_ns or 0
    return (
        f", where a usual one takes {ms(usual_ns)}"
        if usual_ns and first_ns > _MIN_FIRST_RATIO * usual_ns
        else ""
    )


def _epoch_steps(loading: Loading) -> int:
    return round(loading.use.waits / loading.use.iterations)
