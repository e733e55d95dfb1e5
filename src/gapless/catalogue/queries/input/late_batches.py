"""Where the waits for a loader occur: behind single late batches, or where its workers restart.

What makes every batch slow makes every batch late. Waits that occur elsewhere have another cause,
whatever the stages of a fetch. Times are nanoseconds.
"""

from typing import Final

from gapless.catalogue.queries.input.loaders import Loading

_MIN_WAIT_SHARE: Final = 0.5
# Of their lifetime: above it, workers are never idle, and the order costs no time.
_MAX_BUSY_SHARE: Final = 0.9
# Mean over median fetch: above it, single fetches take most of the time.
_MIN_LATE_RATIO: Final = 2.0


def head_of_line_share(loading: Loading) -> float:
    """Return the share of the known waits in which later batches were ready."""
    use = loading.use
    return (use.hol_ns or 0) / use.known_ns if use.known_ns else 0.0


def has_late_batches(loading: Loading) -> bool:
    """Return whether single batches take so long that the mean says little about the others."""
    median_ns = loading.workers.fetch_median_ns
    return median_ns is not None and _MIN_LATE_RATIO * median_ns < loading.fetch_ns


def is_handed_over_late(loading: Loading) -> bool:
    """Return whether most of the waits are for batches that were already made.

    No queue shortens those, however deep: one thread of the training takes over each batch.
    """
    return loading.use.hand_over_ns >= _MIN_WAIT_SHARE * loading.use.wait_ns


def is_head_of_line_blocked(loading: Loading) -> bool:
    """Return whether single batches are late, and finished ones wait behind them in order.

    Where workers are never idle and fetches are alike, batches that overtake one another are
    mere jitter: no other order would finish them sooner.
    """
    if loading.loader.num_workers < 2 or loading.loader.in_order is False:  # noqa: PLR2004 - none overtakes
        return False
    busy_share = loading.workers.busy
    return head_of_line_share(loading) >= _MIN_WAIT_SHARE and (
        has_late_batches(loading) or busy_share is None or busy_share <= _MAX_BUSY_SHARE
    )


def restart_ns_per_iteration(loading: Loading) -> float:
    """Return what restarting workers costs in each iteration: their start, and their first batch.

    Of the first batch, only the excess over a usual one counts: a data set that a worker opens on
    first use, say. 0.0 where workers persist, or only one iteration was seen.
    """
    use, loader = loading.use, loading.loader
    if not loader.num_workers or loader.persistent_workers or use.iterations < 2:  # noqa: PLR2004
        return 0.0
    median_ns = loading.workers.fetch_median_ns or 0
    return use.restart_ns / use.iterations + max(0.0, (use.first_ns or 0) - median_ns)


def is_restart_bound(loading: Loading) -> bool:
    """Return whether most of the time that a loader costs is spent on restarting its workers."""
    total_ns = loading.use.wait_ns + loading.use.restart_ns
    return (
        bool(total_ns)
        and restart_ns_per_iteration(loading) * loading.use.iterations >= _MIN_WAIT_SHARE * total_ns
    )


def waits_lie_elsewhere(loading: Loading) -> bool:
    """Return whether no stage of a fetch causes the waits, however long it takes."""
    return bool(loading.loader.num_workers) and (
        is_head_of_line_blocked(loading) or is_restart_bound(loading)
    )
