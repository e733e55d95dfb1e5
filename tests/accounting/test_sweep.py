"""Sweeps and nesting against the definition: at each instant the open interval of smallest key."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.intervals import Lane
from gapless.accounting.nesting import forest, innermost, innermost_lane, parents
from gapless.accounting.sweep import sweep_device, sweep_host, sweep_slowly
from gapless.model.trace import Int64

END = 40
frames = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 15), st.integers(0, 3)), max_size=10)
Rows = list[tuple[int, int, int]]


@st.composite
def trees(draw: st.DrawFn, lo: int = 0, hi: int = END) -> Rows:
    """Draw intervals that nest."""
    out: Rows = []
    while hi - lo > 2 and draw(st.booleans()):
        start = draw(st.integers(lo, hi - 1))
        end = draw(st.integers(start + 1, hi))
        out.append((start, end - start, draw(st.integers(0, 3))))
        out += draw(trees(start, end))
        lo = end
    return draw(st.permutations(out))


def columns(drawn: Rows) -> tuple[Int64, Int64, Int64]:
    rows = np.array(drawn, np.int64).reshape(-1, 3)
    return rows[:, 0], rows[:, 0] + rows[:, 1], rows[:, 2]


def owners(lane: Lane) -> list[int]:
    out = [-1] * END
    for start, end, owner in zip(
        lane.start.tolist(), lane.end.tolist(), lane.owner.tolist(), strict=True
    ):
        assert start < end
        out[start:end] = [owner] * (end - start)
    return out


def defined(drawn: Rows, key: list[tuple[int, ...]]) -> list[int]:
    """Give the owner of each instant by looking at all intervals."""
    out: list[int] = []
    for at in range(END):
        opened = [i for i, (s, length, _) in enumerate(drawn) if s <= at < s + length]
        out.append(min(opened, key=lambda i: key[i], default=-1))
    return out


def host_key(drawn: Rows) -> list[tuple[int, ...]]:
    return [(order, -s, s + length, i) for i, (s, length, order) in enumerate(drawn)]


@given(frames | trees())
def test_a_host_lane_is_that_of_the_definition(drawn: Rows) -> None:
    start, end, order = columns(drawn)
    expected = defined(drawn, host_key(drawn))
    assert owners(sweep_host(start, end, order)) == expected
    assert owners(sweep_slowly(start, end, host_key(drawn))) == expected


@given(frames)
def test_a_device_lane_is_that_of_the_definition(drawn: Rows) -> None:
    drawn = sorted(drawn)
    start, end, kind = columns(drawn)
    key = [(order, s, i) for i, (s, _, order) in enumerate(drawn)]
    assert owners(sweep_device(start, end, kind)) == defined(drawn, key)


def test_nothing_gives_an_empty_lane() -> None:
    start, end, order = columns([])
    assert len(sweep_host(start, end, order)) == len(sweep_device(start, end, order)) == 0
    assert innermost(start, end, np.array([3])).tolist() == [-1]


@given(trees())
def test_parents_are_those_of_a_stack(drawn: Rows) -> None:
    start, end, _ = columns(drawn)
    order = sorted(range(len(drawn)), key=lambda i: (start[i], -end[i], -i))
    parent = [-1] * len(drawn)
    stack: list[int] = []
    for one in order:
        while stack and end[stack[-1]] <= start[one]:
            stack.pop()
        if stack:
            parent[one] = stack[-1]
        stack.append(one)
    assert parents(start, end).tolist() == parent
    depth = dict(
        zip(
            *(c.tolist() for c in (forest(start, end).index, forest(start, end).depth)), strict=True
        )
    )
    assert all(depth[i] == depth.get(parent[i], -1) + 1 for i in range(len(drawn)))


@given(frames | trees())
def test_the_innermost_is_the_latest_that_is_open(drawn: Rows) -> None:
    start, end, _ = columns(drawn)
    key = [(-s, s + length, i) for i, (s, length, _) in enumerate(drawn)]
    expected = defined(drawn, key)
    assert owners(innermost_lane(start, end)) == expected
    assert innermost(start, end, np.arange(END)).tolist() == expected
