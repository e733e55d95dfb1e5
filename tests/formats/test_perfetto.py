"""Traces of Perfetto: tracks, interned names, clocks that count in steps, launches by their ids."""

import zlib
from pathlib import Path

import pytest

import gapless
from benchmarks.mutations import find_faults
from gapless.errors import NotATraceError
from gapless.formats import find, read
from gapless.model import category as c
from tests.formats.proto_writing import message, perfetto_trace
from tests.formats.test_nsight import names_of
from tests.formats.writing import health_counts


def test_rows_of_threads_and_devices_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(perfetto_trace(6))
    trace = read(path)
    assert find_faults(trace) == []
    assert names_of(trace, c.KERNEL) == ["gemm_kernel"] * 6
    assert names_of(trace, c.RUNTIME) == ["hipLaunchKernel"] * 6
    assert trace.roles.steps[0] == "step 0"
    assert (trace.gpu.device[0], trace.gpu.stream[0]) == (4, 2)
    threads = {(track.pid, track.tid): track for track in trace.tracks}
    assert (threads[42, 43].process, threads[42, 43].thread) == ("train", "main")
    first_ns = int(trace.events.start.min()) + trace.origin_ns
    assert first_ns == 1_700_000_000 * 10**9
    assert find([str(tmp_path)]) == (path,)


def test_account_sums_and_joins_launches(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(perfetto_trace(8))
    study = gapless.open(path, cache=False)
    assert study.account.steps == 6
    assert sum(study.account.leaves.values()) == study.account.wall_ns
    assert study.health.launches_recorded == 1.0
    assert study.account.groups.get("unknown", 0) == 0


def test_compressed_packets_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    plain = perfetto_trace(3)
    path.write_bytes(message((1, message((50, zlib.compress(plain))))))
    assert names_of(read(path), c.KERNEL) == ["gemm_kernel"] * 3
    twice = message((1, message((50, zlib.compress(path.read_bytes())))))
    path.write_bytes(twice)
    with pytest.raises(NotATraceError):
        read(path)


def test_slices_that_do_not_end_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    data = perfetto_trace(6)
    path.write_bytes(data[: len(data) * 2 // 3])
    trace = read(path)
    assert trace.health.truncated
    assert health_counts(trace)[0]["begin without an end"] >= 1
