"""Workers that are restarted for each epoch."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.persistent_workers import persistent_workers
from gapless.catalogue.queries.input.loaders import Loading, find_loading, measure_loading
from gapless.catalogue.queries.windows import ms
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_ITERATIONS: Final = 2  # iterations: a single one has no restart
_MIN_FIRST_RATIO: Final = 4.0  # times a usual fetch: then the first does more


@rule(
    "G105",
    "restarted-workers",
    figures="""
    epoch_loader = worker_loader(iterations=5)
    two_workers = loader(num_workers=2, prefetch_factor=2, iterations=5)
    test_loader = worker_loader(id=1, iterations=5)
    persistent_loader = worker_loader(iterations=5, persistent_workers=True)
    one_epoch_loader = worker_loader(iterations=1)
    step = {"busy.math": 80.0, "idle.data.start-up": 20.0}
    # Short epochs
    > 8 workers are restarted for each of 50 epochs: 4.0 ms until they run and 5.0 ms for the first
      batch, where a usual one takes 0.64 ms, every 2 steps.
    . step    aaaaaaaaaaaaabbbbbbb
    . main    ttttwwwwwlLsswlLsspp
    . gpu     .........mmee.mmee..
    gpu(worker_loader(iterations=50))
    example_use(worker_loader(iterations=50), {"start-up": 2.5, "hand-over": 0.5},
      example_workers(8, {"decode": 0.01}), restart_ns=50 * 4_000_000, first_ns=5_000_000)
    # Each worker reads a table on first use
    > 2 workers are restarted for each of 5 epochs: 80.0 ms until they run and 660.0 ms for the
      first batch, where a usual one takes 7.0 ms, every 20 steps.
    gpu(two_workers)
    busy.math 60.0, idle.data.other 36.0, idle.data.start-up 4.0
    example_use(two_workers, {"other": 36.0}, example_workers(2, {"other": 0.6},
      fetch_median_ns=7_000_000), restart_ns=5 * 80_000_000, first_ns=660_000_000)
    # A loader that is made again for each epoch
    > 8 workers are restarted for each of 5 epochs: 300.0 ms until they run and 400.0 ms for the
      first batch, where a usual one takes 64.0 ms, every 20 steps.
    gpu(epoch_loader)
    busy.math 80.0, idle.data.start-up 20.0
    example_use(epoch_loader, {"start-up": 20.0}, example_workers(8, {"decode": 1.0}), restart_ns=5
      * 300_000_000, first_ns=400_000_000, made=5)
    # Persistent workers
    gpu(persistent_loader)
    busy.math 99.0, idle.data.start-up 1.0
    example_use(persistent_loader, {"start-up": 1.0}, example_workers(8, {"decode": 1.0}))
    # One epoch
    gpu(one_epoch_loader)
    busy.math 99.0, idle.data.start-up 1.0
    example_use(one_epoch_loader, {"start-up": 1.0}, example_workers(8, {"decode": 1.0}))
    # A loader of tests, while another trains
    gpu(one_epoch_loader, replace(test_loader, trains=None))
    busy.math 80.0, idle.data.start-up 20.0
    example_use(one_epoch_loader, {"hand-over": 1.0}, example_workers(8, {"decode": 1.0}))
    example_use(test_loader, {"start-up": 19.0}, example_workers(8, {"decode": 1.0}), restart_ns=10
      ** 9)
    # No workers
    gpu(loader(iterations=5))
    busy.math 80.0, idle.data.start-up 20.0
    example_use(loader(iterations=5), {"main": 20.0}, example_workers(0, {"decode": 1.0}))
    """,
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
