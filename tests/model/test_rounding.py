"""Whole numbers that still sum."""

from hypothesis import given
from hypothesis import strategies as st

from gapless.model.rounding import apportion

WEIGHTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=12)


@given(WEIGHTS, st.integers(0, 10**7))
def test_parts_sum_to_the_total_and_stay_within_one_of_their_share(
    weights: list[int], total: int
) -> None:
    shares = apportion(weights, total)
    total_weight = sum(weights)
    assert sum(shares) == (total if total_weight else 0)
    for weight, share in zip(weights, shares, strict=True):
        assert abs(share * total_weight - weight * total) < total_weight or total_weight == 0
        assert share == 0 or weight > 0


def test_the_largest_remainders_get_what_is_left() -> None:
    assert apportion([1, 1, 1], 100) == (34, 33, 33)
    assert apportion([5, 3, 2], 9) == (4, 3, 2)
    assert apportion([], 0) == ()
