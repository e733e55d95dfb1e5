"""Lanes, unions and their measures against sets of instants."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.intervals import (
    NO_LANE,
    Lane,
    concatenated,
    cover,
    merge,
    overlap,
    part,
    piece_at,
    subtract,
    union,
)
from gapless.model.trace import Int64

END = 30
spans = st.lists(st.tuples(st.integers(0, END), st.integers(0, 8)), max_size=8)


def columns(drawn: list[tuple[int, int]]) -> tuple[Int64, Int64]:
    rows = np.array(drawn, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 0] + rows[:, 1]


def instants(start: Int64, end: Int64) -> set[int]:
    pairs = zip(start.tolist(), end.tolist(), strict=True)
    return {at for s, e in pairs for at in range(s, e)}


def lane(drawn: list[tuple[int, int]]) -> Lane:
    return union(*columns(drawn))


@given(spans)
def test_a_union_holds_each_instant_once(drawn: list[tuple[int, int]]) -> None:
    start, end = columns(drawn)
    made = union(start, end)
    assert instants(made.start, made.end) == instants(start, end)
    assert np.all(made.start[1:] > made.end[:-1])
    assert np.array_equal(start[made.owner], made.start)


@given(spans, spans)
def test_cover_tiles_each_question(
    pieces: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    made, (lo, hi) = lane(pieces), columns(asked)
    cut = cover(made, lo, hi)
    assert np.all(cut.start < cut.end)
    for query in range(len(lo)):
        mine = cut.query == query
        assert instants(cut.start[mine], cut.end[mine]) == set(range(lo[query], hi[query]))
        assert (cut.end - cut.start)[mine].sum() == hi[query] - lo[query]
    inside = cut.piece >= 0
    assert np.all(made.start[cut.piece[inside]] <= cut.start[inside])
    assert np.all(made.end[cut.piece[inside]] >= cut.end[inside])
    holes = instants(cut.start[~inside], cut.end[~inside])
    assert not holes & instants(made.start, made.end)


@given(spans, spans)
def test_subtract_leaves_what_is_free(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    first, second = lane(one), lane(two)
    left = subtract(first, second)
    both = instants(first.start, first.end) - instants(second.start, second.end)
    assert instants(left.start, left.end) == both
    there = piece_at(first, left.start)
    assert np.array_equal(first.owner[there], left.owner)
    merged = merge([left, second])
    assert instants(merged.start, merged.end) == both | instants(second.start, second.end)


@given(spans, spans)
def test_overlap_measures_shared_time(
    pieces: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    made, (lo, hi) = lane(pieces), columns(asked)
    here = instants(made.start, made.end)
    expected = [len(here & set(range(lo[i], hi[i]))) for i in range(len(lo))]
    assert overlap(made, lo, hi).tolist() == expected


@given(spans, st.lists(st.integers(-1, END + 9), min_size=1))
def test_finds_the_piece_that_is_open(pieces: list[tuple[int, int]], at: list[int]) -> None:
    made = lane(pieces)
    found = piece_at(made, np.array(at, np.int64)).tolist()
    for instant, piece in zip(at, found, strict=True):
        here = [i for i in range(len(made)) if made.start[i] <= instant < made.end[i]]
        assert [piece] == (here or [-1])


def test_parts_put_together_are_the_whole() -> None:
    made = lane([(0, 2), (4, 1), (9, 3)])
    whole = concatenated([part(made, 0, 2), part(made, 2, 9)])
    assert (whole.start.tolist(), whole.end.tolist()) == ([0, 4, 9], [2, 5, 12])
    assert len(concatenated([])) == len(NO_LANE) == 0
