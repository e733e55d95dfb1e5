"""What others took of the processors."""

import numpy as np
import pytest

from gapless.model.recording import Samples
from gapless.model.trace import Int64
from gapless.study.recorded.machine import others, within

AT: Int64 = np.array([10, 20, 30, 40, 50], np.int64)
BUSY_AT_FIRST = Samples(
    {
        "cpu.foreign": (AT, (150.0, 150.0, 50.0, 10.0, 10.0)),
        "cpu.stolen": (AT, (20.0, 20.0, 5.0, 0.0, 0.0)),
    },
    (),
)


def test_what_others_did_while_the_training_was_set_up_takes_nothing_from_its_steps() -> None:
    found = others(BUSY_AT_FIRST, 2, (28, 55))
    assert found is not None
    assert (found.cores, found.stolen) == pytest.approx((0.1, 0.0))
    whole = others(BUSY_AT_FIRST, 2)
    assert whole is not None
    assert whole.cores > 0.6


def test_steps_between_two_looks_are_told_by_all_of_them() -> None:
    assert others(BUSY_AT_FIRST, 2, (41, 42)) == others(BUSY_AT_FIRST, 2)


def test_a_look_that_began_before_the_steps_counts_only_if_no_other_does() -> None:
    assert within(AT, (28, 55)).tolist() == [False, False, False, True, True]
    assert within(AT, (28, 35)).tolist() == [False, False, True, False, False]
