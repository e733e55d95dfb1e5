"""Whole numbers that still sum."""

from hypothesis import given
from hypothesis import strategies as st

from gapless.model.rounding import apportion

PARTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=12)


@given(PARTS, st.integers(0, 10**7))
def test_parts_sum_to_the_total_and_stay_within_one_of_their_share(
    parts: list[int], total: int
) -> None:
    found = apportion(parts, total)
    whole = sum(parts)
    assert sum(found) == (total if whole else 0)
    for part, share in zip(parts, found, strict=True):
        assert abs(share * whole - part * total) < whole or whole == 0
        assert share == 0 or part > 0


def test_the_largest_remainders_get_what_is_left() -> None:
    assert apportion([1, 1, 1], 100) == (34, 33, 33)
    assert apportion([5, 3, 2], 9) == (4, 3, 2)
    assert apportion([], 0) == ()
