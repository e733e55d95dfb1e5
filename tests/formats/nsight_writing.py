"""Databases as ``nsys export --type sqlite`` writes them, of a small training loop."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

PID, TID = 1234, 1240
THREAD = 1 << 48 | PID << 24 | TID  # globalTid: a VM, the process, the thread
PROCESS = 1 << 48 | PID << 24
MAIN_STRINGS = (
    "step",
    "ampere_sgemm_128x64_tn",
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "read",
    "python3",
    "cuLaunchKernelEx",
)
_PLACE = "start INTEGER NOT NULL, end INTEGER NOT NULL"
_ON_DEVICE = f"{_PLACE}, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL"
_LINK = "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{_ON_DEVICE}, greenContextId INTEGER, {_LINK}, demangledName INTEGER NOT NULL, "
        "shortName INTEGER NOT NULL, mangledName INTEGER, registersPerThread INTEGER NOT NULL, "
        "gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
        "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
        "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
        "graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"{_ON_DEVICE}, {_LINK}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
        "srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        f"{_ON_DEVICE}, {_LINK}, value INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER, "
        "graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_ON_DEVICE}, {_LINK}, syncType INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        f"{_PLACE}, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, "
        "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
        "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, "
        "textId INTEGER, domainId INTEGER"
    ),
    "OSRT_API": f"{_PLACE}, eventClass INTEGER, globalTid INTEGER, nameId INTEGER NOT NULL",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, metricId INTEGER, metricName TEXT",
    "TARGET_INFO_GPU": (
        "id INTEGER NOT NULL, name TEXT, computeMajor INTEGER, computeMinor INTEGER, "
        "totalMemory INTEGER"
    ),
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, severity INTEGER NOT NULL, text TEXT NOT NULL",
}
Rows = dict[str, list[dict[str, Any]]]


def string_id(text: str) -> int:
    """Return the id of a string of ``MAIN_STRINGS``."""
    return MAIN_STRINGS.index(text) + 1


def loop_rows(steps: int = 6, *, period: int = 1_000_000, label: str | None = None) -> Rows:
    """Return the rows of a loop: read, copy, launch, synchronise.

    ``label`` is the text of the range of each step, with {} for its number; else it is "step", by
    its id.
    """
    rows: Rows = {table: [] for table in TABLES}
    rows["StringIds"] = [
        {"id": number, "value": text} for number, text in enumerate(MAIN_STRINGS, 1)
    ]
    rows["META_DATA_EXPORT"] = [
        {"name": "EXPORT_PRODUCT_VERSION", "value": "2025.3.1.90"},
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.22.0"},
    ]
    rows["TARGET_INFO_GPU"] = [
        {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "totalMemory": 85e9}
    ]
    rows["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": 1_700_000_000 * 10**9}]
    rows["ThreadNames"] = [{"nameId": string_id("python3"), "globalTid": THREAD}]
    rows["PROCESSES"] = [{"globalPid": PROCESS, "pid": PID, "name": "train"}]
    for number in range(steps):
        _add_step(rows, number, 5_000_000 + number * period, period, label)
    return rows


def _add_step(rows: Rows, number: int, at: int, period: int, label: str | None) -> None:
    correlation = 10 * number + 1
    thread = {"globalTid": THREAD}
    called = {**thread, "eventClass": 0, "returnValue": 0}
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PROCESS}
    text = {"textId": string_id("step")} if label is None else {"text": label.format(number)}
    rows["NVTX_EVENTS"].append(
        {"start": at, "end": at + period - 1000, "eventType": 59, "domainId": 0, **thread, **text}
    )
    rows["OSRT_API"].append(
        {"start": at + 1000, "end": at + 301_000, "nameId": string_id("read"), **thread}
    )
    calls = (
        ("cudaMemcpyAsync_v3020", 310_000, 320_000, 0),
        ("cudaLaunchKernel_v7000", 330_000, 340_000, 1),
        ("cudaStreamSynchronize_v3020", 350_000, 850_000, 2),
    )
    rows["CUPTI_ACTIVITY_KIND_RUNTIME"] += [
        {
            "start": at + start,
            "end": at + end,
            "correlationId": correlation + offset,
            "nameId": string_id(name),
            **called,
        }
        for name, start, end, offset in calls
    ]
    rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(
        {"start": at + 322_000, "end": at + 390_000, "correlationId": correlation, **place}
        | {"bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2}
    )
    rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
        {"start": at + 392_000, "end": at + 842_000, "correlationId": correlation + 1, **place}
        | {"demangledName": string_id("ampere_sgemm_128x64_tn"), "shortName": 2}
        | {"registersPerThread": 32, "staticSharedMemory": 1024, "dynamicSharedMemory": 0}
        | {"gridX": 8, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    )
    rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append(
        {"start": at + 351_000, "end": at + 843_000, "correlationId": correlation + 2, **place}
        | {"syncType": 3}
    )


def write_database(
    path: Path,
    rows: Rows,
    *,
    tables: Iterable[str] = tuple(TABLES),
    without: Sequence[str] = (),
) -> Path:
    """Write a database; ``without`` names columns that this version of the exporter lacks."""
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            fields = [part.strip() for part in TABLES[table].split(",")]
            kept = [part for part in fields if part.split()[0] not in without]
            connection.execute(f"CREATE TABLE {table} ({', '.join(kept)})")
            names = {part.split()[0] for part in kept}
            required = {part.split()[0] for part in kept if "NOT NULL" in part}
            for row in rows.get(table, []):
                values = dict.fromkeys(required, 0) | {
                    key: value for key, value in row.items() if key in names
                }
                marks = ", ".join("?" * len(values))
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})",  # noqa: S608
                    tuple(values.values()),
                )
        connection.commit()
    return path
