"""Fetches that were not recorded, from the waits for their batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from gapless.recorded.loaders.unrecorded import (
    OrderedHandOvers,
    cpu_shares,
    infer_lengths,
    split_lengths,
)
from gapless.replay.loader.queue import Consumer, LoaderCosts, Queue, QueueSettings, play_batches

N_BATCHES = 40
HAND_OVER_NS = 3


def simulate_hand_overs(
    fetch: list[int], host: int, workers: int, recorded: set[int]
) -> OrderedHandOvers:
    """Return what is known of a simulated training of which some fetches were recorded."""
    settings = QueueSettings(workers, 2)
    simulated = play_batches(
        Queue(settings, LoaderCosts(fetch, hand=[HAND_OVER_NS])), Consumer([host]), N_BATCHES
    )
    received = np.array(simulated.hand_overs)
    ahead = 2 * workers
    dispatched = np.concatenate((np.zeros(ahead, np.int64), received[:-ahead]))
    begin, ready = np.full(N_BATCHES, -1), np.full(N_BATCHES, -1)
    free = [0] * workers
    for index in range(N_BATCHES):
        start = max(free[index % workers], int(dispatched[index]))
        free[index % workers] = start + fetch[index % len(fetch)]
        if index in recorded:
            begin[index], ready[index] = start, free[index % workers]
    return OrderedHandOvers(
        np.array(simulated.asks), received, np.arange(N_BATCHES), dispatched, begin, ready
    )


def test_a_rare_slow_fetch_that_was_not_recorded_is_found_again() -> None:
    fetch = [300 if index == 17 else 20 for index in range(N_BATCHES)]
    lengths = infer_lengths(simulate_hand_overs(fetch, 30, 2, recorded={2, 3}), 2, HAND_OVER_NS)
    assert lengths[17] == 300
    assert lengths[[2, 3]].tolist() == [-1, -1]
    assert set(lengths[20:].tolist()) == {20}


def test_a_batch_that_lay_ready_took_no_longer_than_there_was_time_for() -> None:
    lengths = infer_lengths(simulate_hand_overs([50], 10, 4, recorded={1}), 4, HAND_OVER_NS)
    assert lengths.min() == -1
    assert lengths.max() <= 50


def test_a_slow_fetch_that_was_recorded_is_not_cut_to_fit_others() -> None:
    fetch = [200 if index in {4, 20} else 2 for index in range(N_BATCHES)]
    lengths = infer_lengths(simulate_hand_overs(fetch, 10, 2, recorded={4, 5}), 2, HAND_OVER_NS)
    assert lengths[20] == 200
    assert set(lengths.tolist()) <= {-1, 0, 2, 200}
    assert (lengths == 2).sum() > N_BATCHES / 2


def test_of_a_batch_that_nobody_was_seen_to_be_told_of_nothing_is_said() -> None:
    hand_overs = simulate_hand_overs([20], 30, 2, recorded={1})
    blind = OrderedHandOvers(**{**asdict(hand_overs), "told": np.full(N_BATCHES, -1)})
    assert set(infer_lengths(blind, 2, HAND_OVER_NS).tolist()) == {-1}


@given(st.lists(st.integers(5, 90), min_size=3, max_size=20), st.integers(1, 4))
def test_replayed_with_what_was_found_the_training_waits_as_it_did(
    fetch: list[int], workers: int
) -> None:
    hand_overs = simulate_hand_overs(fetch, 12, workers, recorded=set())
    lengths = infer_lengths(hand_overs, workers, HAND_OVER_NS)
    costs = LoaderCosts(lengths.tolist(), hand=[HAND_OVER_NS])
    replayed = play_batches(Queue(QueueSettings(workers, 2), costs), Consumer([12]), N_BATCHES)
    waits = hand_overs.got - hand_overs.ask
    # A wait of up to twice the passing may be one that was none, and is taken for none.
    n_doubtful = int(((waits > 0) & (waits <= 2 * HAND_OVER_NS)).sum())
    tolerance_ns = 0.1 * int(hand_overs.got[-1]) + 2 * HAND_OVER_NS * n_doubtful
    assert abs(replayed.hand_overs[-1] - int(hand_overs.got[-1])) <= tolerance_ns


def test_lengths_are_parted_as_those_that_were_recorded() -> None:
    wall, cpu, queue = np.array([100, 100]), np.array([30, -1]), np.array([10, -1])
    assert cpu_shares(wall, cpu, queue) == pytest.approx((0.3, 0.1))
    parts = split_lengths(np.array([1000, 0]), (0.3, 0.1))
    assert [column.tolist() for column in parts] == [[300, 0], [100, 0], [600, 0]]
