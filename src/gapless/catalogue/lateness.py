"""Where the waits for a loader lie: behind single late batches, or where its workers start anew.

What makes every batch slow makes every batch late. Waits that lie elsewhere have another cause,
whatever a fetch is made of. Times are nanoseconds.
"""

from typing import Final

from gapless.catalogue.loading import Loading

_HALF: Final = 0.5
_BUSY: Final = 0.9  # of their life: above, workers are never idle, and no order costs them time
_UNLIKE: Final = 2.0  # times a usual fetch: the mean one, where single ones take most of the time


def behind(one: Loading) -> float:
    """Give the share of the known waits in which later batches lay ready."""
    use = one.use
    return (use.hol_ns or 0) / use.known_ns if use.known_ns else 0.0


def late_alone(one: Loading) -> bool:
    """Tell whether single batches take so long that the mean says little of the others."""
    usual = one.workers.fetch_median_ns
    return usual is not None and _UNLIKE * usual < one.fetch_ns


def handed_over_late(one: Loading) -> bool:
    """Tell whether most of the waits are for batches that were made already.

    No queue shortens those, however deep: each batch is handed over by one thread of the training.
    """
    return one.use.hand_over_ns >= _HALF * one.use.wait_ns


def held_up(one: Loading) -> bool:
    """Tell whether single batches are late, and finished ones wait behind them in order.

    Where workers are never idle and fetches are alike, batches that overtake one another are no
    more than jitter: no other order would make them sooner.
    """
    if one.loader.num_workers < 2 or one.loader.in_order is False:  # noqa: PLR2004 - none overtakes
        return False
    busy = one.workers.busy
    return behind(one) >= _HALF and (late_alone(one) or busy is None or busy <= _BUSY)


def starting_ns(one: Loading) -> float:
    """Give what starting workers anew takes of each iteration: its start, and their first batch.

    Of the first batch what is longer than a usual one: a data set that a worker opens when it is
    first asked, say. 0.0 where workers live on, or only one iteration was seen.
    """
    use, loader = one.use, one.loader
    if not loader.num_workers or loader.persistent_workers or use.iterations < 2:  # noqa: PLR2004
        return 0.0
    usual = one.workers.fetch_median_ns or 0
    return use.restart_ns / use.iterations + max(0.0, (use.first_ns or 0) - usual)


def starts_anew(one: Loading) -> bool:
    """Tell whether most of the time that a loader costs lies where its workers start anew."""
    whole = one.use.wait_ns + one.use.restart_ns
    return bool(whole) and starting_ns(one) * one.use.iterations >= _HALF * whole


def lies_elsewhere(one: Loading) -> bool:
    """Tell whether no stage of a fetch is the cause of the waits, however long it takes."""
    return bool(one.loader.num_workers) and (held_up(one) or starts_anew(one))
