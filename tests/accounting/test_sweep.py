"""Sweeps and nesting against the definition: at each instant the open interval of smallest key."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.host.nesting import (
    build_forest,
    find_innermost,
    find_parents,
    innermost_lane,
)
from gapless.accounting.intervals import Lane
from gapless.accounting.sweep import sweep_device, sweep_host, sweep_slowly
from gapless.model.trace import Int64

END = 40
frames = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 15), st.integers(0, 3)), max_size=10)
Rows = list[tuple[int, int, int]]


@st.composite
def trees(draw: st.DrawFn, lo: int = 0, hi: int = END) -> Rows:
    """Draw intervals that nest."""
    intervals: Rows = []
    while hi - lo > 2 and draw(st.booleans()):
        start = draw(st.integers(lo, hi - 1))
        end = draw(st.integers(start + 1, hi))
        intervals.append((start, end - start, draw(st.integers(0, 3))))
        intervals += draw(trees(start, end))
        lo = end
    return draw(st.permutations(intervals))


def columns(intervals: Rows) -> tuple[Int64, Int64, Int64]:
    rows = np.array(intervals, np.int64).reshape(-1, 3)
    return rows[:, 0], rows[:, 0] + rows[:, 1], rows[:, 2]


def owners(lane: Lane) -> list[int]:
    owner_rows = [-1] * END
    for start, end, owner in zip(
        lane.start.tolist(), lane.end.tolist(), lane.owner.tolist(), strict=True
    ):
        assert start < end
        owner_rows[start:end] = [owner] * (end - start)
    return owner_rows


def expected_owners(intervals: Rows, key: list[tuple[int, ...]]) -> list[int]:
    """Return the owner of each instant by looking at all intervals."""
    owner_rows: list[int] = []
    for instant in range(END):
        open_rows = [i for i, (s, length, _) in enumerate(intervals) if s <= instant < s + length]
        owner_rows.append(min(open_rows, key=lambda i: key[i], default=-1))
    return owner_rows


def host_key(intervals: Rows) -> list[tuple[int, ...]]:
    return [(order, -s, s + length, i) for i, (s, length, order) in enumerate(intervals)]


@given(frames | trees())
def test_a_host_lane_is_that_of_the_definition(intervals: Rows) -> None:
    start, end, order = columns(intervals)
    expected = expected_owners(intervals, host_key(intervals))
    assert owners(sweep_host(start, end, order)) == expected
    assert owners(sweep_slowly(start, end, host_key(intervals))) == expected


@given(frames)
def test_a_device_lane_is_that_of_the_definition(intervals: Rows) -> None:
    intervals = sorted(intervals)
    start, end, kind = columns(intervals)
    key = [(order, s, i) for i, (s, _, order) in enumerate(intervals)]
    assert owners(sweep_device(start, end, kind)) == expected_owners(intervals, key)


def test_nothing_gives_an_empty_lane() -> None:
    start, end, order = columns([])
    assert len(sweep_host(start, end, order)) == len(sweep_device(start, end, order)) == 0
    assert find_innermost(start, end, np.array([3])).tolist() == [-1]


@given(trees())
def test_parents_are_those_of_a_stack(intervals: Rows) -> None:
    start, end, _ = columns(intervals)
    order = sorted(range(len(intervals)), key=lambda i: (start[i], -end[i], -i))
    parent = [-1] * len(intervals)
    stack: list[int] = []
    for row in order:
        while stack and end[stack[-1]] <= start[row]:
            stack.pop()
        if stack:
            parent[row] = stack[-1]
        stack.append(row)
    assert find_parents(start, end).tolist() == parent
    depth = dict(
        zip(
            *(c.tolist() for c in (build_forest(start, end).index, build_forest(start, end).depth)),
            strict=True,
        )
    )
    assert all(depth[i] == depth.get(parent[i], -1) + 1 for i in range(len(intervals)))


@given(frames | trees())
def test_the_innermost_is_the_latest_that_is_open(intervals: Rows) -> None:
    start, end, _ = columns(intervals)
    key = [(-s, s + length, i) for i, (s, length, _) in enumerate(intervals)]
    expected = expected_owners(intervals, key)
    assert owners(innermost_lane(start, end)) == expected
    assert find_innermost(start, end, np.arange(END)).tolist() == expected
