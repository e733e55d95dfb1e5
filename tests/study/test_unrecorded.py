"""Fetches that were not recorded, from the waits for their batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.replay.queue import Consumer, Costs, Queue, Settings, simulate
from gapless.study.recorded.unrecorded import Taken, lengths, parted, shares

MANY = 40
PASSING = 3


def ran(fetch: list[int], host: int, workers: int, recorded: set[int]) -> Taken:
    """Give what is known of a simulated training of which some fetches were recorded."""
    settings = Settings(workers, 2)
    played = simulate(Queue(settings, Costs(fetch, hand=[PASSING])), Consumer([host]), MANY)
    got = np.array(played.got)
    ahead = 2 * workers
    told = np.concatenate((np.zeros(ahead, np.int64), got[:-ahead]))
    begun, ready = np.full(MANY, -1), np.full(MANY, -1)
    free = [0] * workers
    for at in range(MANY):
        start = max(free[at % workers], int(told[at]))
        free[at % workers] = start + fetch[at % len(fetch)]
        if at in recorded:
            begun[at], ready[at] = start, free[at % workers]
    return Taken(np.array(played.ask), got, np.arange(MANY), told, begun, ready)


def test_a_rare_slow_fetch_that_was_not_recorded_is_found_again() -> None:
    fetch = [300 if at == 17 else 20 for at in range(MANY)]
    found = lengths(ran(fetch, 30, 2, recorded={2, 3}), 2, PASSING)
    assert found[17] == 300
    assert found[[2, 3]].tolist() == [-1, -1]
    assert set(found[20:].tolist()) == {20}


def test_a_batch_that_lay_ready_took_no_longer_than_there_was_time_for() -> None:
    found = lengths(ran([50], 10, 4, recorded={1}), 4, PASSING)
    assert found[found >= 0].min() >= 0
    assert found.max() <= 50


def test_a_slow_fetch_that_was_recorded_is_not_cut_to_fit_others() -> None:
    fetch = [200 if at in {4, 20} else 2 for at in range(MANY)]
    found = lengths(ran(fetch, 10, 2, recorded={4, 5}), 2, PASSING)
    assert found[20] == 200
    assert set(found.tolist()) <= {-1, 0, 2, 200}
    assert (found == 2).sum() > MANY / 2


def test_of_a_batch_that_nobody_was_seen_to_be_told_of_nothing_is_said() -> None:
    taken = ran([20], 30, 2, recorded={1})
    blind = Taken(**{**vars(taken), "told": np.full(MANY, -1)})
    assert set(lengths(blind, 2, PASSING).tolist()) == {-1}


@given(st.lists(st.integers(5, 90), min_size=3, max_size=20), st.integers(1, 4))
def test_replayed_with_what_was_found_the_training_waits_as_it_did(
    fetch: list[int], workers: int
) -> None:
    taken = ran(fetch, 12, workers, recorded=set())
    found = lengths(taken, workers, PASSING)
    costs = Costs(found.tolist(), hand=[PASSING])
    again = simulate(Queue(Settings(workers, 2), costs), Consumer([12]), MANY)
    waits = taken.got - taken.ask
    # A wait of up to twice the passing may be one that was none, and is taken for none.
    doubtful = int(((waits > 0) & (waits <= 2 * PASSING)).sum())
    allowed = 0.1 * int(taken.got[-1]) + 2 * PASSING * doubtful
    assert abs(again.got[-1] - int(taken.got[-1])) <= allowed


def test_lengths_are_parted_as_those_that_were_recorded() -> None:
    wall, cpu, queue = np.array([100, 100]), np.array([30, -1]), np.array([10, -1])
    assert shares(wall, cpu, queue) == pytest.approx((0.3, 0.1))
    parts = parted(np.array([1000, 0]), (0.3, 0.1))
    assert [one.tolist() for one in parts] == [[300, 0], [100, 0], [600, 0]]
