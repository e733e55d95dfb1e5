"""What it takes to hand batches over."""

import numpy as np

from gapless.recorded.loaders.hand_over import HandOvers, measure_hand_overs, was_dequeued
from gapless.replay.loader.costs import TRANSIT

MS = 1_000_000


def hand_overs_of(*rows: tuple[int, int, int, int]) -> HandOvers:
    """Return hand-overs: asked for, handed over, ready, place in the iteration; in ms."""
    request_ms, received_ms, ready, position = np.array(rows, np.int64).T
    absent = np.full(len(rows), -1)
    return HandOvers(
        request_ms * MS,
        received_ms * MS,
        position,
        absent,
        absent,
        absent,
        absent,
        ready * MS,
        absent,
    )


def test_the_first_batch_of_a_new_process_is_longer_on_its_way_than_others() -> None:
    rows = [(100, 132, 120, 0), (150, 152, 140, 1), (200, 213, 210, 2), (300, 302, 250, 3)]
    batches = hand_overs_of(*rows)
    indices = np.arange(len(rows))
    costs = measure_hand_overs(batches, indices, (0, MS), n_fresh=1)
    assert costs.hand.tolist() == [2 * MS, 2 * MS]
    assert (costs.transit, costs.first_extra) == (1 * MS, 9 * MS)
    persistent_costs = measure_hand_overs(batches, indices, (0, MS), n_fresh=0)
    assert (persistent_costs.transit, persistent_costs.first_extra) == (5 * MS + MS // 2, 0)


def test_where_only_first_batches_are_late_others_pass_as_elsewhere() -> None:
    batches = hand_overs_of((100, 132, 120, 0), (150, 152, 110, 1))
    costs = measure_hand_overs(batches, np.arange(2), (0, MS), n_fresh=1)
    assert costs.transit is None
    assert costs.first_extra == 10 * MS - round(TRANSIT.mid)


def test_what_came_while_an_earlier_batch_was_waited_for_is_held() -> None:
    batches = hand_overs_of(
        (60, 62, 9, 0), (70, 200, 195, 1), (210, 211, 100, 2), (300, 302, 250, 3)
    )
    assert was_dequeued(batches).tolist() == [False, False, True, False]
    assert measure_hand_overs(batches, np.arange(4), (0, 0), n_fresh=0).hand.tolist() == [
        2 * MS,
        2 * MS,
    ]
