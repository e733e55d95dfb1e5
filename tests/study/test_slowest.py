"""How long the step of several ranks is: the longest of one step of each, on average."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.estimate import Estimate
from gapless.pricing.simulators.step_of_ranks import JointSteps, estimate_speedup, mean_longest


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_longest_of_one_step_of_each_rank_is_that_of_all_their_combinations(
    own_work: list[list[int]],
) -> None:
    maxima = [max(steps) for steps in product(*own_work)]
    mean = mean_longest([np.array(steps, np.float64) for steps in own_work])
    assert mean == pytest.approx(sum(maxima) / len(maxima), abs=1e-9)


def test_meeting_nearly_as_often_as_before_gains_nearly_nothing() -> None:
    """Windows of ranks may show steps of unlike length: one begins a little earlier."""
    own_work, waits = (np.array([10.0]), np.array([11.0])), (np.array([2.0]), np.array([2.0]))
    joint_steps = JointSteps(own_work, waits, evened_share=0.0)
    assert joint_steps.speedup([0.0, 0.0], 0.999, 1.0) == pytest.approx(1.0, abs=1e-3)
    assert joint_steps.speedup([0.0, 0.0], 0.5, 1.0) == pytest.approx(13 / 12)


def test_what_is_dealt_out_is_not_gone_but_may_be() -> None:
    own_work, no_waits = (np.full(9, 6.0), np.full(9, 10.0)), (np.zeros(9), np.zeros(9))
    zero = Estimate(0.0, 0.0, 0.0)
    unchanged = Estimate(1.0, 1.0, 1.0)
    dealt_out = estimate_speedup(
        JointSteps(own_work, no_waits, evened_share=0.5), [zero] * 2, unchanged
    )
    removed = estimate_speedup(
        JointSteps(own_work, no_waits, evened_share=1.0), [zero] * 2, unchanged
    )
    assert dealt_out.mid == pytest.approx(10 / 8)
    assert (dealt_out.high, removed.high) == pytest.approx((10 / 6, 10 / 6))
    assert 1 < dealt_out.low < dealt_out.mid
