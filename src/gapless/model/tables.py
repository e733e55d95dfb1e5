"""The tables of a study, as profilers list them: rows by operator, kernel, source line ….

Rows are sorted most expensive first. Times are nanoseconds over the counted steps of one rank (or
of all ranks together), ``None`` where the trace does not say.
"""

from typing import Final

from msgspec import Struct

from gapless.model.trace import Geometry


class Operator(Struct, frozen=True):
    """One operator (and, on request, one set of input shapes)."""

    name: str
    shapes: str | None  # "[64, 3, 224, 224] [64, 3, 7, 7]"; None unless asked for
    calls: int
    host_self_ns: int
    host_total_ns: int
    device_self_ns: int | None  # of the activities launched by the operator itself
    device_total_ns: int | None  # and by all operators inside it


class Kernel(Struct, frozen=True):
    """One kernel by name and launch geometry."""

    name: str
    device_ns: int
    calls: int
    mean_ns: float
    geometry: Geometry | None
    tensor_cores: str | None  # "used", "eligible" (but not used), None: no matter of theirs
    leaf: str  # the busy leaf that took most of its time
    operator: str | None  # the operator that launched most of it


class Copy(Struct, frozen=True):
    """Copies of one direction and kind of host memory."""

    direction: str  # "HtoD", "DtoH", "DtoD", "PtoP", "memset"
    memory: str | None  # "pageable", "pinned"
    calls: int
    bytes: int | None
    device_ns: int
    bytes_per_s: float | None


class CollectiveRow(Struct, frozen=True):
    """Collectives of one name, dtype, size and group."""

    name: str
    dtype: str | None
    group_size: int | None
    calls: int
    bytes: int | None  # per call
    device_ns: int
    bus_bytes_per_s: float | None  # as nccl-tests define bus bandwidth
    exposed_ns: int  # of the device time, nothing else ran beneath
    hidden_ns: int


class Range(Struct, frozen=True):
    """A ``record_function`` range of the user's own."""

    name: str
    calls: int
    host_ns: int
    device_ns: int | None  # of the activities launched inside it, on its thread


class Memory(Struct, frozen=True):
    """What the allocator events of one device say."""

    device: str  # "cuda:0", "cpu"
    peak_allocated: int | None
    peak_reserved: int | None
    allocations: int
    frees: int
    allocated_bytes: int


class Line(Struct, frozen=True):
    """A line of source (a Python function as the profiler's stacks name it)."""

    file: str
    line: int
    function: str
    calls: int
    host_self_ns: int
    host_total_ns: int
    device_total_ns: int | None
    idle_ns: int  # idle device time whose culprit it, or the operator that it called, is


class Tables(Struct, frozen=True):
    """All tables; an empty tuple where the trace has no such events."""

    operators: tuple[Operator, ...]
    kernels: tuple[Kernel, ...]
    copies: tuple[Copy, ...]
    collectives: tuple[CollectiveRow, ...]
    ranges: tuple[Range, ...]
    memory: tuple[Memory, ...]
    lines: tuple[Line, ...]


EMPTY_TABLES: Final = Tables(**dict.fromkeys(Tables.__struct_fields__, ()))
