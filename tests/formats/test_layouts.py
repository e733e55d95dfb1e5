"""The same events, whatever the writer's layout, compression and the reader's chunks."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import NotATraceError
from gapless.formats import read
from gapless.formats.text import chunks
from gapless.model.trace import Trace
from tests.formats.writing import (
    differences,
    document,
    health_counts,
    kernel,
    op,
    spans,
    write_trace,
)

_TIMES: Any = {"ts": 10.5, "dur": 5.25, "pid": 1, "tid": 2}
_OP: Any = {"ph": "X", "cat": "cpu_op"}
_EVENTS: list[dict[str, Any]] = [
    {**_OP, "name": "aten::add", "args": {"Input Dims": [[2, 3], []]}, **_TIMES},
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
    {"ph": "s", "id": 1, "pid": 1, "tid": 2, "ts": 10.5, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "cat": "kernel", "name": "k},{", "ts": 12, "dur": 1, "pid": 0, "tid": 7,
     "args": {"correlation": 9, "device": 0, "stream": 7, "grid": [1, 2, 3]}},
    {"ph": "C", "name": "counter", "pid": "GPU 0 Counters", "tid": 0, "ts": 11, "args": {"": 1}},
    {**_OP, "name": '"quoted" ], é', "args": {"list": [{"ph": "X"}, {"ph": "X"}]},
     **_TIMES},
]  # fmt: skip
_HEAD = {"schemaVersion": 1, "baseTimeNanoseconds": 7, "distributedInfo": {"rank": 3}}


def _events_first() -> str:
    return json.dumps({"traceEvents": _EVENTS, **_HEAD})


def _events_last() -> str:
    return json.dumps({**_HEAD, "traceEvents": _EVENTS})


def _pretty() -> str:
    return json.dumps({**_HEAD, "traceEvents": _EVENTS, "traceName": "a]},[{b"}, indent=2)


def _compact() -> str:
    return json.dumps({**_HEAD, "traceEvents": _EVENTS}, separators=(",", ":"))


def _sorted_keys() -> str:
    return json.dumps({**_HEAD, "traceEvents": _EVENTS}, sort_keys=True)


def _not_ascii() -> str:
    return "\ufeff" + json.dumps({**_HEAD, "traceEvents": _EVENTS}, ensure_ascii=False)


def _phase_last() -> str:
    events = [{**{k: v for k, v in e.items() if k != "ph"}, "ph": e["ph"]} for e in _EVENTS]
    return json.dumps({**_HEAD, "traceEvents": events})


def _line_by_line() -> str:
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in _EVENTS)
    return f'{{\n{json.dumps(_HEAD)[1:-1]},\n"traceEvents": [\n{lines}\n]\n}}\n'


def _trailing_comma() -> str:
    return _line_by_line().replace("\n]\n}", ",\n],\n}")


_LAYOUTS = [
    *(_events_first, _events_last, _pretty, _compact, _sorted_keys),
    *(_not_ascii, _phase_last, _line_by_line, _trailing_comma),
]


def _check_events(trace: Trace) -> None:
    assert spans(trace) == [
        ("aten::add", 10500, 15750),
        ("k},{", 12000, 13000),
        ('"quoted" ], é', 10500, 15750),
    ]
    assert health_counts(trace) == ({}, {})
    assert trace.written_events == 6
    assert not trace.health.truncated
    assert trace.tracks[0].process == "python"
    assert trace.shapes[trace.events.detail[0]].dims == ((2, 3), ())
    assert trace.geometries[trace.gpu.geometry[0]].grid == (1, 2, 3)


@pytest.mark.parametrize("chunk", [1, 150, 400, 4 << 20])
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_reads_the_same_from_every_layout_in_chunks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Callable[[], str], chunk: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    monkeypatch.setattr("gapless.formats.text.stream.PIECE", 100)
    trace = read(write_trace(tmp_path, layout()))
    _check_events(trace)
    assert trace.rank == 3
    assert trace.origin_ns == 7
    assert trace.health.source == "kineto"


def test_reads_a_bare_list(tmp_path: Path) -> None:
    trace = read(write_trace(tmp_path, json.dumps(_EVENTS)))
    _check_events(trace)
    assert trace.health.source == "chrome"
    assert trace.rank is None


def test_a_bare_list_may_stay_open_as_chrome_allows(tmp_path: Path) -> None:
    trace = read(write_trace(tmp_path, json.dumps(_EVENTS)[:-1]))
    _check_events(trace)
    assert trace.health.notes == ("the list of events is not closed",)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.json.zst", "t"])
def test_compression_is_told_by_content(tmp_path: Path, name: str) -> None:
    _check_events(read(write_trace(tmp_path, _events_last(), name)))


def test_compression_is_told_by_content_not_by_the_suffix(tmp_path: Path) -> None:
    _check_events(
        read(write_trace(tmp_path, gzip.compress(_events_last().encode()), "misnamed.json"))
    )
    _check_events(
        read(write_trace(tmp_path, gzip.compress(_events_last().encode()), "misnamed.zst.json"))
    )


def test_reads_a_gzip_of_several_members_with_padding(tmp_path: Path) -> None:
    data = _events_last().encode()
    members = [
        gzip.compress(data[:300], mtime=0),
        b"\0" * 9,
        gzip.compress(data[300:500], mtime=0),
        gzip.compress(data[500:], mtime=0),
    ]
    _check_events(read(write_trace(tmp_path, b"".join(members), "t.bin")))


def test_bytes_after_the_compressed_stream_are_ignored_and_noted(tmp_path: Path) -> None:
    trace = read(
        write_trace(tmp_path, gzip.compress(_events_last().encode()) + b"rubbish", "t.bin")
    )
    _check_events(trace)
    assert trace.health.notes == ("7 bytes after the compressed stream were ignored",)


def test_metadata_after_the_events_may_hold_what_looks_like_events(tmp_path: Path) -> None:
    devices = '"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]'
    tail = f', {devices}, "distributedInfo": {{"rank": 5}}'
    trace = read(write_trace(tmp_path, document([op("a"), kernel()], "", tail)))
    assert [device.name for device in trace.devices] == ["A", "B"]
    assert trace.rank == 5
    assert len(trace.events) == 2


def test_an_empty_list_of_kineto_is_a_trace_without_events(tmp_path: Path) -> None:
    trace = read(write_trace(tmp_path, document([])))
    assert len(trace.events) == 0
    assert trace.health.dropped == ()


_NAMES = st.text(alphabet=st.sampled_from('},{"[]:\\ \n\x01é😀phaX'), max_size=12)


@settings(max_examples=60)
@given(
    st.lists(_NAMES, min_size=1, max_size=12), st.integers(1, 300), st.sampled_from([None, 0, 2])
)
def test_no_name_can_fool_the_cutting(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], chunk: int, indent: int | None
) -> None:
    folder = tmp_path_factory.mktemp("names")
    events = [{"ph": "X", "ts": i, "dur": 1, "name": n, "args": {"x": [{"name": n}, {"id": n}]}}
              for i, n in enumerate(names)]  # fmt: skip
    path = write_trace(folder, json.dumps({"traceEvents": events, "z": names}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", chunk)
        trace = read(path, processes=1)
    assert [name for name, _, _ in spans(trace)] == names
    assert health_counts(trace) == ({}, {})
    assert differences(trace, read(path, processes=1)) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (b'{"name": "left-pad", "version": "1.0.0", "files": []}', "traceEvents"),
        (b'[{"name": "left-pad"}, {"name": "x"}]', "none of its"),
        (b"[1, 2, 3]", "no events"),
        (b"[]", "no events"),
        (b"\x7fELF\x02\x01\x01\x00", "ELF"),
        (b"step,time\n1,2\n", "no JSON"),
        (gzip.compress(b"hello", mtime=0), "no JSON"),
        (gzip.compress(b"hello world" * 99, mtime=0)[:20], "no JSON"),
        (b"\x1f\x8b\x08\x00rubbish and more", "damaged"),
        (b"\x28\xb5\x2f\xfdrubbish", "damaged"),
        (b'{"traceEvents": [{"a": 1}, {"b": 2}]}', "none of its"),
        (b'{"schemaVersion": 1, "traceEv', "traceEvents"),
    ],
)
def test_refuses_what_is_no_trace_with_path_and_reason(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = write_trace(tmp_path, content, "other")
    with pytest.raises(NotATraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
