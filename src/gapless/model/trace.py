"""The trace: what one process did, as events in columns.

All times are integer nanoseconds on the trace's own axis; ``Trace.origin_ns`` added to them is
nanoseconds since the Unix epoch where the file says so (it aligns processes, nothing else). Columns
of one class have equal length and are read-only. In an index column −1 means "none".
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Uint8 = npt.NDArray[np.uint8]


class Events(Struct, frozen=True):
    """Complete events ("X"), in the order of the file. ``end`` ≤ ``start`` marks a point."""

    start: Int64
    end: Int64
    name: Int32  # → Trace.names
    category: Uint8  # model.category
    track: Int32  # → Trace.tracks
    # Of runtime, driver, activity and sync events; of operators the number of the node that
    # autograd made next when they began, of nodes that it evaluates their own. −1 if absent.
    correlation: Int64
    detail: Int32  # → row of Trace.gpu for activities and syncs; → Trace.shapes for operators; −1

    def __len__(self) -> int:
        """Count the events."""
        return len(self.start)


class GpuColumns(Struct, frozen=True):
    """What only activities (kernel, copy, memset) and sync records have: a row for each of them."""

    device: Int32  # −1 unknown
    stream: Int64  # −1 unknown
    graph_node: Int64  # "graph node id"; −1 if not launched by a graph
    bytes: Int64  # of copies and memsets; −1 absent
    geometry: Int32  # → Trace.geometries
    collective: Int32  # → Trace.collectives
    wait_event: Int64  # wait_on_cuda_event_record_corr_id of a sync record; −1
    wait_stream: Int64  # wait_on_stream of a sync record; −1


class Geometry(Struct, frozen=True):
    """How a kernel was launched; ``None`` where the writer did not say."""

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None  # per thread
    shared_memory: int | None = None  # bytes a block
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy: float | None = None  # "est. achieved occupancy %" as a fraction


class Collective(Struct, frozen=True):
    """What a communication kernel says of its collective; ``None`` where it does not."""

    name: str | None = None
    dtype: str | None = None
    in_elements: int | None = None
    out_elements: int | None = None
    group: str | None = None  # process group name
    group_size: int | None = None
    ranks: str | None = None
    seq: int | None = None
    peer: int | None = None  # of a send or a receive: the other rank, as the group numbers it


class Shape(Struct, frozen=True):
    """The recorded inputs of an operator, one entry an argument; empty where not recorded.

    ``dims`` and ``strides`` hold for each argument a tuple of integers, or, for a list of tensors,
    a tuple of such tuples; ``()`` for what is no tensor.
    """

    dims: tuple[object, ...] = ()
    strides: tuple[object, ...] = ()
    types: tuple[str, ...] = ()
    concrete: tuple[str, ...] = ()


class Track(Struct, frozen=True):
    """Where an event lies: on a host, a thread (pid, tid); on a device, a stream."""

    pid: int | str
    tid: int | str
    process: str | None = None  # names given by the file's metadata events
    thread: str | None = None


class Device(Struct, frozen=True):
    """A device as ``deviceProperties`` describes it; ``None`` where it does not."""

    index: int
    name: str | None = None
    compute_capability: tuple[int, int] | None = None
    memory_bytes: int | None = None


class Distributed(Struct, frozen=True):
    """``distributedInfo``; ``None`` where it does not say."""

    rank: int | None = None
    world: int | None = None
    backend: str | None = None


class MemoryColumns(Struct, frozen=True):
    """Allocator events ("[memory]"), in the order of the file."""

    time: Int64
    bytes: Int64  # positive: allocated; negative: freed
    allocated: Int64  # total after the event; −1 absent
    reserved: Int64  # likewise
    device_type: Int32  # 0 CPU, 1 CUDA, … as torch's c10::DeviceType
    device: Int32  # −1 absent


class Count(Struct, frozen=True):
    """How often something happened to the input, and what."""

    what: str
    count: int


class Health(Struct, frozen=True):
    """How far a trace can be trusted, as its reader saw it."""

    source: str  # "kineto", "chrome", "nsight", "xla", "perfetto", "rocprof"
    dropped: tuple[Count, ...] = ()  # events that could not be read, by reason
    repaired: tuple[Count, ...] = ()  # events that were mended, by what was done
    truncated: bool = False
    resolution_ns: int = 1
    notes: tuple[str, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()  # spans of host time in which events are missing


class Roles(Struct, frozen=True):
    """What names and tracks mean, where the reader of a format or the user knows it."""

    steps: tuple[str, ...] = ()  # names of ranges that are steps
    inputs: tuple[str, ...] = ()  # names of frames that hand over batches
    main: int = -1  # → Trace.tracks: the training thread
    executors: tuple[int, ...] = ()  # → Trace.tracks: threads that compute for the training thread


NO_ROLES: Final = Roles()


class Trace(Struct, frozen=True):
    """One process's capture: events in columns and the tables that they point into."""

    path: str
    origin_ns: int
    events: Events
    gpu: GpuColumns
    memory: MemoryColumns
    names: tuple[str, ...]
    tracks: tuple[Track, ...]
    shapes: tuple[Shape, ...]
    geometries: tuple[Geometry, ...]
    collectives: tuple[Collective, ...]
    devices: tuple[Device, ...]
    distributed: Distributed | None
    rank: int | None  # of distributedInfo, else of the file's name
    versions: tuple[tuple[str, str], ...]  # what the file says: ("cuda_runtime", "13000") …
    health: Health
    written_events: int = field(default=0)  # all entries of traceEvents, of every phase
    roles: Roles = NO_ROLES
