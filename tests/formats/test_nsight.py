"""Exports of Nsight Systems become the same trace as Kineto's, as far as they know."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

import gapless
from benchmarks.mutations import find_faults
from gapless.errors import NotATraceError, UsageError
from gapless.formats import find, read
from gapless.model import category as c
from gapless.model.options import Options
from gapless.model.trace import Trace
from tests.formats.nsight_writing import PID, THREAD, TID, loop_rows, write_database
from tests.formats.writing import health_counts


def names_of(trace: Trace, category: int) -> list[str]:
    """List the names of the events of a category, in order."""
    rows = trace.events.name[trace.events.category == category].tolist()
    return [trace.names[row] for row in rows]


def test_activities_calls_ranges_and_facts_are_read(tmp_path: Path) -> None:
    trace = read(write_database(tmp_path / "report.sqlite", loop_rows(6)))
    assert find_faults(trace) == []
    assert names_of(trace, c.KERNEL) == ["ampere_sgemm_128x64_tn"] * 6
    assert names_of(trace, c.MEMCPY) == ["Memcpy HtoD (Pageable -> Device)"] * 6
    assert names_of(trace, c.SYNC) == ["Stream Sync"] * 6
    assert set(names_of(trace, c.RUNTIME)) == {
        "cudaMemcpyAsync",
        "cudaLaunchKernel",
        "cudaStreamSynchronize",
    }
    assert names_of(trace, c.OS_CALL) == ["read"] * 6
    assert trace.roles.steps == ("step",)
    assert trace.origin_ns == 1_700_000_000 * 10**9
    assert trace.health.source == "nsight"
    assert dict(trace.versions) == {"nsys": "2025.3.1.90", "nsys_schema": "3.22.0"}
    assert trace.devices[0].name == "NVIDIA H100"
    assert trace.devices[0].compute_capability == (9, 0)
    threads = {track.thread for track in trace.tracks if (track.pid, track.tid) == (PID, TID)}
    assert threads == {"python3"}
    assert trace.geometries[0].grid == (8, 1, 1)


def test_account_sums_and_joins_launches(tmp_path: Path) -> None:
    study = gapless.open(write_database(tmp_path / "report.sqlite", loop_rows(8)), cache=False)
    account = study.account
    assert sum(account.leaves.values()) == account.wall_ns > 0
    assert account.steps == 6  # the first and the last are left out
    assert study.health.launches_recorded == 1.0
    assert study.steps is not None
    assert study.steps.rule == "step"
    assert account.leaves["copy.h2d.pageable"] == 6 * 68_000
    assert account.leaves["busy.tc_eligible_not_used"] == 6 * 450_000
    assert account.groups.get("unknown", 0) == 0


def test_time_in_calls_of_the_system_names_the_call(tmp_path: Path) -> None:
    path = write_database(tmp_path / "report.sqlite", loop_rows(8))
    study = gapless.open(path, leaf="idle.host.unframed", cache=False)
    assert study.leaf is not None
    assert study.leaf.longest[0].culprit == "read"


@pytest.mark.parametrize(
    "label", ["train_step {}", "Iteration {}", "ProfilerStep#{}", "global step: {}"]
)
def test_steps_are_known_by_the_names_that_people_give_them(tmp_path: Path, label: str) -> None:
    path = write_database(tmp_path / "report.sqlite", loop_rows(6, label=label))
    study = gapless.open(path, cache=False)
    assert study.account.steps == 4
    assert {row.row.step for row in study.account.rows} == {1, 2, 3, 4}


def test_user_names_the_ranges_that_are_steps(tmp_path: Path) -> None:
    rows = loop_rows(6, label="outer")
    inner = [
        {**row, "text": f"phase {number % 2}", "start": row["start"] + 400, "end": row["end"] - 400}
        for number, row in enumerate(rows["NVTX_EVENTS"])
    ]
    rows["NVTX_EVENTS"] += inner
    path = write_database(tmp_path / "report.sqlite", rows)
    study = gapless.open(path, step="phase 1", cache=False)
    assert study.steps is not None
    assert study.steps.rule == "phase 1"
    assert study.account.steps == 2
    with pytest.raises(UsageError, match=r"no range is called 'phase 3'; there are: outer \(6\)"):
        gapless.open(path, step="phase 3", cache=False)


def test_old_and_reduced_schemas_are_read(tmp_path: Path) -> None:
    rows = loop_rows(6)
    without = (
        "globalPid",
        "graphNodeId",
        "srcKind",
        "dstKind",
        "textId",
        "domainId",
        "mangledName",
    )
    rows["NVTX_EVENTS"] = [{**row, "text": "step"} for row in rows["NVTX_EVENTS"]]
    rows["EXPORT_META_DATA"] = rows.pop("META_DATA_EXPORT")
    tables = (
        "StringIds",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "NVTX_EVENTS",
    )
    tables += ("CUPTI_ACTIVITY_KIND_RUNTIME",)
    trace = read(write_database(tmp_path / "old.sqlite", rows, tables=tables, without=without))
    assert find_faults(trace) == []
    assert names_of(trace, c.MEMCPY) == ["Memcpy HtoD (Unknown -> Unknown)"] * 6
    assert trace.gpu.graph_node.max() == -1
    assert trace.devices == ()
    assert trace.origin_ns == 0


def test_pages_that_the_driver_moved_are_told(tmp_path: Path) -> None:
    rows = loop_rows(2)
    for row in rows["CUPTI_ACTIVITY_KIND_MEMCPY"]:
        row |= {"copyKind": 11, "correlationId": 0}
    trace = read(write_database(tmp_path / "report.sqlite", rows))
    assert names_of(trace, c.MEMCPY) == ["Memcpy HtoD (unified memory)"] * 2
    assert "2 copies are pages of unified memory that the driver moved" in trace.health.notes[0]


def test_what_is_not_recorded_is_absent(tmp_path: Path) -> None:
    path = write_database(
        tmp_path / "kernels.sqlite",
        loop_rows(6),
        tables=("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"),
    )
    study = gapless.open(path, cache=False)
    assert study.health.launches_recorded == 0.0
    assert study.account.steps is None
    assert any("no host events" in note for note in study.health.notes)


def test_processes_count_their_own_correlation_ids(tmp_path: Path) -> None:
    rows = loop_rows(4)
    other = 77 << 24
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"):
        for row in list(rows[table]):
            ids = {"globalTid": other | 78, "globalPid": other}
            twin = row | {key: value for key, value in ids.items() if key in row}
            if "deviceId" in row:
                twin["deviceId"] = 1
            rows[table].append(twin)
    trace = read(write_database(tmp_path / "two.sqlite", rows))
    kernels = trace.events.category == c.KERNEL
    assert len(set(trace.events.correlation[kernels].tolist())) == 8
    assert any("2 processes" in note for note in trace.health.notes)


def test_ranges_of_libraries_and_of_emit_nvtx_are_operators(tmp_path: Path) -> None:
    rows = loop_rows(2)
    mark = {"globalTid": THREAD, "start": 100, "end": 200, "eventType": 59}
    rows["NVTX_EVENTS"] += [
        {**mark, "end": None, "eventType": 75, "text": "NCCL", "domainId": 3},
        {**mark, "text": "ncclAllReduce", "domainId": 3},
        {**mark, "text": "aten::mm, op_id = 5, seq = 3", "domainId": 0},
        {**mark, "text": "load_batch", "domainId": 0},
        {**mark, "end": None, "text": "never ends", "domainId": 0},
    ]
    trace = read(write_database(tmp_path / "report.sqlite", rows))
    assert names_of(trace, c.CPU_OP) == ["ncclAllReduce", "aten::mm"]
    assert trace.roles.inputs == ("load_batch",)
    assert health_counts(trace)[0] == {"range without an end": 1}


def test_metrics_and_complaints_are_told(tmp_path: Path) -> None:
    rows = loop_rows(2)
    rows["TARGET_INFO_GPU_METRICS"] = [
        {"typeId": 512, "metricId": 3, "metricName": "SMs Active [%]"}
    ]
    rows["GPU_METRICS"] = [
        {"timestamp": number, "typeId": 512, "metricId": 3, "value": number} for number in range(5)
    ]
    rows["DIAGNOSTIC_EVENT"] = [{"timestamp": 0, "severity": 3, "text": "Not all CUDA\nevents"}]
    notes = read(write_database(tmp_path / "report.sqlite", rows)).health.notes
    assert "device 0, means of 5 samples: SMs Active [%] 2.0" in notes
    assert "the writer logged: Not all CUDA events" in notes


def test_folder_gives_its_databases(tmp_path: Path) -> None:
    path = write_database(tmp_path / "rank3.sqlite", loop_rows(2))
    (tmp_path / "notes.sqlite").write_bytes(b"nothing")
    assert find([str(tmp_path)]) == (path,)
    assert read(path).rank == 3


def test_other_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    with pytest.raises(NotATraceError, match="none of Nsight Systems"):
        read(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE rocpd_kernel_dispatch_0a1b (id INTEGER)")
    with pytest.raises(NotATraceError, match=r"rocpd convert -i other\.sqlite"):
        read(path)


def test_views_are_not_run(tmp_path: Path) -> None:
    path = write_database(
        tmp_path / "report.sqlite", loop_rows(2), tables=("StringIds", "NVTX_EVENTS")
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start, end) AS "
            "(SELECT 1, 2 UNION ALL SELECT start + 1, end + 1 FROM n) SELECT * FROM n"
        )
    assert c.KERNEL not in read(path).events.category


def test_pages_that_are_in_several_places_end(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    size, depth = 512, 12
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {size}")
        connection.execute("CREATE TABLE OSRT_API (start, end, globalTid, nameId)")
        rows = [(time, time + 1, THREAD, 1) for time in range(1000)]
        connection.executemany("INSERT INTO OSRT_API VALUES (?, ?, ?, ?)", rows)
        connection.commit()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master").fetchone()
    data = bytearray(path.read_bytes())
    page = data[(root - 1) * size : root * size]
    count = int.from_bytes(page[3:5], "big")
    for level in range(depth):  # each page holds the next one, as many times as it has children
        child = (root + level + 1).to_bytes(4, "big")
        for cell in range(count):
            at = int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big")
            page[at : at + 4] = child
        page[8:12] = child
        data[(root + level - 1) * size : (root + level) * size] = page
    path.write_bytes(data)
    health = read(path).health
    assert health.truncated
    assert "pages are in several places" in health.notes[0]


def test_report_that_is_not_exported_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(b"\x00\x01 not for us")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        NotATraceError, match=r"nsys export --type sqlite --output report.sqlite report.nsys-rep"
    ):
        read(path)


def test_report_is_exported_where_nsys_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_database(tmp_path / "made.sqlite", loop_rows(2))
    nsys = tmp_path / "nsys"
    nsys.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3 $4" = "export --type sqlite --output" ] && cp {made} "$5"\n'
    )
    nsys.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = tmp_path / "rank2.nsys-rep"
    path.write_bytes(b"\x00")
    trace = read(path)
    assert (trace.path, trace.rank) == (str(path), 2)
    nsys.write_text("#!/bin/sh\necho broken report >&2; exit 1\n")
    with pytest.raises(NotATraceError, match="could not export it: broken report"):
        read(path)


def test_step_is_part_of_what_a_study_is_kept_under() -> None:
    options = Options()
    assert options != replace(options, step="outer")
