"""What it takes to hand batches over."""

import numpy as np

from gapless.replay.service import TRANSIT
from gapless.study.recorded.passing import Handed, held, passed

MS = 1_000_000


def handed(*rows: tuple[int, int, int, int]) -> Handed:
    """Give hand-overs: asked for, handed over, ready, place in the iteration; in ms."""
    ask, got, ready, position = np.array(rows, np.int64).T
    none = np.full(len(rows), -1)
    return Handed(ask * MS, got * MS, position, none, none, none, none, ready * MS, none)


def test_the_first_batch_of_a_new_process_is_longer_on_its_way_than_others() -> None:
    rows = [(100, 132, 120, 0), (150, 152, 140, 1), (200, 213, 210, 2), (300, 302, 250, 3)]
    some = handed(*rows)
    every = np.arange(len(rows))
    found = passed(some, every, (0, MS), anew=1)
    assert found.hand.tolist() == [2 * MS, 2 * MS]
    assert (found.transit, found.first) == (1 * MS, 9 * MS)
    stays = passed(some, every, (0, MS), anew=0)
    assert (stays.transit, stays.first) == (5 * MS + MS // 2, 0)


def test_where_only_first_batches_are_late_others_pass_as_elsewhere() -> None:
    some = handed((100, 132, 120, 0), (150, 152, 110, 1))
    found = passed(some, np.arange(2), (0, MS), anew=1)
    assert found.transit is None
    assert found.first == 10 * MS - round(TRANSIT.mid)


def test_what_came_while_an_earlier_batch_was_waited_for_is_held() -> None:
    some = handed((60, 62, 9, 0), (70, 200, 195, 1), (210, 211, 100, 2), (300, 302, 250, 3))
    assert held(some).tolist() == [False, False, True, False]
    assert passed(some, np.arange(4), (0, 0), anew=0).hand.tolist() == [2 * MS, 2 * MS]
