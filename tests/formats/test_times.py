"""Times come from the decimal text, exactly."""

from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from gapless.formats.columns.decimals import LIMIT, Doubt, nanoseconds
from tests.formats.writing import health_counts, op, read_events, spans

_INTEGER = st.integers(0, 10**18).map(str)
_PLAIN = st.from_regex(r"(0|[1-9][0-9]{0,16})\.[0-9]{1,12}", fullmatch=True)
_SIGNED = st.from_regex(r"-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,9})?", fullmatch=True)
_EXPONENT = st.from_regex(r"-?[1-9](\.[0-9]{1,9})?[eE]([+-]?[0-9]|-[12][0-9])", fullmatch=True)
_KINETO = st.from_regex(r"(0|[1-9][0-9]{0,14})\.[0-9]{3}", fullmatch=True)
_NUMBERS = st.one_of(_INTEGER, _PLAIN, _SIGNED, _EXPONENT, _KINETO)


def _expected_ns(text: str) -> int | None:
    value = (Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN)
    return int(value) if abs(Decimal(text) * 1000) <= LIMIT else None


@given(st.lists(_NUMBERS, min_size=1, max_size=8))
@example(["0.0005", "0.0015", "0.0025", "0.00050000001"])
@example(["1712195495505582.988", "4611686018427387.903", "4611686018427387.904"])
@example(["4", "4.5", "12.345"])
def test_equals_the_decimal_rounded_half_to_even(texts: list[str]) -> None:
    values, doubts = nanoseconds([Raw(text.encode()) for text in texts])
    for row, text in enumerate(texts):
        expected = _expected_ns(text)
        if expected is None:
            assert doubts is not None
            assert doubts[row] == Doubt.UNUSABLE
        else:
            assert values[row] == expected
            assert doubts is None or doubts[row] == Doubt.CLEAR


@given(st.lists(_KINETO, min_size=1, max_size=50))
def test_kinetos_three_decimals_take_the_fast_path_to_the_same_values(texts: list[str]) -> None:
    values, doubts = nanoseconds([Raw(text.encode()) for text in texts])
    assert values.tolist() == [_expected_ns(text) for text in texts]
    assert doubts is None


@pytest.mark.parametrize(
    ("text", "value"), [('"12.5"', 12500), ('" 7 "', 7000), ('"-1.-500"', -1500), ('"0.-01"', -1)]
)
def test_a_number_written_as_text_is_taken_and_marked(text: str, value: int) -> None:
    values, doubts = nanoseconds([Raw(b"1.000"), Raw(text.encode())])
    assert values.tolist() == [1000, value]
    assert doubts is not None
    assert doubts.tolist() == [Doubt.CLEAR, Doubt.TEXT]


@pytest.mark.parametrize(
    "text", ["", "null", "[1,2]", "{}", '"abc"', '""', "true", "1e400", "9" * 40]
)
def test_what_is_no_time_is_marked_unusable(text: str) -> None:
    values, doubts = nanoseconds([Raw(b"2.5"), Raw(text.encode()), Raw(b"3")])
    assert values.tolist() == [2500, 0, 3000]
    assert doubts is not None
    assert doubts.tolist() == [Doubt.CLEAR, Doubt.UNUSABLE, Doubt.CLEAR]


def test_an_end_is_start_plus_duration_each_rounded_by_itself(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, [op(ts="1.0005", dur="2.0015"), op(ts="4000000000001.001", dur="0.0")]
    )
    assert spans(trace)[0][1:] == (1000, 3002)  # 1000.5 → 1000, 2001.5 → 2002: half to even
    assert spans(trace)[1][1:] == (4000000000001001, 4000000000001001)


def test_absolute_times_move_whole_seconds_into_the_origin(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, [op(ts="1712195495505582.988", dur="1.5"), op(ts="1712195496000000.001")]
    )
    assert trace.origin_ns == 1712195495000000000
    assert spans(trace)[0][1:] == (505582988, 505584488)
    assert spans(trace)[1][1] == 1000000001
    assert trace.health.resolution_ns == 1


def test_times_relative_to_a_base_stay_and_the_base_is_the_origin(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, [op(ts="4367474801410.054")], '"baseTimeNanoseconds": 1790857026000000000, '
    )
    assert trace.origin_ns == 1790857026000000000
    assert spans(trace)[0][1] == 4367474801410054


def test_absolute_times_beside_a_base_ignore_the_base_and_say_so(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, [op(ts="1712195495505582.988")], '"baseTimeNanoseconds": 1790857026000000000, '
    )
    assert trace.origin_ns + spans(trace)[0][1] == 1712195495505582988
    assert any("base ignored" in note for note in trace.health.notes)


def test_without_a_base_the_origin_is_unknown_not_guessed(tmp_path: Path) -> None:
    assert read_events(tmp_path, [op(ts="5.25")]).origin_ns == 0


@pytest.mark.parametrize(
    ("times", "resolution"),
    [(("1", "2"), 1000), (("1.000", "2.000"), 1000), (("1", "2.5"), 1), (("1.001", "2"), 1)],
)
def test_whole_microseconds_are_stated_as_the_resolution(
    tmp_path: Path, times: tuple[str, str], resolution: int
) -> None:
    trace = read_events(tmp_path, [op(ts=times[0], dur=times[1])])
    assert trace.health.resolution_ns == resolution


def test_a_negative_duration_is_a_point_and_counted(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, [op(ts="10", dur="-1"), op(ts="20", dur="0.-01"), op(ts="30", dur="4")]
    )
    assert [end - start for _, start, end in spans(trace)] == [0, 0, 4000]
    dropped, repaired = health_counts(trace)
    assert dropped == {}
    assert repaired["negative duration: kept as a point"] == 2


@pytest.mark.parametrize("dur", ["null", "[3]", "9e99", "1" * 60])
def test_an_unusable_duration_is_a_point_and_counted(tmp_path: Path, dur: str) -> None:
    trace = read_events(tmp_path, [op(ts="10", dur=dur), op(ts="20", dur="4")])
    assert [end - start for _, start, end in spans(trace)] == [0, 4000]
    assert sum(health_counts(trace)[1].values()) >= 1


@pytest.mark.parametrize("ts", ["null", "[3]", "NaN", '"soon"', "1e30", "-1e30"])
def test_an_event_without_a_usable_start_is_dropped_and_counted(tmp_path: Path, ts: str) -> None:
    trace = read_events(tmp_path, [op("a", ts="1"), op("b", ts=ts), op("c", ts="3")])
    assert [name for name, _, _ in spans(trace)] == ["a", "c"]
    assert health_counts(trace)[0] == {"no usable time": 1}
    assert trace.written_events == 3


def test_negative_times_are_kept(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [op(ts="-2.5", dur="1.25"), op(ts="3", dur="1")])
    assert spans(trace)[0][1:] == (-2500, -1250)
