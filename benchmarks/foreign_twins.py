"""Write recorded traces of torch.profiler once more, as other profilers would have written them.

``python -m benchmarks.foreign_twins --folder FOLDER`` writes each trace of ``tests/data`` with a
device into FOLDER/nsight, FOLDER/rocprof and FOLDER/perfetto, and says whether the account of each
twin has the same time on the device as the original. A twin shows that nothing is lost on the way
through a format; it does not replace a file of that profiler.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gapless
from gapless.capture.reading import read_trace
from gapless.model import category as c
from gapless.model.trace import Trace
from tests.formats.nsight_writing import TABLES, write_database
from tests.formats.proto_writing import message
from tests.traces import OPENED, TRACES

_COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
_MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2}
_PID, _MAX_TID = 7, 0xFFFFFF
_HOST = (c.CPU_OP, c.USER_ANNOTATION, *c.CALLS)
_CATEGORIES = {
    c.CPU_OP: "cpu_op",
    c.USER_ANNOTATION: "user_annotation",
    c.RUNTIME: "cuda_runtime",
    c.DRIVER: "cuda_driver",
    c.KERNEL: "kernel",
    c.MEMCPY: "gpu_memcpy",
    c.MEMSET: "gpu_memset",
}


class Row:
    """An event of a trace, with what its device knows."""

    def __init__(self, trace: Trace, event: int) -> None:
        """Look the event up."""
        events, gpu = trace.events, trace.gpu
        self.start, self.end = int(events.start[event]), int(events.end[event])
        self.name = trace.names[events.name[event]]
        self.category, self.track = int(events.category[event]), int(events.track[event])
        self.correlation = int(events.correlation[event])
        detail = int(events.detail[event])
        on_device = self.category in (*c.ACTIVITIES, c.SYNC)
        self.device = int(gpu.device[detail]) if on_device else -1
        self.stream = int(gpu.stream[detail]) if on_device else -1
        self.bytes = int(gpu.bytes[detail]) if on_device else -1


def trace_rows(trace: Trace) -> list[Row]:
    """Return the events that other profilers record too, in order of time."""
    kinds = np.isin(trace.events.category, (*_HOST, *c.ACTIVITIES))
    rows = np.flatnonzero(kinds & (trace.events.end > trace.events.start))
    order = rows[np.lexsort((-trace.events.end[rows], trace.events.start[rows]))]
    return [Row(trace, event) for event in order.tolist()]


def write_nsight(trace: Trace, path: Path) -> None:
    """Write a database; operators are what emit_nvtx makes of them."""
    tables: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    strings: dict[str, int] = {}
    for row in trace_rows(trace):
        times = {"start": row.start, "end": row.end}
        thread = {"globalTid": _PID << 24 | (row.track + 1) & _MAX_TID}
        label = strings.setdefault(row.name, len(strings) + 1)
        place = {
            "deviceId": row.device,
            "streamId": row.stream,
            "correlationId": row.correlation,
            "globalPid": _PID << 24,
        }
        if row.category in c.CALLS:
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
                {**times, **thread, "correlationId": row.correlation, "nameId": label}
            )
        elif row.category == c.KERNEL:
            tables["CUPTI_ACTIVITY_KIND_KERNEL"].append({**times, **place, "demangledName": label})
        elif row.category == c.MEMCPY:
            tables["CUPTI_ACTIVITY_KIND_MEMCPY"].append(
                {**times, **place, "bytes": row.bytes, **_copy_kinds(row.name)}
            )
        elif row.category == c.MEMSET:
            tables["CUPTI_ACTIVITY_KIND_MEMSET"].append({**times, **place, "bytes": row.bytes})
        else:
            suffix = ", op_id = 1" if row.category == c.CPU_OP else ""
            text = {"text": row.name + suffix, "eventType": 59, "domainId": 0}
            tables["NVTX_EVENTS"].append({**times, **thread, **text})
    tables["StringIds"] = [{"id": number, "value": text} for text, number in strings.items()]
    path.unlink(missing_ok=True)
    write_database(path, tables)


def _copy_kinds(name: str) -> dict[str, int]:
    kind = next((number for word, number in _COPY_KINDS.items() if word in name), 0)
    ends = name.partition("(")[2].rstrip(")").split(" -> ")
    source, target = [*ends, "", ""][:2]
    return {
        "copyKind": kind,
        "srcKind": _MEMORY_KINDS.get(source, 7),
        "dstKind": _MEMORY_KINDS.get(target, 7),
    }


def write_rocprof(trace: Trace, path: Path) -> None:
    """Write JSON of rocprofv3."""
    buffers: dict[str, list[dict[str, Any]]] = {
        key: [] for key in ("kernel_dispatch", "memory_copy", "hip_api", "marker_api")
    }
    names: dict[str, int] = {}
    kernels: dict[str, int] = {}
    texts: list[dict[str, object]] = []
    for number, row in enumerate(trace_rows(trace)):
        record: dict[str, Any] = {
            "start_timestamp": row.start + 1,  # 0 is no time to rocprofv3
            "end_timestamp": row.end + 1,
            "thread_id": row.track,
            "correlation_id": {"internal": row.correlation},
            "stream_id": {"handle": row.stream},
        }
        if row.category == c.MEMCPY:
            direction = 2 if "DtoH" in row.name else 1 if "HtoD" in row.name else 3
            ends = {"dst_agent_id": {"handle": row.device + 1}, "bytes": row.bytes}
            buffers["memory_copy"].append({**record, "kind": 2, "operation": direction, **ends})
        elif row.category in c.ACTIVITIES:
            kernel = kernels.setdefault(row.name, len(kernels) + 1)
            info = {"agent_id": {"handle": row.device + 1}, "kernel_id": kernel}
            buffers["kernel_dispatch"].append({**record, "kind": 3, "dispatch_info": info})
        elif row.category in c.CALLS:
            operation = names.setdefault(row.name, len(names))
            buffers["hip_api"].append({**record, "kind": 1, "operation": operation})
        else:
            record["correlation_id"] = {"internal": 10**9 + number}
            suffix = ", op_id = 1" if row.category == c.CPU_OP else ""
            texts.append({"key": 10**9 + number, "value": row.name + suffix})
            buffers["marker_api"].append({**record, "kind": 0, "operation": 0})
    devices = sorted(set(trace.gpu.device.tolist()) - {-1})
    copies = ["NONE", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"]
    tool = {
        "metadata": {"pid": _PID},
        "agents": [
            {"type": 2, "id": {"handle": device + 1}, "logical_node_type_id": device}
            for device in devices
        ],
        "strings": {
            "marker_api": texts,
            "buffer_records": [
                {"kind": "MARKER", "operations": ["roctxRangeA"]},
                {"kind": "HIP_RUNTIME_API", "operations": list(names)},
                {"kind": "MEMORY_COPY", "operations": [f"MEMORY_COPY_{copy}" for copy in copies]},
            ],
        },
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name} for name, number in kernels.items()
        ],
        "buffer_records": buffers,
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))


def write_perfetto(trace: Trace, path: Path) -> None:
    """Write a trace of Perfetto; what overlaps without nesting gets a track of its own."""
    tracks: dict[tuple[str, int], int] = {}
    open_ends: dict[int, list[int]] = {}
    packets: list[bytes] = []
    edges: list[tuple[int, int, int, bytes]] = []
    for number, row in enumerate(trace_rows(trace)):
        uuid = _free_track(row, tracks, open_ends, packets)
        link = message((10, "correlation"), (4, max(row.correlation, 0)))
        category = (22, _CATEGORIES[row.category])
        notes = [(4, link)] if row.correlation > 0 and row.category != c.CPU_OP else []
        begin = message((9, 1), (11, uuid), (23, row.name), category, *notes)
        edges += [
            (row.start, 1, number, begin),
            (row.end, 0, -number, message((9, 2), (11, uuid))),
        ]
    edges.sort(key=lambda edge: edge[:3])
    packets += [message((8, time_ns), (10, 1), (11, event)) for time_ns, _, _, event in edges]
    path.write_bytes(b"".join(message((1, packet)) for packet in packets))


def _free_track(
    row: Row,
    tracks: dict[tuple[str, int], int],
    open_ends: dict[int, list[int]],
    packets: list[bytes],
) -> int:
    """Return a track on which a slice nests, and describe it if it is new."""
    on_device = row.category in c.ACTIVITIES
    label = f"GPU {row.device} stream {row.stream}" if on_device else f"thread {row.track}"
    lane = 0
    while True:
        uuid = tracks.get((label, lane))
        if uuid is None:
            uuid = tracks[label, lane] = len(tracks) + 1
            thread = message((1, _PID), (2, row.track + 100))
            kind = (2, label) if on_device else (4, thread)
            packets.append(message((10, 1), (60, message((1, uuid), kind))))
        ends = open_ends.setdefault(uuid, [])
        while ends and ends[-1] <= row.start:
            ends.pop()
        if not ends or ends[-1] >= row.end:
            ends.append(row.end)
            return uuid
        lane += 1


WRITERS = {
    "nsight": (write_nsight, ".sqlite"),
    "rocprof": (write_rocprof, "_results.json"),
    "perfetto": (write_perfetto, ".pftrace"),
}


def device_times(path: Path) -> tuple[int, int, int | None]:
    """Return the time that devices computed and copied, all of it, and the counted steps."""
    account = gapless.open(path, cache=False).account
    busy = sum(
        ns for leaf, ns in account.leaves.items() if leaf.startswith(("busy.", "copy.", "comm."))
    )
    return busy, account.wall_ns, account.steps


def main() -> int:
    """Write twins of all traces that have a device, and compare each with its original."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args().folder
    n_different = 0
    for name, source in sorted((TRACES | OPENED).items()):
        trace = read_trace(source, processes=1)
        if not len(trace.gpu.device):
            continue
        original = device_times(source)
        for kind, (write, suffix) in WRITERS.items():
            path = folder / kind / f"twin-{name.replace('rank', 'r')}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(trace, path)
            twin = device_times(path)
            is_same = twin == original
            n_different += not is_same
            print(kind, name, "same" if is_same else f"{twin} of {original}", flush=True)
    return min(n_different, 1)


if __name__ == "__main__":
    sys.exit(main())
