"""Single late batches that hold up the others."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.traps import DEFAULT_PREFETCH, find_memory_trap
from gapless.catalogue.fixes.input.out_of_order import out_of_order
from gapless.catalogue.fixes.input.prefetch import prefetch
from gapless.catalogue.queries.input.late_batches import (
    head_of_line_share,
    is_handed_over_late,
    is_head_of_line_blocked,
    is_restart_bound,
)
from gapless.catalogue.queries.input.loaders import (
    Loading,
    find_waited_loading,
    measure_loading,
    percent,
)
from gapless.catalogue.queries.windows import ms
from gapless.model.change import LoaderChange
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MAX_BUSY_SHARE: Final = 0.9  # of their lifetime: above it, workers are too slow overall
_MIN_BEHIND_SHARE: Final = 0.3  # of the waits in which later batches were ready
_MIN_WAIT_RATIO: Final = 3.0  # of the longest twentieth of waits to the mean
_MIN_BATCHES: Final = 20  # of an iteration: below it, first waits dominate that
_MIN_DEPTH: Final = 8  # batches per worker that bridge rare slow ones
_SAMPLE_REMEDY: Final = (
    "Put samples that take alike together in a batch (by their size or length), or do what makes "
    "the slow ones slow beforehand."
)


@rule(
    "G104",
    "shallow-prefetch",
    figures="""
    eight_workers = worker_loader(iterations=1)
    one_worker = loader(num_workers=1, prefetch_factor=2, iterations=1)
    # One long recording in a batch, and finished batches behind it
    > Single batches are late, and 2 made ahead by each worker do not outlast them (mean wait 10.0
      ms, one in twenty above 10.0 ms; in 70 % of the waits later batches lay ready).
    gpu(eight_workers)
    busy.math 90.0, idle.data.decode 10.0
    example_use(eight_workers, {"decode": 10.0}, example_workers(8, {"decode": 1.0}, busy=0.6),
      hol_ms=7.0)
    # One worker, which a few samples hold up
    > Single batches are late, and 2 made ahead by each worker do not outlast them (mean wait 10.0
      ms, one in twenty above 150.0 ms).
    gpu(one_worker)
    busy.math 90.0, idle.data.decode 10.0
    example_use(one_worker, {"decode": 10.0}, example_workers(1, {"decode": 1.0}, busy=0.6),
      p95_ns=150_000_000)
    # No workers
    gpu()
    busy.math 90.0, idle.data.decode 10.0
    example_use(loader(), {"decode": 10.0}, example_workers(0, {"decode": 0.2}), p95_ns=10 ** 9)
    # Workers that are too slow overall
    gpu(eight_workers)
    busy.math 90.0, idle.data.decode 10.0
    example_use(eight_workers, {"decode": 10.0}, example_workers(8, {"decode": 9.0}, busy=0.99),
      hol_ms=1.0)
    # Batches of many tensors, made in time and handed over slowly
    gpu(eight_workers)
    busy.math 90.0, idle.data.decode 10.0
    example_use(eight_workers, {"hand-over": 9.0, "decode": 1.0}, example_workers(8, {"decode":
      1.0}, busy=0.6), p95_ns=150_000_000)
    # Each wait is as long as the others
    gpu(eight_workers)
    busy.math 90.0, idle.data.decode 10.0
    example_use(eight_workers, {"hand-over": 10.0}, example_workers(8, {"decode": 1.0}, busy=0.3))
    """,
)
def shallow_prefetch(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise single batches that take long and hold up those behind them.

    ## Why it costs time
    Batches are handed over in order. One that takes long holds up all behind it, and once the
    training has used up the prefetched ones it waits, although workers are idle. A deeper queue
    bridges it; so does a loader that need not keep the order.

    ## How it is measured
    During many of the waits later batches were ready while the one that was due was not. Or workers
    are idle part of the time, and waits are uneven: one in twenty is three times as long as the
    mean. It is no cause if most of the waits are for batches that were already made.
    """
    loading = find_waited_loading(evidence, loader) if loader.num_workers else None
    if loading is None or is_restart_bound(loading):
        return None
    busy_share, ready_share = loading.workers.busy, head_of_line_share(loading)
    is_uneven = _is_uneven(loading) and not is_handed_over_late(loading)
    if busy_share is None or not (
        ready_share >= _MIN_BEHIND_SHARE or (busy_share <= _MAX_BUSY_SHARE and is_uneven)
    ):
        return None
    depth = loader.prefetch_factor or DEFAULT_PREFETCH
    new_depth = max(_MIN_DEPTH, 4 * depth)
    obstacle = find_memory_trap(loading.facts, loader, loader.num_workers, new_depth)
    ready_words = (
        f"; in {percent(ready_share)} of the waits later batches lay ready" if ready_share else ""
    )
    late_words = ms(loading.use.p95_ns or loading.wait_ns)
    return shallow_prefetch.detection(
        f"Single batches are late, and {depth} made ahead by each worker do not outlast them (mean "
        f"wait {ms(loading.wait_ns)}, one in twenty above {late_words}{ready_words}).",
        LoaderChange(loader.id, prefetch_factor=new_depth),
        location=loader.location,
        measures=(
            *measure_loading(loading),
            Measure("workers are busy", busy_share, "share"),
            Measure("one wait in twenty is above", loading.use.p95_ns or loading.wait_ns, "ns"),
            Measure("later batches lay ready", ready_share, "share"),
        ),
        helps=_choose_fixes(loading, None if obstacle else new_depth),
        no_remedy=_manual_remedy(loading, obstacle),
    )


def _is_uneven(loading: Loading) -> bool:
    """Return whether few waits dominate the mean, other than the first of an iteration."""
    use = loading.use
    is_long = (use.p95_ns or 0) >= _MIN_WAIT_RATIO * loading.wait_ns
    return is_long and use.waits >= _MIN_BATCHES * max(1, use.iterations)


def _manual_remedy(loading: Loading, obstacle: str | None) -> str | None:
    depth_words = "" if obstacle is None else f"The queue cannot be deeper: {obstacle}."
    if not is_head_of_line_blocked(loading):
        return depth_words or None
    return f"{depth_words} {_SAMPLE_REMEDY}".lstrip()


def _choose_fixes(loading: Loading, new_depth: int | None) -> tuple[FixRequest, ...]:
    depth_fixes = () if new_depth is None else (loading.request(prefetch, new_depth),)
    return (
        (*depth_fixes, loading.request(out_of_order))
        if loading.loader.num_workers > 1
        else depth_fixes
    )
