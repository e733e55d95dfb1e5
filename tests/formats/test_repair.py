"""Events that are no JSON, or of wrong types: mended where the meaning is plain, else dropped."""

from pathlib import Path

import pytest

from gapless.formats import read
from tests.formats.writing import (
    document,
    health_counts,
    kernel,
    op,
    raw_event,
    read_events,
    spans,
    write_trace,
)

_BROKEN_NAMES = [
    # what the writer wrote between the quotes, what it meant, what is counted
    (b"a\x01b", "a\x01b", "raw control character"),
    (b"two\nlines", "two\nlines", "raw control character"),
    (b"tab\there", "tab\there", "raw control character"),
    (b"caf\xe9 \xff", "caf� �", "bad UTF-8"),
    (rb"C:\path\q", r"C:\path\q", "bad escape"),
    (rb"\u12", r"\u12", "bad escape"),
    (b'say "hi" now', 'say "hi" now', "unescaped quote"),
    (b'{"device": "cpu"}', '{"device": "cpu"}', "unescaped quote"),
    (b'<lambda>("x", [1, 2])', '<lambda>("x", [1, 2])', "unescaped quote"),
    (rb"\ud800 half", "� half", "half a surrogate pair"),
    (rb"\udc00\ud800", "��", "half a surrogate pair"),
]


@pytest.mark.parametrize(("text", "expected_name", "repair"), _BROKEN_NAMES)
def test_mends_a_name_and_counts_it(
    tmp_path: Path, text: bytes, expected_name: str, repair: str
) -> None:
    before, after = op("before", ts="1").encode(), kernel(ts="9").encode()
    broken_event = (
        b'{"ph": "X", "name": "'
        + text
        + b'", "cat": "cpu_op", "pid": 1, "tid": 2, "ts": 5.5, "dur": 1}'
    )
    data = (
        document([])
        .encode()
        .replace(b"\n]", b"\n" + b",\n".join((before, broken_event, after)) + b"\n]")
    )
    trace = read(write_trace(tmp_path, data))
    assert spans(trace) == [("before", 1000, 6000), (expected_name, 5500, 6500), ("k", 9000, 12000)]
    assert health_counts(trace) == ({}, {repair: 1})
    assert trace.written_events == 3
    "".join(trace.names).encode()  # what cannot be printed would raise


def test_a_whole_pair_of_surrogates_is_one_letter_and_no_repair(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [raw_event(r'"\ud83d\ude00"', "1", "1")])
    assert trace.names == ("😀",)
    assert health_counts(trace) == ({}, {})


_NO_NUMBER = "no number (N/A, inf, nan)"
_WRONG = "value of a wrong type"
_OPEN = op("e", ts="2", dur="1")[:-1]  # to be closed by the test
_TEXTS = [
    (op("e", ts="2", dur="inf"), _NO_NUMBER, 2000),
    (op("e", ts="2", dur="N/A"), _NO_NUMBER, 2000),
    (op("e", ts="2", dur="NaN"), _NO_NUMBER, 2000),
    (op("e", ts="2", dur="-Infinity"), _NO_NUMBER, 2000),
    (op("e", ts="2", dur=""), "empty value", 2000),
    (op("e", ts="2", dur="1,"), "comma too many", 3000),
    (_OPEN + ",}", "comma too many", 3000),
    (op("e", ts="2", dur="01"), "number in an odd form", 3000),
    (op("e", ts="+2", dur="1."), "number in an odd form", 3000),
    (_OPEN + ', "args": {"Process Group Description": }}', "empty value", 3000),
    (_OPEN + ', "args": {"bw": 1.#INF, "x": [nan, inf]}}', _NO_NUMBER, 3000),
    (op("e", ts="2", dur="1", args=[1, 2]), _WRONG, 3000),
    (op("e", ts="2", dur="1", args="text"), _WRONG, 3000),
    (op("e", ts="2", dur="1", pid=True), _WRONG, 3000),
    (op("e", ts="2", dur="1", cat=["x"]), _WRONG, 3000),
    (op("e", ts='"2"', dur='"1"'), "number written as text", 3000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "repair", "end"), _TEXTS)
def test_mends_an_event_and_counts_it(tmp_path: Path, text: str, repair: str, end: int) -> None:
    trace = read_events(tmp_path, [op("before", ts="0"), text, op("after", ts="9")])
    assert spans(trace)[1] == ("e", 2000, end)
    assert len(trace.events) == 3
    dropped, repaired = health_counts(trace)
    assert dropped == {}
    assert repair in repaired


