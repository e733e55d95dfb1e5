"""Packed columns: a trace comes back equal, or the file is refused."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import asdict, replace

from gapless.errors import NotATraceError, NotFoundError
from gapless.formats import read
from gapless.model.trace import Events, MemoryColumns, Trace
from gapless.store import columns
from tests.formats.writing import differences, document, kernel, op, write_trace
from tests.traces import KINETO_FILES

EXTREMES = (0, 1, -1, 127, -128, 255, 256, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63))


@pytest.fixture(name="trace", scope="module")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return a trace with every kind of table."""
    inputs = {"Input Dims": [[2], [[3, 4]]], "Input Strides": [[1], [[4, 1]]],
              "Input type": ["float", "TensorList"], "Concrete Inputs": ["", "2"]}  # fmt: skip
    point = '"name": "[memory]", "ts": 7.5, "args": {"Bytes": 64, "Device Id": -1}}'
    events = [op(args=inputs), kernel(grid=[1], Seq=3), '{"ph": "i", ' + point, '{"ph": "?"}']
    head = '"deviceProperties": [{"id": 0, "name": "X"}], "distributedInfo": {"rank": 1}, '
    return read(write_trace(tmp_path_factory.mktemp("small"), document(events, head)))


def pack_and_load(trace: Trace, folder: Path) -> Trace:
    path = folder / "rank0-step1.json.columns"
    path.write_bytes(columns.encode_trace(trace))
    assert columns.is_packed(path)
    return columns.load(path)


@pytest.mark.parametrize("path", KINETO_FILES, ids=lambda path: path.name.split(".json")[0])
def test_a_trace_comes_back_equal_from_a_small_part_of_its_bytes(
    path: Path, tmp_path: Path
) -> None:
    trace = read(path)
    loaded_trace = pack_and_load(trace, tmp_path)
    assert differences(trace, loaded_trace) == []
    assert loaded_trace.path == str(tmp_path / "rank0-step1.json.columns")
    assert (tmp_path / "rank0-step1.json.columns").stat().st_size < 0.4 * path.stat().st_size


def test_tables_of_every_kind_come_back_equal(trace: Trace, tmp_path: Path) -> None:
    loaded_trace = pack_and_load(trace, tmp_path)
    assert differences(trace, loaded_trace) == []
    assert len(loaded_trace.memory.time) == len(loaded_trace.collectives) == 1
    assert loaded_trace.health.dropped != ()


def test_windows_of_one_run_share_their_tables_in_an_archive(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "rank0-step1.json.columns"
    content = columns.encode_trace(trace, archived=True)
    path.write_bytes(content)
    assert differences(trace, columns.load(path)) == []
    assert b"TensorList" in content
    assert b"TensorList" not in columns.encode_trace(trace)
    path.write_bytes(content[:-1])
    with pytest.raises(NotATraceError, match="damaged columns"):
        columns.load(path)


def test_times_come_back_whatever_they_are(trace: Trace, tmp_path: Path) -> None:
    """Also times that overlap on a track, decrease, or are as far apart as integers can be."""
    numbers = np.random.default_rng(0)
    values = np.concatenate([np.array(EXTREMES), numbers.integers(-2000, 2000, 500)])
    count = len(values)
    random_events = Events(
        start=values,
        end=numbers.permutation(values),
        name=numbers.integers(0, 3, count, dtype=np.int32),
        category=numbers.integers(0, 9, count, dtype=np.uint8),
        track=numbers.integers(-1, 3, count, dtype=np.int32),
        correlation=numbers.permutation(values),
        detail=np.full(count, -1, np.int32),
    )
    random_trace = replace(trace, events=random_events)
    assert differences(random_trace, pack_and_load(random_trace, tmp_path)) == []


def test_a_trace_without_events_comes_back(trace: Trace, tmp_path: Path) -> None:
    memory = trace.memory
    empty_trace = replace(
        trace,
        events=Events(**{name: column[:0] for name, column in asdict(trace.events).items()}),
        memory=MemoryColumns(**{name: column[:0] for name, column in asdict(memory).items()}),
    )
    assert differences(empty_trace, pack_and_load(empty_trace, tmp_path)) == []


def test_columns_are_read_only(trace: Trace, tmp_path: Path) -> None:
    loaded_trace = pack_and_load(trace, tmp_path)
    for group in (loaded_trace.events, loaded_trace.gpu, loaded_trace.memory):
        assert not any(column.flags.writeable for column in asdict(group).values())


def test_a_damaged_file_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = columns.encode_trace(trace)
    head = content[: content.index(b"\n") + 1]
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0x10
    path = tmp_path / "x.columns"
    for damaged in (content[:-40], flipped, head, head + lzma.compress(b"\x80"), head + b"{}"):
        path.write_bytes(damaged)
        with pytest.raises(NotATraceError, match=r"x\.columns: damaged columns"):
            columns.load(path)
    path.write_bytes(content)
    monkeypatch.setattr(columns, "_MAX_BYTES", 100)
    with pytest.raises(NotATraceError, match="too long"):
        columns.load(path)


def test_a_file_that_is_not_there_or_another_is_not_taken_for_one(tmp_path: Path) -> None:
    assert not columns.is_packed(tmp_path / "gone.columns")
    assert not columns.is_packed(KINETO_FILES[0])
    with pytest.raises(NotFoundError, match=r"gone\.columns: No such file"):
        columns.load(tmp_path / "gone.columns")
