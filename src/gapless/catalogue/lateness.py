"""Where the waits for a loader lie: behind single late batches, or where its workers start anew.

What makes every batch slow makes every batch late. Waits that lie elsewhere have another cause,
whatever a fetch is made of. Times are nanoseconds.
"""

from typing import Final

from gapless.catalogue.loading import Loading

_MIN_WAIT_SHARE: Final = 0.5
_MAX_BUSY_SHARE: Final = 0.9  # of their life: above, workers are never idle, and no order costs them time
_MIN_LATE_RATIO: Final = 2.0  # times a usual fetch: the mean one, where single ones take most of the time


def head_of_line_share(loading: Loading) -> float:
    """Return the share of the known waits in which later batches lay ready."""
    use = loading.use
    return (use.hol_ns or 0) / use.known_ns if use.known_ns else 0.0


def has_late_batches(loading: Loading) -> bool:
    """Return whether single batches take so long that the mean says little of the others."""
    median_ns = loading.workers.fetch_median_ns
    return median_ns is not None and _MIN_LATE_RATIO * median_ns < loading.fetch_ns


def is_handed_over_late(loading: Loading) -> bool:
    """Return whether most of the waits are for batches that were made already.

    No queue shortens those, however deep: each batch is handed over by one thread of the training.
    """
    return loading.use.hand_over_ns >= _MIN_WAIT_SHARE * loading.use.wait_ns


def is_head_of_line_blocked(loading: Loading) -> bool:
    """Return whether single batches are late, and finished ones wait behind them in order.

    Where workers are never idle and fetches are alike, batches that overtake one another are no
    more than jitter: no other order would make them sooner.
    """
    if loading.loader.num_workers < 2 or loading.loader.in_order is False:  # noqa: PLR2004 - none overtakes
        return False
    busy_share = loading.workers.busy
    return head_of_line_share(loading) >= _MIN_WAIT_SHARE and (has_late_batches(loading) or busy_share is None or busy_share <= _MAX_BUSY_SHARE)


def restart_ns_per_iteration(loading: Loading) -> float:
    """Return what starting workers anew takes of each iteration: its start, and their first batch.

    Of the first batch what is longer than a usual one: a data set that a worker opens when it is
    first asked, say. 0.0 where workers live on, or only one iteration was seen.
    """
    use, loader = loading.use, loading.loader
    if not loader.num_workers or loader.persistent_workers or use.iterations < 2:  # noqa: PLR2004
        return 0.0
    median_ns = loading.workers.fetch_median_ns or 0
    return use.restart_ns / use.iterations + max(0.0, (use.first_ns or 0) - median_ns)


def is_restart_bound(loading: Loading) -> bool:
    """Return whether most of the time that a loader costs lies where its workers start anew."""
    total_ns = loading.use.wait_ns + loading.use.restart_ns
    return bool(total_ns) and restart_ns_per_iteration(loading) * loading.use.iterations >= _MIN_WAIT_SHARE * total_ns


def waits_lie_elsewhere(loading: Loading) -> bool:
    """Return whether no stage of a fetch is the cause of the waits, however long it takes."""
    return bool(loading.loader.num_workers) and (is_head_of_line_blocked(loading) or is_restart_bound(loading))
