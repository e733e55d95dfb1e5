"""Traces of Perfetto: tracks, interned names, clocks that count in steps, launches by their ids."""

import zlib
from pathlib import Path

import pytest

import gapless
from benchmarks.mutations import find_faults
from gapless.errors import NotATraceError
from gapless.formats import find, read
from gapless.formats.perfetto import packets
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


def test_packets_inflate_to_no_more_than_a_trace_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(packets, "_MAX_RATIO", 0)
    path = tmp_path / "trace.pftrace"
    bomb, more = (
        message((1, message((50, zlib.compress(data)))))
        for data in (bytes(1 << 19), perfetto_trace(3))
    )
    path.write_bytes(perfetto_trace(3) + bomb * 3 + more)
    health = read(path).health
    assert health.truncated
    assert names_of(read(path), c.KERNEL) == ["gemm_kernel"] * 3


def test_clocks_of_the_system_are_one_axis(tmp_path: Path) -> None:
    shown = ((6, 9_000), (3, 4_000), (1, 10**18))
    clocks = message(*((1, message((1, clock), (2, at))) for clock, at in shown))
    thread = message((1, 2), (4, message((1, 42), (2, 43))))
    edges = [
        message((8, at), (58, clock), (10, 1), (11, message((9, kind), (11, 2), (22, "hip_api"))))
        for at, clock, kind in ((10_000, 6, 1), (5_500, 3, 1), (5_600, 3, 2), (10_900, 6, 2))
    ]
    path = tmp_path / "trace.pftrace"
    parts = [message((10, 1), (6, clocks)), message((10, 1), (60, thread)), *edges]
    path.write_bytes(b"".join(message((1, packet)) for packet in parts))
    events = read(path).events
    spans = sorted(zip(events.start.tolist(), events.end.tolist(), strict=True))
    assert spans == [(10_000, 10_900), (10_500, 10_600)]


def test_slices_that_do_not_end_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    data = perfetto_trace(6)
    path.write_bytes(data[: len(data) * 2 // 3])
    trace = read(path)
    assert trace.health.truncated
    assert health_counts(trace)[0]["begin without an end"] >= 1
