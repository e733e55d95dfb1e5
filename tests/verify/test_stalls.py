"""Steps that are long and rare: left out of blocks, counted over all blocks of a side."""

import numpy as np
import pytest

from gapless.model.estimate import Estimate
from gapless.verify.arms.stalls import (
    Stalls,
    add_stalls,
    are_rare,
    expect_stalls,
    include_stalls,
    split_stalls,
)

A = Stalls(1300, 12, 1300 * 1.0, 12)  # a stall adds 1 ns to each of 1300 steps of 20
SAME = Estimate(0.98, 1.0, 1.02)


def include(of_b: Stalls, *, collects_as_before: bool = False) -> tuple[float, ...]:
    speedup = include_stalls(SAME, 20.0, A, of_b, collects_as_before=collects_as_before)
    return round(speedup.low, 3), round(speedup.mid, 3), round(speedup.high, 3)


def test_a_stall_is_split_from_the_usual_steps_of_its_block() -> None:
    lengths = np.array([10.0, 11.0, 9.0, 210.0, 10.0])
    usual, stalls = split_stalls(lengths, np.array([0.0, 0.0, 0.0, 190.0, 0.0]))
    assert usual.tolist() == [10.0, 11.0, 9.0, 10.0, 10.0]
    assert stalls == Stalls(5, 1, 200.0, 1)
    assert split_stalls(lengths, np.zeros(5))[1].collections == 0


def test_what_most_blocks_hold_is_no_rare_stall() -> None:
    quiet, stalled = Stalls(20, 0, 0.0, 0), Stalls(20, 1, 200.0, 0)
    assert are_rare([quiet, quiet, stalled])
    assert not are_rare([quiet, stalled, stalled])
    assert add_stalls([quiet, stalled]).step_ns == 5.0


def test_an_edit_with_as_many_stalls_leaves_them_as_they_are() -> None:
    assert include(Stalls(130, 1, 130.0, 1)) == (0.981, 1.0, 1.019)


def test_an_edit_without_any_so_far_may_have_ended_them() -> None:
    none = Stalls(130, 0, 0.0, 0)
    assert include(none)[:2] == (0.981, 1.0)
    assert include(none)[2] == pytest.approx((20 + 1300 / 1430) / (20 / 1.02), abs=0.001)
    assert include(none, collects_as_before=True) == (0.981, 1.0, 1.019)


def test_fewer_stalls_than_chance_leaves_are_a_gain_and_more_are_a_loss() -> None:
    low, mid, high = include(Stalls(1300, 0, 0.0, 0))
    assert mid == pytest.approx(21 / 20)
    assert low > 1.0
    assert high == pytest.approx(21 / (20 / 1.02), abs=0.001)
    low, mid, high = include(Stalls(130, 12, 1300.0, 0))
    assert mid == pytest.approx(21 / 30)
    assert low < mid < high < 1.0


def test_stalls_that_no_collection_explains_may_be_the_edits_own_doing() -> None:
    two = Stalls(31, 2, 12.0 * 31, 0)
    low, mid, _ = include(two)
    assert mid == pytest.approx(1.0)
    assert low == pytest.approx((20 + add_stalls((A, two)).step_ns) / (20 / 0.98 + 12), abs=0.001)
    of_collector = Stalls(31, 1, 31.0, 1)
    assert include(of_collector, collects_as_before=True)[0] > 0.97


def test_what_chance_put_into_a_block_is_shown_as_it_is_counted() -> None:
    chance, more = Stalls(31, 1, 12.0 * 31, 0), Stalls(130, 12, 1300.0, 0)
    assert expect_stalls(A, chance) == add_stalls((A, chance)).step_ns < chance.step_ns
    assert expect_stalls(A, more) == more.step_ns
