"""What a loader would cost without workers, or with persistent ones, from a run's own marks.

The marks show how long the training thread waits for workers to start, to end, and for each batch.
What would be saved needs no replay of their queue. Times are nanoseconds, for one batch.
"""

from typing import Final

from gapless.catalogue.queries.input.loaders import Loading
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

# Assumed: a worker collates into new shared memory each time, and writes to pages that it shared
# with its parent. The training process itself took 0.17 and 0.36 of that time in two trainings that
# had a loader of either kind.
_COLLATE_FACTOR: Final = Estimate(0.25, 0.6, 1.0)
_MIN_ITERATIONS: Final = 2  # iterations
_MIN_TAKEN_SHARE: Final = 0.25  # of the processors, by others: all waits may be for these
_START_FACTOR: Final = Estimate(0.85, 1.0, 1.05)  # of the observed time to start and end workers


def restart_ns_per_batch(loading: Loading) -> float:
    """Return what restarting workers for each iteration takes, per batch.

    The first start precedes all steps, so it is part of none; nor is the end of a single one.
    """
    use = loading.use
    if use.iterations < _MIN_ITERATIONS or not use.waits:
        return 0.0
    restarts_ns = use.restart_ns * (use.iterations - 1) / use.iterations
    return min(restarts_ns / use.waits, loading.work_ns)


def estimate_own_batch_ns(loading: Loading) -> Estimate:
    """Return the time the training process would take for a batch. Raises ``NotObservedError``."""
    stages = loading.workers.stages
    total_cpu_ns = sum(stage.cpu_ns for stage in stages)
    collate_cpu_ns = sum(stage.cpu_ns for stage in stages if stage.name == "collate")
    work_ns = loading.fetch_ns if loading.cpu_ns is None else min(loading.cpu_ns, loading.fetch_ns)
    collate_ns = work_ns * collate_cpu_ns / total_cpu_ns if total_cpu_ns else 0.0
    low, mid, high = (
        loading.fetch_ns - collate_ns * (1 - factor)
        for factor in (_COLLATE_FACTOR.low, _COLLATE_FACTOR.mid, _COLLATE_FACTOR.high)
    )
    return Estimate(low, mid, high)


def estimate_persistence(loading: Loading) -> Estimate:
    """Return the share of a step that is saved if workers persist."""
    share = restart_ns_per_batch(loading) / loading.step_ns if loading.step_ns else 0.0
    return Estimate(
        share * _START_FACTOR.low, share * _START_FACTOR.mid, share * _START_FACTOR.high
    )


def estimate_contention_ns(loading: Loading, computing_share: float) -> Estimate:
    """Return by how much making a batch in a worker delays operators that need all processors.

    Zero where the training computes on a device, or a processor is left for workers. Otherwise
    operators take longer by the time that a worker ran beside them: at least divided among all
    processors, at most all of it, if the other threads wait for the one that was displaced.

    Args:
        loading: the loader.
        computing_share: share of the step in which operators run.

    """
    cores, cpu_ns = loading.processors.known_count, loading.cpu_ns
    if (
        not loading.processors.computes
        or not cores
        or cpu_ns is None
        or (loading.processors.threads or 1) < cores
    ):
        return Estimate(0.0, 0.0, 0.0)
    max_ns = cpu_ns * computing_share
    min_ns = max_ns / cores
    return Estimate(min_ns, (min_ns + max_ns) / 2, max_ns)


def estimate_held_up_ns(loading: Loading, evidence: Evidence) -> Estimate:
    """Return how long a fetch waits for processors that other processes took.

    The training process would wait for them as its workers do. It is likely the share of the waits
    for a processor that others took of all processors; at most all of them, if others took any.
    Raises ``NotObservedError``.
    """
    contention = evidence.contention
    if contention is None or not contention.processors or loading.queue_share >= 1:
        return Estimate(0.0, 0.0, 0.0)
    queue_ns = loading.fetch_ns * loading.queue_share / (1 - loading.queue_share)
    share = min(1.0, (contention.cores + (contention.stolen or 0.0)) / contention.processors)
    max_ns = queue_ns if share >= _MIN_TAKEN_SHARE else share * queue_ns
    return Estimate(share * queue_ns, share * queue_ns, max_ns)


def estimate_without_workers(loading: Loading, evidence: Evidence) -> Estimate:
    """Return the share of a step that is saved without workers; below 0, a step becomes longer.

    Workers are not started or waited for, and take no processor from operators (see
    ``estimate_contention_ns``); each batch is made before its step. Raises ``NotObservedError``.
    """
    held_up_ns = estimate_held_up_ns(loading, evidence)
    batch_ns, restart_ns, step_ns = (
        estimate_own_batch_ns(loading),
        restart_ns_per_batch(loading),
        loading.step_ns or 1.0,
    )
    contention_ns = estimate_contention_ns(loading, evidence.share("busy."))
    saved_ns = loading.wait_ns - loading.sampler_ns
    low, mid, high = (
        (restart_ns * start_factor + saved_ns - making_ns + freed_ns) / step_ns
        for start_factor, making_ns, freed_ns in (
            (_START_FACTOR.low, batch_ns.high + held_up_ns.high, contention_ns.low),
            (_START_FACTOR.mid, batch_ns.mid + held_up_ns.mid, contention_ns.mid),
            (_START_FACTOR.high, batch_ns.low + held_up_ns.low, contention_ns.high),
        )
    )
    return Estimate(low, mid, high)
