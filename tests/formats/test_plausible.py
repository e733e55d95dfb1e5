"""Durations and starts that cannot be are clipped or dropped, and counted; overlaps stay."""

from pathlib import Path

from tests.formats.writing import health_counts, kernel, op, read_events, spans

_SECOND = 1_000_000  # µs


def test_kernels_that_overlap_by_microseconds_stay_as_they_are(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [kernel("10", "5.000"), kernel("13.5", "5"), kernel("14", "1")])
    assert [end - start for _, start, end in spans(trace)] == [5000, 5000, 1000]
    assert health_counts(trace) == ({}, {})


def test_a_long_kernel_without_successors_on_its_stream_stays(tmp_path: Path) -> None:
    events = [
        kernel("10", str(30 * _SECOND)),
        kernel("20", "5", stream=8),
        op(ts=str(30 * _SECOND)),
    ]
    trace = read_events(tmp_path, events)
    assert spans(trace)[0][2] == 10_000 + 30_000_000_000
    assert health_counts(trace) == ({}, {})


def test_a_kernel_of_seconds_over_its_successors_is_clipped_at_the_next(tmp_path: Path) -> None:
    events = [kernel("10", str(3 * _SECOND)), kernel("50", "5"), kernel("60", "5")]
    trace = read_events(tmp_path, events)
    assert spans(trace) == [("k", 10_000, 50_000), ("k", 50_000, 55_000), ("k", 60_000, 65_000)]
    assert health_counts(trace)[1] == {
        "kernel of seconds over its successors on a stream: clipped at the next one": 1
    }


def test_an_end_far_past_the_capture_is_clipped_to_it(tmp_path: Path) -> None:
    events = [op("a", ts="10", dur=str(90_000 * _SECOND)), op("b", ts="20", dur="30")]
    trace = read_events(tmp_path, events)
    assert spans(trace) == [("a", 10_000, 50_000), ("b", 20_000, 50_000)]
    assert health_counts(trace)[1] == {"duration far past the end of the capture: clipped to it": 1}


def test_a_start_clamped_to_zero_is_dropped_where_all_others_are_hours_later(
    tmp_path: Path,
) -> None:
    late = 4367474801410
    events = [kernel("0.000", "5"), kernel(f"{late}.100", "5"), op(ts=f"{late}.054")]
    trace = read_events(tmp_path, events)
    assert len(trace.events) == 2
    assert health_counts(trace)[0] == {
        "start at 0, as writers clamp what lies before their time base": 1
    }
    assert trace.events.detail.tolist() == [0, -1]
    assert len(trace.gpu.device) == 1


def test_a_start_at_zero_among_early_ones_is_a_start(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [op(ts="0"), op(ts="5")])
    assert len(trace.events) == 2


def test_exact_duplicates_are_left_to_the_account(tmp_path: Path) -> None:
    assert len(read_events(tmp_path, [kernel(), kernel()]).events) == 2
