"""A clock that is off, and fast or slow, is aligned by the ends of common collectives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.accounting import Collectives, match_collectives
from gapless.accounting.ranks.clock_lines import fit_clock
from gapless.model.trace import Collective

US, MS = 1_000, 1_000_000
NOISE_NS = 1 * US  # by how much the ends of a collective differ
OFFSETS_NS = st.integers(-(10**18), 10**18)
SEEDS = st.integers(0, 1 << 32)


def draw_ends(seed: int, count: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, 70 * MS, count))


@settings(max_examples=50, deadline=None)
@given(SEEDS, OFFSETS_NS, st.floats(-200e-6, 200e-6))
def test_a_clock_is_known_to_a_few_us_whatever_its_offset_and_rate(
    seed: int, offset_ns: int, rate: float
) -> None:
    random = np.random.default_rng(seed + 1)
    ends = draw_ends(seed, 200)
    own = ends + offset_ns + (ends * rate).astype(np.int64)
    noise = random.normal(0, NOISE_NS, len(ends)).astype(np.int64)
    noise[::10] += random.integers(0, MS, len(noise[::10]))  # some do not end at once
    line = fit_clock(ends, own + noise)
    assert np.abs(line.to_reference(own) - ends).max() < 2 * US
    assert np.abs(line.from_reference(ends) - own).max() < 2 * US


@given(SEEDS, OFFSETS_NS, st.integers(1, 23))
def test_few_collectives_show_an_offset_alone(seed: int, offset_ns: int, count: int) -> None:
    ends = draw_ends(seed, count)
    own = ends + offset_ns + (ends * 200e-6).astype(np.int64)
    line = fit_clock(ends, own)
    first_ns = int(own[0] - ends[0])
    assert line.rate == 0
    assert line.offset_ns == first_ns + round(float(np.median(own - ends - first_ns)))


@pytest.mark.parametrize("rate", [-200e-6, 200e-6])
def test_ranks_that_are_late_in_turns_by_5_us_are_told_apart(rate: float) -> None:
    call = Collective("allreduce", "Float", 10, 10, "0", 2, "[0, 1]")
    calls = tuple(call for _ in range(60))
    order = np.arange(60)
    ends, late = order * MS + MS, order % 2
    captures: list[Collectives] = []
    for rank in (0, 1):
        starts = ends - 20 * US + 5 * US * (late == rank)
        start, end = (np.round(at * (1 + rank * rate)).astype(np.int64) for at in (starts, ends))
        captures.append(Collectives(rank, 0, order, start, end, calls, np.full(60, -1)))
    for arrivals in match_collectives(captures):
        assert arrivals.rank.tolist() == late.tolist()
