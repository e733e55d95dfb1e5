"""Lanes, unions and their measures against sets of instants."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.intervals import (
    NO_LANE,
    Lane,
    concatenate_lanes,
    cover,
    merge,
    overlap,
    piece_at,
    slice_lane,
    subtract,
    union,
)
from gapless.model.trace import Int64

END = 30
spans = st.lists(st.tuples(st.integers(0, END), st.integers(0, 8)), max_size=8)


def columns(pairs: list[tuple[int, int]]) -> tuple[Int64, Int64]:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 0] + rows[:, 1]


def instants(start: Int64, end: Int64) -> set[int]:
    pairs = zip(start.tolist(), end.tolist(), strict=True)
    return {instant for s, e in pairs for instant in range(s, e)}


def make_lane(pairs: list[tuple[int, int]]) -> Lane:
    return union(*columns(pairs))


@given(spans)
def test_a_union_holds_each_instant_once(pairs: list[tuple[int, int]]) -> None:
    start, end = columns(pairs)
    lane = union(start, end)
    assert instants(lane.start, lane.end) == instants(start, end)
    assert np.all(lane.start[1:] > lane.end[:-1])
    assert np.array_equal(start[lane.owner], lane.start)


@given(spans, spans)
def test_cover_tiles_each_question(
    pieces: list[tuple[int, int]], questions: list[tuple[int, int]]
) -> None:
    lane, (lo, hi) = make_lane(pieces), columns(questions)
    cut = cover(lane, lo, hi)
    assert np.all(cut.start < cut.end)
    for query in range(len(lo)):
        is_query = cut.query == query
        assert instants(cut.start[is_query], cut.end[is_query]) == set(range(lo[query], hi[query]))
        assert (cut.end - cut.start)[is_query].sum() == hi[query] - lo[query]
    inside = cut.piece >= 0
    assert np.all(lane.start[cut.piece[inside]] <= cut.start[inside])
    assert np.all(lane.end[cut.piece[inside]] >= cut.end[inside])
    holes = instants(cut.start[~inside], cut.end[~inside])
    assert not holes & instants(lane.start, lane.end)


@given(spans, spans)
def test_subtract_leaves_what_is_free(
    first_pairs: list[tuple[int, int]], second_pairs: list[tuple[int, int]]
) -> None:
    first_lane, second_lane = make_lane(first_pairs), make_lane(second_pairs)
    remaining = subtract(first_lane, second_lane)
    expected = instants(first_lane.start, first_lane.end) - instants(
        second_lane.start, second_lane.end
    )
    assert instants(remaining.start, remaining.end) == expected
    piece_indices = piece_at(first_lane, remaining.start)
    assert np.array_equal(first_lane.owner[piece_indices], remaining.owner)
    merged_lane = merge([remaining, second_lane])
    assert instants(merged_lane.start, merged_lane.end) == expected | instants(
        second_lane.start, second_lane.end
    )


@given(spans, spans)
def test_overlap_measures_shared_time(
    pieces: list[tuple[int, int]], questions: list[tuple[int, int]]
) -> None:
    lane, (lo, hi) = make_lane(pieces), columns(questions)
    covered = instants(lane.start, lane.end)
    expected = [len(covered & set(range(lo[i], hi[i]))) for i in range(len(lo))]
    assert overlap(lane, lo, hi).tolist() == expected


@given(spans, st.lists(st.integers(-1, END + 9), min_size=1))
def test_finds_the_piece_that_is_open(pieces: list[tuple[int, int]], moments: list[int]) -> None:
    lane = make_lane(pieces)
    indices = piece_at(lane, np.array(moments, np.int64)).tolist()
    for instant, piece in zip(moments, indices, strict=True):
        expected = [i for i in range(len(lane)) if lane.start[i] <= instant < lane.end[i]]
        assert [piece] == (expected or [-1])


def test_parts_put_together_are_the_whole() -> None:
    lane = make_lane([(0, 2), (4, 1), (9, 3)])
    joined_lane = concatenate_lanes([slice_lane(lane, 0, 2), slice_lane(lane, 2, 9)])
    assert (joined_lane.start.tolist(), joined_lane.end.tolist()) == ([0, 4, 9], [2, 5, 12])
    assert len(concatenate_lanes([])) == len(NO_LANE) == 0
