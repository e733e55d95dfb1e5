"""Kineto's clock against the recorder's, from ranges between two readings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gapless.accounting.clock import (
    CLOCK,
    STEP,
    ClockRanges,
    Readings,
    clock_ranges,
    cut_open_ranges,
    match_clocks,
)
from gapless.model import category
from gapless.model.trace import Trace
from tests.accounting.drawing import Drawing, Frame, draw

ORIGIN = 1_790_000_000_000_000_000


def clock_ranges_of(trace: Trace) -> ClockRanges:
    ranges = clock_ranges(trace)
    assert ranges is not None
    return ranges


def match_trace(trace: Trace, readings: Readings) -> tuple[int, int] | None:
    return match_clocks(clock_ranges_of(trace), readings)


def make_trace(spans: list[tuple[int, int]], origin: int = 0, resolution: int = 1) -> Trace:
    frames = [
        Frame("range", start, end, name=CLOCK, category=category.USER_ANNOTATION)
        for start, end in spans
    ]
    frames.append(Frame("op", 0, 5))
    trace = draw(Drawing(frames=frames, origin=origin)).trace
    return replace(trace, health=replace(trace.health, resolution_ns=resolution))


def test_one_range_bounds_the_offset_from_both_sides() -> None:
    # Ours 100 … 130, Kineto's 1110 … 1120: the offset is between 990 and 1010.
    assert match_trace(make_trace([(1110, 1120)]), [[(100, 130)]]) == (1000, 10)


def test_the_bounds_of_an_edge_meet() -> None:
    # 990 … 1010 and 1000 … 1040: between 1000 and 1010.
    offset_and_error = match_trace(
        make_trace([(1110, 1120), (1240, 1300)]), [[(100, 130), (200, 300)]]
    )
    assert offset_and_error == (1005, 5)


def test_drift_moves_the_middle_and_widens_the_error() -> None:
    # Exactly 1000 at the beginning and exactly 1040 at the end.
    offset_and_error = match_trace(
        make_trace([(1100, 1120), (9040, 9060)]), [[(100, 120)], [(8000, 8020)]]
    )
    assert offset_and_error == (1020, 20)


def test_the_origin_of_the_trace_belongs_to_kinetos_clock() -> None:
    assert match_trace(make_trace([(1110, 1120)], origin=ORIGIN), [[(100, 130)]]) == (
        ORIGIN + 1000,
        10,
    )


def test_coarse_timestamps_widen_the_error() -> None:
    assert match_trace(make_trace([(1110, 1120)], resolution=1000), [[(100, 130)]]) == (
        1000,
        10 + 999,
    )


def test_a_range_without_length_still_bounds() -> None:
    assert match_trace(make_trace([(1115, 1115)]), [[(100, 130)]]) == (1000, 15)


def test_a_contradiction_leaves_the_tightest() -> None:
    offset_and_error = match_trace(
        make_trace([(1100, 1110), (5200, 5220)]), [[(100, 110), (200, 280)]]
    )
    assert offset_and_error == (1000, 0)


@pytest.mark.parametrize("readings", [[], [[]], [[(0, 9)]], [[(0, 9)], [(0, 9), (10, 19)]]])
def test_readings_of_other_ranges_tell_nothing(readings: list[list[tuple[int, int]]]) -> None:
    assert match_trace(make_trace([(1, 2), (3, 4)]), readings) is None


def test_a_trace_without_the_ranges_tells_nothing() -> None:
    assert clock_ranges(make_trace([])) is None


def test_steps_are_seen_beside_the_clock() -> None:
    frames = [
        Frame("range", start, start + 5, name=name, category=category.USER_ANNOTATION)
        for name, start in ((STEP, 300), (CLOCK, 100), (STEP, 200))
    ]
    ranges = clock_ranges_of(draw(Drawing(frames=frames, origin=ORIGIN)).trace)
    assert ranges.steps == (ORIGIN + 200, ORIGIN + 300)


@given(
    st.integers(-(10**9), 10**9),
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 50), st.integers(0, 500)),
        min_size=1,
        max_size=20,
    ),
)
def test_the_true_offset_is_within_the_error(
    offset: int, lengths: list[tuple[int, int, int]]
) -> None:
    readings, spans, now = list[tuple[int, int]](), list[tuple[int, int]](), 10**10
    for before, length, after in lengths:
        readings.append((now, now + before + length + after))
        spans.append((now + before + offset, now + before + length + offset))
        now += 2000
    half = len(lengths) // 2
    offset_and_error = match_trace(make_trace(spans), [readings[:half], readings[half:]])
    assert offset_and_error is not None
    assert abs(offset_and_error[0] - offset) <= offset_and_error[1] <= 1002


def test_what_is_open_when_a_window_closes_ends_there() -> None:
    spans = {
        CLOCK: [(0, 1), (100, 101)],
        STEP: [(10, 11), (90, 91)],
        "Optimizer.step": [(5, 12), (85, 5000)],  # the profiler is stopped within the second
        "epoch": [(2, 95)],
    }
    frames = [
        Frame("range", start, end, name=name, category=category.USER_ANNOTATION)
        for name, pairs in spans.items()
        for start, end in pairs
    ]
    trace = draw(Drawing(frames=frames)).trace
    events = cut_open_ranges(trace).events
    name_indices: list[int] = events.name.tolist()
    spans_after = {*zip([trace.names[index] for index in name_indices], events.end, strict=True)}
    assert {("Optimizer.step", 12), ("Optimizer.step", 100), ("epoch", 95)} <= spans_after
    assert ("Optimizer.step", 5000) not in spans_after
    without_steps = make_trace([(1, 2)])
    assert cut_open_ranges(without_steps) is without_steps
