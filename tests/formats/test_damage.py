"""Cut and damaged files give what is there, and say so."""

import gzip
import zlib
from pathlib import Path

import pytest
import zstandard

from gapless.errors import NotATraceError, NotFoundError
from gapless.formats import read
from gapless.formats.text import chunks
from tests.formats.writing import document, health_counts, kernel, op, spans, write_trace

_EVENTS = [op(f"n{i}", ts=f"{i}.5", dur="1") for i in range(3000)]
_TEXT = document([*_EVENTS, kernel(ts="9000", dur="5")]).encode()


def test_a_cut_file_gives_the_whole_events_before_the_cut(tmp_path: Path) -> None:
    cut = _TEXT.index(b'"n2000"') + 20
    trace = read(write_trace(tmp_path, _TEXT[:cut]))
    assert [name for name, _, _ in spans(trace)] == [f"n{i}" for i in range(2000)]
    assert trace.health.truncated
    torn = cut - _TEXT.rindex(b'{"ph"', 0, cut)
    assert trace.health.notes == (f"the file ends inside an event; its {torn} bytes are lost",)
    assert health_counts(trace) == ({}, {})


@pytest.mark.parametrize("chunk", [50, 1000, 4 << 20])
def test_any_cut_is_recovered_up_to_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    text = document(
        [op(f"n{i}", ts=f"{i}", args={"l": [{"name": 1}, {"id": 2}]}) for i in range(4)]
    )
    start = text.index("[") + 1
    for cut in range(start + 200, len(text) - 4):
        trace = read(write_trace(tmp_path, text[:cut]))
        n_whole = sum(text.index(f'"n{i}"') < cut for i in range(4))
        ends_whole = text[:cut].rstrip(", \n").endswith("]}}") or text[:cut].endswith("\n]")
        assert len(trace.events) in ((n_whole,) if ends_whole else (n_whole - 1, n_whole))
        assert trace.health.truncated == ("\n]" not in text[start:cut])
        assert health_counts(trace) == ({}, {})


def test_a_cut_between_two_events_is_noticed(tmp_path: Path) -> None:
    cut = _TEXT.index(b',\n{"ph": "X", "name": "n7"')
    trace = read(write_trace(tmp_path, _TEXT[:cut]))
    assert len(trace.events) == 7
    assert trace.health.truncated
    assert trace.health.notes == ("the file ends before its list of events does",)


def test_a_file_cut_behind_its_events_lacks_nothing(tmp_path: Path) -> None:
    text = document(_EVENTS, tail=', "traceName": "some/path.json"').encode()
    trace = read(write_trace(tmp_path, text[:-12]))
    assert len(trace.events) == 3000
    assert not trace.health.truncated


def test_host_time_after_the_last_host_event_of_a_cut_file_is_lost(tmp_path: Path) -> None:
    events = [op("a", ts="1", dur="2"), kernel(ts="5", dur="4"), op("cut")]
    text = document(events)
    trace = read(write_trace(tmp_path, text[: text.index('"cut"')]))
    assert trace.health.lost == ((3000, 9000),)
    assert read(write_trace(tmp_path, text)).health.lost == ()


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_gzip_gives_what_can_be_inflated(tmp_path: Path, share: float) -> None:
    data = gzip.compress(_TEXT)
    data = data[: int(len(data) * share)]
    inflated = zlib.decompressobj(31).decompress(data)
    trace = read(write_trace(tmp_path, data, "t"))
    assert len(trace.events) == inflated.count(b'"tid": 100}')
    assert trace.health.truncated
    assert trace.health.notes[0] == "the gzip stream ends early"


def test_a_cut_zstd_gives_what_can_be_inflated(tmp_path: Path) -> None:
    frame = zstandard.ZstdCompressor().compress(_TEXT)
    trace = read(write_trace(tmp_path, frame[: len(frame) * 2 // 3], "t"))
    assert 500 < len(trace.events) < 3000
    assert trace.health.notes[0] == "the zstd stream ends early"


def test_a_wrong_checksum_loses_nothing_but_is_noted(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(_TEXT))
    data[-8] ^= 1
    trace = read(write_trace(tmp_path, bytes(data), "t"))
    assert len(trace.events) == 3001
    assert trace.health.notes[0].startswith("the gzip stream is damaged")
    assert trace.health.truncated


def test_a_stream_damaged_midway_gives_what_was_before(tmp_path: Path) -> None:
    first_part, second_part = (
        gzip.compress(_TEXT[:100_000]),
        bytearray(gzip.compress(_TEXT[100_000:])),
    )
    second_part[10] = 0xFF  # no type of deflate block
    trace = read(write_trace(tmp_path, first_part + bytes(second_part), "t"))
    assert len(trace.events) == _TEXT[:100_000].count(b'"tid": 100}')
    assert trace.health.notes[0].startswith("the gzip stream is damaged")
    frames = [
        zstandard.ZstdCompressor().compress(piece) for piece in (_TEXT[:100_000], _TEXT[100_000:])
    ]
    damaged = frames[0] + frames[1][:8] + b"\xff" * (len(frames[1]) - 8)
    trace = read(write_trace(tmp_path, damaged, "t"))
    assert len(trace.events) == _TEXT[:100_000].count(b'"tid": 100}')


def test_a_missing_file_a_folder_and_a_forbidden_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"gone\.json: No such file"):
        read(tmp_path / "gone.json")
    with pytest.raises(NotATraceError, match="folder"):
        read(tmp_path)


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_open(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write_trace(tmp_path, _TEXT)
    monkeypatch.setattr(Path, "open", refuse_open)
    with pytest.raises(NotFoundError, match=r"t\.json: Permission denied"):
        read(path)
