"""The JSON of rocprofv3: buffers of records, and what the numbers in them name.

Kernels and copies are joined with calls of HIP by correlation id; markers (roctx) are the user's
ranges. Of calls of HSA below those of HIP only what has no call of HIP is told apart by its thread.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from gapless.errors import NotATraceError
from gapless.formats.parts import FileFacts, TraceParts, build_trace
from gapless.formats.rocprof.mending import close_json
from gapless.formats.roles import is_input, is_step, operator_name
from gapless.formats.rows import DeviceFields, Placed, Rows, close_rows
from gapless.formats.text.whole import read_whole
from gapless.model import category as c
from gapless.model.trace import Device, Geometry, Trace

_OFFSET: Final = re.compile(r"\(byte (\d+)\)")  # of msgspec, where JSON is broken
_GPU: Final = 2  # of the type of an agent
_LIMIT: Final = 1 << 62
_COPY_NAMES: Final = {
    "MEMORY_COPY_HOST_TO_DEVICE": "Memcpy HtoD (Unknown -> Device)",
    "MEMORY_COPY_DEVICE_TO_HOST": "Memcpy DtoH (Device -> Unknown)",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "Memcpy PtoP (Device -> Device)",
    "MEMORY_COPY_HOST_TO_HOST": "Memcpy HtoH",
}
_CALLS: Final = ("hip_api", "rccl_api", "hsa_api")
_SIDES: Final = ("x", "y", "z")
Record = dict[str, Any]


def read_rocprof(path: Path) -> Trace:
    """Read a file. Raises ``NotATraceError`` if it is none, or holds nothing."""
    tools, damage = _read_tools(path)
    tool, parts = tools[0], TraceParts()
    if len(tools) > 1:
        parts.notes.append(f"the file holds {len(tools)} processes: only the first is read")
    if damage is not None:
        parts.notes.append(damage)
    agents = _agents(tool)
    records = _buffers(tool)
    _add_kernels(parts, tool, records, agents)
    _add_copies(parts, tool, records, agents)
    for buffer in _CALLS:
        _add_calls(parts, tool, records, buffer)
    _add_markers(parts, tool, records)
    facts = FileFacts(
        source="rocprof",
        devices=tuple(agents.values()),
        truncated=damage is not None,
    )
    return build_trace(path, parts, facts)


def _read_tools(path: Path) -> tuple[list[Record], str | None]:
    """Return what each process wrote, and what was wrong with the file."""
    file = read_whole(path)
    data, damage = file.data, file.damage
    document = _decode(data)
    if isinstance(document, _Broken):
        document = _decode(close_json(data[: document.offset]))
        damage = damage or "the file ends inside its records, or is damaged there"
    is_object = isinstance(document, dict)
    tools = cast("Record", document).get("rocprofiler-sdk-tool") if is_object else None
    entries = _records(tools)
    if not entries:
        raise NotATraceError(f"{path}: JSON of rocprofv3 without a process in it, or damaged")
    return entries, damage


class _Broken(Struct, frozen=True):
    """JSON that is none from some byte on."""

    offset: int


def _decode(data: bytes) -> object:
    try:
        return cast("object", msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        match = _OFFSET.search(str(error))
        return _Broken(len(data) if match is None else int(match[1]))


def _records(value: object) -> list[Record]:
    """Return the objects of a list; none of what is no list."""
    if not isinstance(value, list):
        return []
    return [
        cast("Record", entry) for entry in cast("list[object]", value) if isinstance(entry, dict)
    ]


def _buffers(tool: Record) -> dict[str, list[Record]]:
    buffers = tool.get("buffer_records")
    if not isinstance(buffers, dict):
        return {}
    return {
        key: _records(value)
        for key, value in cast("dict[object, object]", buffers).items()
        if isinstance(key, str)
    }


def _agents(tool: Record) -> dict[int, Device]:
    """Return the devices by their handle, numbered as the runtime numbers them."""
    agents: dict[int, Device] = {}
    for agent in _records(tool.get("agents")):
        if agent.get("type") != _GPU:
            continue
        name = agent.get("product_name") or agent.get("name")
        number = _read_integer(agent.get("logical_node_type_id"))
        agents[_handle(agent.get("id"))] = Device(
            index=len(agents) if number < 0 else number,
            name=name if isinstance(name, str) and name else None,
        )
    return agents


def _add_kernels(
    parts: TraceParts, tool: Record, records: dict[str, list[Record]], agents: dict[int, Device]
) -> None:
    names = {
        _read_integer(symbol.get("kernel_id")): _kernel_name(symbol)
        for symbol in _records(tool.get("kernel_symbols"))
    }
    rows = Rows()
    for record in records.get("kernel_dispatch", []):
        details = record.get("dispatch_info")
        info = cast("Record", details) if isinstance(details, dict) else {}
        number = _read_integer(info.get("kernel_id"))
        device = _device_number(agents, info.get("agent_id"))
        stream = _stream(record, info)
        name = names.get(number) or f"kernel {number}"
        fields = DeviceFields(device, stream, geometry=parts.geometry_id(_geometry(info)))
        placing = _Placing(name, (f"device {device}", f"stream {stream}"))
        _add_record(parts, rows, record, placing, fields)
    close_rows(parts, {c.KERNEL: rows})


def _kernel_name(symbol: Record) -> str | None:
    for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"):
        name = symbol.get(key)
        if isinstance(name, str) and name:
            return name.removesuffix(".kd")
    return None


def _stream(record: Record, info: Record) -> int:
    """Return the stream, where it was recorded, else the queue."""
    stream = _handle(record.get("stream_id"))
    return stream if stream > 0 else _handle(info.get("queue_id"))


def _geometry(info: Record) -> Geometry:
    block, grid = _size(info.get("workgroup_size")), _size(info.get("grid_size"))
    shared = _read_integer(info.get("group_segment_size"))
    blocks = None
    if block is not None and grid is not None and min(block) > 0:  # HSA counts items, not groups
        blocks = tuple(-(-items // side) for items, side in zip(grid, block, strict=True))
    return Geometry(grid=blocks, block=block, shared_memory=None if shared < 0 else shared)


def _size(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, dict):
        return None
    sides = tuple(_read_integer(cast("Record", value).get(side)) for side in _SIDES)
    return sides if min(sides) >= 0 else None


def _add_copies(
    parts: TraceParts, tool: Record, records: dict[str, list[Record]], agents: dict[int, Device]
) -> None:
    operations = _operation_names(tool)
    rows = Rows()
    for record in records.get("memory_copy", []):
        name = operations(record)
        ends = record.get("dst_agent_id"), record.get("src_agent_id")
        device = max(_device_number(agents, end) for end in ends)
        stream = _stream(record, {})
        fields = DeviceFields(device, stream, _read_integer(record.get("bytes")))
        placing = _Placing(
            _COPY_NAMES.get(name, name), (f"device {device}", f"copies of stream {stream}")
        )
        _add_record(parts, rows, record, placing, fields)
    close_rows(parts, {c.MEMCPY: rows})


def _add_calls(
    parts: TraceParts, tool: Record, records: dict[str, list[Record]], buffer: str
) -> None:
    operations = _operation_names(tool)
    # Calls of HSA are made inside those of HIP: of both, HIP's have the launches.
    is_below = buffer == "hsa_api" and bool(records.get("hip_api"))
    kind = c.CPU_OP if buffer == "rccl_api" else c.RUNTIME
    rows = Rows()
    for record in records.get(buffer, []):
        placing = _Placing(operations(record), _thread(tool, record), is_linked=not is_below)
        _add_record(parts, rows, record, placing)
    close_rows(parts, {c.DRIVER if buffer == "hsa_api" else kind: rows})


def _add_markers(parts: TraceParts, tool: Record, records: dict[str, list[Record]]) -> None:
    """Add the ranges of roctx: those that libraries and torch emit are operators."""
    texts = _marker_texts(tool)
    kinds = {kind: Rows() for kind in (c.USER_ANNOTATION, c.CPU_OP)}
    operations = _operation_names(tool)
    for record in records.get("marker_api", []):
        text = texts.get(_correlation(record)) or operations(record)
        operator = operator_name(text)
        if operator is None and is_step(text):
            parts.step_names.add(text)
        elif operator is None and is_input(text):
            parts.input_names.add(text)
        kind = c.USER_ANNOTATION if operator is None else c.CPU_OP
        placing = _Placing(operator or text, _thread(tool, record), is_linked=False)
        _add_record(parts, kinds[kind], record, placing)
    close_rows(parts, kinds)


def _marker_texts(tool: Record) -> dict[int, str]:
    strings = tool.get("strings")
    entries = cast("Record", strings).get("marker_api") if isinstance(strings, dict) else None
    return {
        _read_integer(entry.get("key")): str(entry["value"])
        for entry in _records(entries)
        if isinstance(entry.get("value"), str)
    }


def _operation_names(tool: Record) -> Callable[[Record], str]:
    """Return what names the operation of a record."""
    strings = tool.get("strings")
    kinds = cast("Record", strings).get("buffer_records") if isinstance(strings, dict) else None
    names: dict[tuple[int, int], str] = {}
    for number, kind in enumerate(_records(kinds)):
        operations = kind.get("operations")
        if isinstance(operations, list):
            for operation, name in enumerate(cast("list[object]", operations)):
                if isinstance(name, str):
                    names[number, operation] = name

    def name_operation(record: Record) -> str:
        key = _read_integer(record.get("kind")), _read_integer(record.get("operation"))
        return names.get(key, f"operation {key[1]} of kind {key[0]}")

    return name_operation


def _add_record(
    parts: TraceParts,
    rows: Rows,
    record: Record,
    placing: "_Placing",
    fields: DeviceFields | None = None,
) -> None:
    """Append a record; one without times is dropped, and counted."""
    start, end = (
        _read_integer(record.get("start_timestamp")),
        _read_integer(record.get("end_timestamp")),
    )
    if start <= 0 or end < 0:
        parts.written += 1
        parts.dropped["no usable time"] += 1
        return
    correlation = _correlation(record) if placing.is_linked else -1
    placed = Placed(start, end, parts.track_id(*placing.track))
    rows.append(placed, parts.name_id(placing.name), correlation, fields)


class _Placing(Struct, frozen=True, gc=False):
    """What a record is called, where it goes, and whether its correlation id is a launch's."""

    name: str
    track: tuple[int | str, int | str]
    is_linked: bool = True


def _thread(tool: Record, record: Record) -> tuple[int, int]:
    metadata = tool.get("metadata")
    pid = cast("Record", metadata).get("pid") if isinstance(metadata, dict) else None
    return _read_integer(pid), _read_integer(record.get("thread_id"))


def _correlation(record: Record) -> int:
    ids = record.get("correlation_id")
    number = _read_integer(cast("Record", ids).get("internal") if isinstance(ids, dict) else ids)
    return number if number > 0 else -1


def _device_number(agents: dict[int, Device], agent: object) -> int:
    device = agents.get(_handle(agent))
    return -1 if device is None else device.index


def _handle(value: object) -> int:
    return _read_integer(cast("Record", value).get("handle") if isinstance(value, dict) else value)


def _read_integer(value: object) -> int:
    """Return a whole number that fits; −1 for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return -1
    return value if 0 <= value < _LIMIT else -1
