"""How long the step of several ranks is: the longest of one step of each, on average."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.interval import Interval
from gapless.study.slowest import Played, interval, longest


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_longest_of_one_step_of_each_rank_is_that_of_all_their_combinations(
    own: list[list[int]],
) -> None:
    every = [max(steps) for steps in product(*own)]
    found = longest([np.array(one, np.float64) for one in own])
    assert found == pytest.approx(sum(every) / len(every), abs=1e-9)


def test_meeting_nearly_as_often_as_before_gains_nearly_nothing() -> None:
    """Windows of ranks may show steps of unlike length: one begins a little earlier."""
    own, waits = (np.array([10.0]), np.array([11.0])), (np.array([2.0]), np.array([2.0]))
    played = Played(own, waits, evens=0.0)
    assert played.speedup([0.0, 0.0], 0.999, 1.0) == pytest.approx(1.0, abs=1e-3)
    assert played.speedup([0.0, 0.0], 0.5, 1.0) == pytest.approx(13 / 12)


def test_what_is_dealt_out_is_not_gone_but_may_be() -> None:
    own, none = (np.full(9, 6.0), np.full(9, 10.0)), (np.zeros(9), np.zeros(9))
    exactly = Interval(0.0, 0.0, 0.0)
    stays = Interval(1.0, 1.0, 1.0)
    dealt = interval(Played(own, none, evens=0.5), [exactly] * 2, stays)
    gone = interval(Played(own, none, evens=1.0), [exactly] * 2, stays)
    assert dealt.mid == pytest.approx(10 / 8)
    assert (dealt.high, gone.high) == pytest.approx((10 / 6, 10 / 6))
    assert 1 < dealt.low < dealt.mid
