"""Medians of classes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.replay.graph.imputation import impute, medians


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-100, 100)), min_size=1))
def test_medians_are_the_lower_ones_of_each_class(rows: list[tuple[int, int]]) -> None:
    keys, middle, count = medians(column([key for key, _ in rows]), column([v for _, v in rows]))
    for key, value, size in zip(keys.tolist(), middle.tolist(), count.tolist(), strict=True):
        members = sorted(v for k, v in rows if k == key)
        assert (value, size) == (members[(len(members) - 1) // 2], len(members))


def test_the_finest_class_that_says_enough_decides() -> None:
    value = column([1, 2, 3, 50, 60, 70, 0, 0, 0])
    is_observed = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0], bool)
    fine = column([1, 1, 1, 2, 2, 3, 1, 2, 9])
    coarse = column([1, 1, 1, 2, 2, 2, 1, 2, 9])
    assert impute(value, is_observed, fine, coarse).tolist() == [2, 2, 2, 60, 60, 60, 2, 60, 3]


def test_where_nothing_was_seen_it_is_nothing() -> None:
    no_values = np.zeros(2, bool)
    assert impute(column([5, 6]), no_values, column([1, 1])).tolist() == [0, 0]