_HOPELESS = [
    ('{"ph": "X", "ts": 1, "name": "a" "b": 2}', "no JSON"),
    ('{"ph": "X", "ts": 1, "name": nonsense here}', "no JSON"),
    ('{"ph": "X" "ts": 1}', "no JSON"),
    ('{"ph": "?", "ts": 1}', "no known phase"),
    ('{"ph": ["X"], "ts": 1}', "no known phase"),
    ('{"name": "phaseless", "ts": 1}', "no known phase"),
    ('{"ph": "X", "name": "e"}', "no usable time"),
]


@pytest.mark.parametrize(("text", "reason"), _HOPELESS)
def test_drops_what_it_would_have_to_guess_and_counts_it(
    tmp_path: Path, text: str, reason: str
) -> None:
    trace = read_events(tmp_path, [op("before", ts="0"), text, op("after", ts="9")])
    assert [name for name, _, _ in spans(trace)] == ["before", "after"]
    assert health_counts(trace) == ({reason: 1}, {})
    assert trace.written_events == 3


def test_a_deeply_nested_event_is_dropped_not_a_crash(tmp_path: Path) -> None:
    deep = op("deep")[:-1] + ', "args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    trace = read_events(tmp_path, [op("before", ts="0"), deep, op("after", ts="9")])
    assert [name for name, _, _ in spans(trace)] == ["before", "after"]


def test_of_duplicate_keys_the_last_wins(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, ['{"ph": "X", "ts": 1, "name": "a", "ts": 2, "dur": 3, "name": "b", "dur": 1}']
    )
    assert spans(trace) == [("b", 2000, 3000)]


def test_a_name_that_is_a_number_is_its_text(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [raw_event("5", "1", "1")])
    assert trace.names == ("5",)
    assert health_counts(trace)[1] == {"value of a wrong type": 1}


@pytest.mark.parametrize(
    ("value", "column"), [("12", 12), (12.0, 12), ("x", -1), (None, -1), (2**70, -1), ([1], -1)]
)
def test_a_correlation_of_a_wrong_type_is_taken_if_it_is_a_number(
    tmp_path: Path, value: object, column: int
) -> None:
    trace = read_events(tmp_path, [kernel(correlation=value), op("after")])
    assert trace.events.correlation.tolist() == [column, -1]


@pytest.mark.parametrize(
    ("value", "column"), [(7, 7), ("7", 7), ("0x1f", 31), (None, 7), ("x", 7), (-1, 7)]
)
def test_a_stream_is_a_number_in_any_form_else_that_of_the_track(
    tmp_path: Path, value: object, column: int
) -> None:
    assert read_events(tmp_path, [kernel(stream=value)]).gpu.stream.tolist() == [column]


def test_bad_utf8_in_what_is_skipped_spoils_nothing(tmp_path: Path) -> None:
    text = document([op("a"), op("b", args={"skipped": "?"})]).encode().replace(b"?", b"\xff")
    trace = read(write_trace(tmp_path, text))
    assert [name for name, _, _ in spans(trace)] == ["a", "b"]


def test_repairs_are_found_among_thousands_of_sound_events(tmp_path: Path) -> None:
    events = [op(f"n{i}", ts=f"{i}.001") for i in range(5000)]
    for index in (0, 1, 1234, 2500, 4999):
        events[index] = events[index].replace(f'"n{index}"', f'"n"{index}"')
    trace = read_events(tmp_path, events)
    assert health_counts(trace) == ({}, {"unescaped quote": 5})
    assert trace.events.start.tolist() == [i * 1000 + 1 for i in range(5000)]


def test_broken_metadata_costs_only_the_keys_that_are_broken(tmp_path: Path) -> None:
    head = '"bad": N/A, "baseTimeNanoseconds": 5, "path": "C:\\x", "distributedInfo": {"rank": 2}, '
    trace = read_events(tmp_path, [op()], head)
    assert (trace.origin_ns, trace.rank) == (5, 2)


def test_metadata_of_wrong_types_is_absent_not_a_crash(tmp_path: Path) -> None:
    head = (
        '"baseTimeNanoseconds": "soon", "deviceProperties": [3, {"id": "x", "name": 5}], '
        '"distributedInfo": {"rank": [1], "world_size": null, "backend": 7}, "INFO": {"a": 1}, '
    )
    trace = read_events(tmp_path, [op()], head)
    assert trace.origin_ns == 0
    assert trace.devices[0].name is None
    assert trace.distributed is not None
    assert (trace.distributed.rank, trace.distributed.world, trace.distributed.backend) == (
        None,
    ) * 3
