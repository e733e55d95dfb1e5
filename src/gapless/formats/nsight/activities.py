"""What devices did, from the tables that CUPTI fills: kernels, copies, memsets, waits, graphs."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from gapless.formats.nsight.database import Database
from gapless.formats.parts import EventBlock, TraceParts
from gapless.model import category as c
from gapless.model.trace import Geometry, Int64

# Of cudaMemcpyKind as CUPTI counts it (ENUM_CUDA_MEMCPY_OPER), in the words of Kineto.
_COPY_KINDS: Final = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_UNIFIED: Final = {11: "HtoD", 12: "DtoH", 13: "PtoP"}  # pages that the driver moved
_MEMORY_KINDS: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_SYNC_KINDS: Final = {
    1: "Event Sync",
    2: "Stream Wait Event",
    3: "Stream Sync",
    4: "Context Sync",
}
_CONTEXT_STREAM: Final = 2**32 - 1  # "all streams"
_PROCESS_SHIFT: Final = 40  # bits; ids of a process have 32
_PID_SHIFT, _PID_MASK = 24, 0xFFFFFF  # of a serialized id: hardware, VM, process, thread
_LOCATION: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SHAPE: Final = (
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
)


class Names(Struct, frozen=True):
    """The strings of a file by their id, and the processes by their location among all of it."""

    strings: dict[int, str]
    processes: dict[int, int]

    def label(self, number: int) -> str:
        """Return a string of the file; what it does not hold is called by its number."""
        return self.strings.get(number, f"string {number}")


class _DeviceRows(Struct, frozen=True):
    """Rows of a table of activities: category, columns of ``_LOCATION``, names, device columns."""

    kind: int
    location: tuple[Int64, ...]
    name: Int64
    gpu: dict[str, Int64] = field(default_factory=dict[str, Int64])


def process_of(serialized: Int64) -> Int64:
    """Return the process of serialized ids; −1 where there is none."""
    return np.where(serialized >= 0, serialized >> _PID_SHIFT & _PID_MASK, -1)


def unique_correlation(correlation: Int64, process: Int64, names: Names) -> Int64:
    """Return correlation ids that are unique in the file: each process counts its own."""
    if len(names.processes) <= 1:
        return np.where(correlation > 0, correlation, -1)
    processes, inverse = np.unique(process, return_inverse=True)
    numbers = np.array([names.processes.get(number, 0) for number in processes.tolist()], np.int64)
    is_usable = (correlation > 0) & (correlation < 1 << _PROCESS_SHIFT)
    return np.where(is_usable, correlation + (numbers[inverse] << _PROCESS_SHIFT), -1)


def name_rows(parts: TraceParts, keys: Sequence[Int64], label: Callable[..., str]) -> Int64:
    """Return the name of each row: of each distinct combination of keys, the label of it."""
    matrix = np.stack(keys, axis=1)
    if not len(matrix):
        return np.zeros(0, np.int64)
    distinct, inverse = np.unique(matrix, axis=0, return_inverse=True)
    numbers = [parts.name_id(label(*row)) for row in distinct.tolist()]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]


def add_activities(database: Database, names: Names, parts: TraceParts) -> None:
    """Add what the devices did."""
    _add_kernels(database, names, parts)
    _add_copies(database, names, parts)
    _add_memsets(database, names, parts)
    _add_waits(database, names, parts)
    _add_graphs(database, names, parts)


def _add_kernels(database: Database, names: Names, parts: TraceParts) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    if not database.has(table, "start", "end"):
        return
    label = "demangledName" if database.has(table, "demangledName") else "shortName"
    columns = database.integers(table, (*_LOCATION, label, "graphNodeId", *_SHAPE))
    gpu = {"graph_node": _positive(columns[7]), "geometry": _geometries(columns[8:], parts)}
    name = name_rows(parts, [columns[6]], names.label)
    _add_block(parts, names, _DeviceRows(c.KERNEL, columns[:6], name, gpu))


def _geometries(columns: Sequence[Int64], parts: TraceParts) -> Int64:
    matrix = np.stack(columns, axis=1)
    if not len(matrix):
        return np.zeros(0, np.int64)
    distinct, inverse = np.unique(matrix, axis=0, return_inverse=True)
    numbers = [parts.geometry_id(_geometry(row)) for row in distinct.tolist()]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]


def _geometry(row: Sequence[int]) -> Geometry:
    grid, block, (registers, fixed, dynamic) = tuple(row[:3]), tuple(row[3:6]), row[6:]
    return Geometry(
        grid=grid if min(grid) >= 0 else None,
        block=block if min(block) >= 0 else None,
        registers=registers if registers >= 0 else None,
        shared_memory=fixed + dynamic if min(fixed, dynamic) >= 0 else None,
    )


def _add_copies(database: Database, names: Names, parts: TraceParts) -> None:
    table = "CUPTI_ACTIVITY_KIND_MEMCPY"
    if not database.has(table, "start", "end"):
        return
    wanted = (*_LOCATION, "copyKind", "srcKind", "dstKind", "bytes", "graphNodeId")
    columns = database.integers(table, wanted)
    name = name_rows(parts, columns[6:9], _copy_label)
    gpu = {"bytes": columns[9], "graph_node": _positive(columns[10])}
    _add_block(parts, names, _DeviceRows(c.MEMCPY, columns[:6], name, gpu))
    n_moved = int(np.count_nonzero(np.isin(columns[6], tuple(_UNIFIED))))
    if n_moved:
        parts.notes.append(
            f"{n_moved:,} copies are pages of unified memory that the driver moved: no call "
            "launches these"
        )


def _copy_label(kind: int, source: int, target: int) -> str:
    if kind in _UNIFIED:
        return f"Memcpy {_UNIFIED[kind]} (unified memory)"
    ends = f"{_memory(source)} -> {_memory(target)}"
    return f"Memcpy {_COPY_KINDS.get(kind, 'of an unknown kind')} ({ends})"


def _memset_label(kind: int) -> str:
    return f"Memset ({_memory(kind)})"


def _sync_label(kind: int) -> str:
    return _SYNC_KINDS.get(kind, "Synchronization")


def _graph_label(graph: int) -> str:
    return f"CUDA graph {graph}"


def _memory(kind: int) -> str:
    return _MEMORY_KINDS.get(kind, "Unknown")


def _add_memsets(database: Database, names: Names, parts: TraceParts) -> None:
    table = "CUPTI_ACTIVITY_KIND_MEMSET"
    if not database.has(table, "start", "end"):
        return
    columns = database.integers(table, (*_LOCATION, "memKind", "bytes", "graphNodeId"))
    name = name_rows(parts, [columns[6]], _memset_label)
    gpu = {"bytes": columns[7], "graph_node": _positive(columns[8])}
    _add_block(parts, names, _DeviceRows(c.MEMSET, columns[:6], name, gpu))


def _add_waits(database: Database, names: Names, parts: TraceParts) -> None:
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    if not database.has(table, "start", "end"):
        return
    columns = database.integers(table, (*_LOCATION, "syncType"))
    name = name_rows(parts, [columns[6]], _sync_label)
    _add_block(parts, names, _DeviceRows(c.SYNC, columns[:6], name))


def _add_graphs(database: Database, names: Names, parts: TraceParts) -> None:
    """Add graphs that were recorded as a whole, not node by node: each is one activity."""
    table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    if not database.has(table, "start", "end"):
        return
    columns = database.integers(table, (*_LOCATION, "graphId"))
    if not len(columns[0]):
        return
    name = name_rows(parts, [columns[6]], _graph_label)
    _add_block(parts, names, _DeviceRows(c.KERNEL, columns[:6], name))
    parts.notes.append(
        "CUDA graphs were recorded as a whole: what is in them is not distinct "
        "(nsys profile --cuda-graph-trace=node)"
    )


def _positive(column: Int64) -> Int64:
    return np.where(column > 0, column, -1)


def _add_block(parts: TraceParts, names: Names, rows: "_DeviceRows") -> None:
    start, end, device, stream, correlation, serialized = rows.location
    stream = np.where(stream == _CONTEXT_STREAM, -1, stream)
    block = EventBlock(
        category=rows.kind,
        start=start,
        end=end,
        name=rows.name,
        track=_device_tracks(parts, device, stream),
        correlation=unique_correlation(correlation, process_of(serialized), names),
        gpu={"device": device, "stream": stream, **rows.gpu},
    )
    parts.add(block)


def _device_tracks(parts: TraceParts, device: Int64, stream: Int64) -> Int64:
    matrix = np.stack((device, stream), axis=1)
    if not len(matrix):
        return np.zeros(0, np.int64)
    distinct, inverse = np.unique(matrix, axis=0, return_inverse=True)
    numbers = [
        parts.track_id(f"device {device_number}", f"stream {stream_number}")
        for device_number, stream_number in distinct.tolist()
    ]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]
