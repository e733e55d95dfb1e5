"""JSON as rocprofv3 writes it, of a small loop."""

import json
from typing import Any

PID, TID = 900, 901
Record = dict[str, Any]


def rocprof_document(steps: int = 6, *, period: int = 1_000_000) -> dict[str, Any]:
    """Return a document: a copy, a launch and a wait in each step, which is a marker's range."""
    kernels: list[Record] = []
    copies: list[Record] = []
    calls: list[Record] = []
    markers: list[Record] = []
    for step in range(steps):
        at = 10_000_000 + step * period
        ids = [{"internal": 10 * step + number, "external": 0} for number in range(1, 5)]
        thread = {"thread_id": TID, "size": 64}
        calls += [
            _record(at + 100_000, 10_000, ids[0], kind=2, operation=1, **thread),
            _record(at + 120_000, 10_000, ids[1], kind=2, operation=0, **thread),
            _record(at + 140_000, 600_000, ids[2], kind=2, operation=2, **thread),
        ]
        copies.append(
            _record(at + 112_000, 30_000, ids[0], kind=3, operation=1, thread_id=TID)
            | {"src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 2}, "bytes": 4096}
        )
        kernels.append(
            _record(at + 145_000, 590_000, ids[1], kind=4, operation=0, thread_id=TID)
            | {"dispatch_info": _dispatch(), "stream_id": {"handle": 5}}
        )
        markers.append(_record(at, period - 1000, ids[3], kind=1, operation=0, **thread))
    texts = [{"key": 10 * step + 4, "value": "train_step"} for step in range(steps)]
    tool: Record = {
        "metadata": {"pid": PID, "init_time": 1, "fini_time": 2},
        "agents": [
            {"type": 1, "id": {"handle": 1}, "product_name": "CPU"},
            {
                "type": 2,
                "id": {"handle": 2},
                "product_name": "AMD Instinct MI300X",
                "logical_node_type_id": 3,
            },
        ],
        "strings": {"buffer_records": _kinds(), "marker_api": texts},
        "kernel_symbols": [{"kernel_id": 6, "formatted_kernel_name": "Cijk_gemm"}],
        "buffer_records": {
            "kernel_dispatch": kernels,
            "memory_copy": copies,
            "hip_api": calls,
            "hsa_api": [],
            "marker_api": markers,
        },
    }
    return {"rocprofiler-sdk-tool": [tool]}


def rocprof_json(steps: int = 6) -> bytes:
    """Return the text of such a document, as it is written."""
    return json.dumps(rocprof_document(steps), separators=(",", ":")).encode()


def _record(start: int, length: int, ids: dict[str, int], **fields: object) -> dict[str, Any]:
    return {
        "correlation_id": ids,
        "start_timestamp": start,
        "end_timestamp": start + length,
        **fields,
    }


def _dispatch() -> dict[str, Any]:
    return {
        "agent_id": {"handle": 2},
        "queue_id": {"handle": 1},
        "kernel_id": 6,
        "group_segment_size": 1024,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1024, "y": 1, "z": 1},
    }


def _kinds() -> list[dict[str, Any]]:
    return [
        {"kind": "NONE", "operations": []},
        {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxThreadRangeA"]},
        {
            "kind": "HIP_RUNTIME_API",
            "operations": ["hipLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize"],
        },
        {
            "kind": "MEMORY_COPY",
            "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"],
        },
        {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_COMPLETE"]},
    ]
