"""What a recorded training did beside its work: calls that wait for a device, memory, files.

Times are integer nanoseconds; ``None`` is what was not observed.
"""

from msgspec import Struct


class SyncUse(Struct, frozen=True):
    """A line of source that waits for a device by a call that Python can see, all ranks together.

    Methods of tensors (``item``, ``cpu``) are not among these calls: windows show them.
    """

    file: str | None
    line: int | None
    function: str | None
    count: int
    total_ns: int
    per_step: float | None  # calls on the thread that steps, between its steps; None without steps
    step_ns: float | None  # how long they took, a step


class CallUse(Struct, frozen=True):
    """A line of source that saves, or logs: all its calls, all ranks together."""

    kind: str  # "checkpoint" | "logging" | "profiling"
    file: str | None
    line: int | None
    function: str | None
    count: int
    total_ns: int
    per_step: float | None  # calls between steps, on the thread that steps; None without steps


class AllocatorUse(Struct, frozen=True):
    """The allocator of one device in one process: peaks in bytes, counts since the process began.

    As it was at the last look, about one a second.
    """

    rank: int | None
    device: int
    allocated_peak: int | None
    reserved_peak: int | None
    retries: int | None  # memory was short: everything cached was freed, and tried again
    ooms: int | None
    device_allocs: int | None  # calls of cudaMalloc
    device_frees: int | None


class FolderUse(Struct, frozen=True):
    """Files in one folder, or below it, that fetches opened."""

    path: str
    opened: int
    files: int


class FileUse(Struct, frozen=True):
    """Files that fetches opened, of those that were looked at; files seen to be written."""

    opened: int | None  # times; None: no fetch was seen to open any
    files: int | None  # distinct ones
    more: int  # times, of files beyond those that were distinguished
    folders: tuple[FolderUse, ...]  # most opened first
    written: tuple[str, ...]


class Footprint(Struct, frozen=True):
    """What a training did beside its work."""

    syncs: tuple[SyncUse, ...]  # most time first
    allocator: tuple[AllocatorUse, ...]
    files: FileUse | None
    calls: tuple[CallUse, ...] = ()  # most time first
