"""Records are converted to packed columns, and only if nothing else changes."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.pack_records import (
    UnequalError,
    compare_records,
    pack_trace,
    pack_windows,
    round_times,
)
from gapless.capture.reading import read_trace
from gapless.model.trace import Trace
from gapless.store import columns
from gapless.store.columns import encode_trace
from gapless.store.run.pack import pack
from tests.formats.writing import differences
from tests.traces import TRACES, recorded_run


@pytest.fixture(name="run")
def run_with_json(tmp_path: Path) -> Path:
    """Return a run whose window is a file of Kineto."""
    run = tmp_path / recorded_run().name
    shutil.copytree(recorded_run(), run, ignore=shutil.ignore_patterns("*.columns"))
    shutil.copy(TRACES["loader_workers"], run / "windows" / "rank0-step12.json.gz")
    return run


@pytest.fixture(name="record")
def packed_record(run: Path, tmp_path: Path) -> Path:
    return pack(run, tmp_path / "run.tar.zst").path


def test_a_record_becomes_small_and_keeps_what_it_says(record: Path, tmp_path: Path) -> None:
    original = Path(shutil.copy(record, tmp_path / "original.tar.zst"))
    pack_windows(record)
    compare_records(original, record)
    assert record.stat().st_size < 0.4 * original.stat().st_size
    content = record.read_bytes()
    pack_windows(record)
    assert record.read_bytes() == content


def test_a_record_that_would_say_something_else_is_not_replaced(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode_shifted(trace: Trace, **options: bool) -> bytes:
        end = trace.events.end.copy()
        end[0] += 1
        return encode_trace(
            replace(trace, events=replace(trace.events, end=end), rank=9), **options
        )

    monkeypatch.setattr(columns, "encode_trace", encode_shifted)
    content = record.read_bytes()
    with pytest.raises(UnequalError, match=r"json\.gz: events\.end, rank$"):
        pack_windows(record)
    assert record.read_bytes() == content


def test_times_are_rounded_down_where_asked_and_nothing_else(record: Path, tmp_path: Path) -> None:
    original = Path(shutil.copy(record, tmp_path / "original.tar.zst"))
    pack_windows(record, tick_ns=8)
    compare_records(original, record, tick_ns=8)
    with pytest.raises(UnequalError, match=r"events\.start, events\.end, health$"):
        compare_records(original, record)


def test_an_event_shorter_than_the_tick_is_not_lost() -> None:
    with pytest.raises(UnequalError, match="an event is shorter than 100000 ns"):
        round_times(read_trace(TRACES["loader_workers"]), 100_000)


def test_a_trace_is_replaced_only_by_its_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(TRACES["loader_workers"], tmp_path))
    trace = read_trace(path)
    assert differences(read_trace(pack_trace(path)), trace) == []
    assert not path.exists()
    path = Path(shutil.copy(TRACES["loader_workers"], tmp_path))

    def encode_other_rank(trace: Trace, **options: bool) -> bytes:
        return encode_trace(replace(trace, rank=9), **options)

    monkeypatch.setattr(columns, "encode_trace", encode_other_rank)
    with pytest.raises(UnequalError, match=r"loader_workers\.json\.gz: rank$"):
        pack_trace(path)
    assert path.exists()


def test_a_lost_file_and_a_changed_log_are_found(record: Path, run: Path, tmp_path: Path) -> None:
    log = min((run / "logs").iterdir())
    log.write_bytes(log.read_bytes() + b"GL")
    with pytest.raises(UnequalError, match=f"{log.name} differs"):
        compare_records(record, pack(run, tmp_path / "changed.tar.zst").path)
    log.unlink()
    with pytest.raises(UnequalError, match="are not"):
        compare_records(record, pack(run, tmp_path / "less.tar.zst").path)
