"""JSON of rocprofv3: kernels and copies joined with calls of HIP, markers as ranges."""

import gzip
import json
from pathlib import Path

import pytest

import gapless
from benchmarks.mutations import find_faults
from gapless.errors import NotATraceError
from gapless.formats import find, read
from gapless.model import category as c
from tests.formats.rocprof_writing import PID, TID, rocprof_document, rocprof_json
from tests.formats.test_nsight import names_of
from tests.formats.writing import health_counts


def test_buffers_are_read_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    path.write_bytes(rocprof_json(6))
    trace = read(path)
    assert find_faults(trace) == []
    assert names_of(trace, c.KERNEL) == ["Cijk_gemm"] * 6
    assert names_of(trace, c.MEMCPY) == ["Memcpy HtoD (Unknown -> Device)"] * 6
    assert set(names_of(trace, c.RUNTIME)) == {
        "hipLaunchKernel",
        "hipMemcpyAsync",
        "hipStreamSynchronize",
    }
    assert trace.roles.steps == ("train_step",)
    assert (trace.devices[0].index, trace.devices[0].name) == (3, "AMD Instinct MI300X")
    assert set(trace.gpu.device.tolist()) == {3}
    assert trace.geometries[0].grid == (4, 1, 1)
    assert {(track.pid, track.tid) for track in trace.tracks} >= {(PID, TID)}
    assert find([str(tmp_path)]) == (path,)


def test_account_sums_and_joins_launches(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json.gz"
    path.write_bytes(gzip.compress(rocprof_json(8)))
    study = gapless.open(path, cache=False)
    assert study.account.steps == 6
    assert sum(study.account.leaves.values()) == study.account.wall_ns
    assert study.health.launches_recorded == 1.0
    assert study.account.groups["copy"] >= 6 * 30_000


def test_without_calls_there_are_no_launches(tmp_path: Path) -> None:
    document = rocprof_document(6)
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["hip_api"] = []
    path = tmp_path / "out_results.json"
    path.write_text(json.dumps(document))
    study = gapless.open(path, cache=False)
    assert study.health.launches_recorded == 0.0
    assert any("no host events" in note for note in study.health.notes)


def test_cut_file_gives_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    data = rocprof_json(6)
    path.write_bytes(data[: data.index(b'"hip_api"') - 100])
    trace = read(path)
    assert trace.health.truncated
    assert 3 <= len(names_of(trace, c.KERNEL)) <= 6


def test_records_of_wrong_types_are_dropped_and_counted(tmp_path: Path) -> None:
    document = rocprof_document(6)
    buffers = document["rocprofiler-sdk-tool"][0]["buffer_records"]
    buffers["kernel_dispatch"][0]["start_timestamp"] = "soon"
    buffers["kernel_dispatch"][1]["end_timestamp"] = 2**80
    buffers["kernel_dispatch"][2]["dispatch_info"] = [1]
    buffers["memory_copy"] = {"no": "list"}
    buffers["hip_api"][0] = 7
    path = tmp_path / "out_results.json"
    path.write_text(json.dumps(document))
    trace = read(path)
    assert find_faults(trace) == []
    assert health_counts(trace)[0] == {"no usable time": 2}
    assert "kernel -1" in trace.names


def test_further_processes_of_a_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    document = rocprof_document(2)
    document["rocprofiler-sdk-tool"] *= 2
    path.write_text(json.dumps(document))
    assert "the file holds 2 processes: only the first is read" in read(path).health.notes


def test_document_without_processes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    for text in (
        '{"rocprofiler-sdk-tool":[]}',
        '{"rocprofiler-sdk-tool":{}}',
        '{"rocprofiler-sdk-tool"',
    ):
        path.write_text(text)
        with pytest.raises(NotATraceError):
            read(path)
