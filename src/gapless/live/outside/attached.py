"""What is known of a training that nobody records, from outside: values.

Shares are of the time that was looked at; ``None`` is what is not known.
"""

from collections.abc import Mapping

from msgspec import Struct


class ThreadUse(Struct, frozen=True):
    """What a thread did; the four parts sum to ``wall_ns``."""

    wall_ns: int
    on_processor_ns: int
    ready_ns: int | None  # it waited for a processor; None: this kernel does not tell
    disk_ns: int
    otherwise_ns: int
    waits: Mapping[str, int]  # ``otherwise_ns`` by what it waited for, as far as looks showed it
    looks: int

    def share(self, ns: int | None) -> float:
        """Return a part as a share of the time."""
        return (ns or 0) / self.wall_ns if self.wall_ns else 0.0


class ProcessUse(Struct, frozen=True):
    """A process, and what its first thread did."""

    pid: int
    command: str
    thread: ThreadUse
    processors: float | None  # that all its threads took: 2.5 is two and a half
    threads: int
    memory: int  # bytes, resident
    read_per_s: float | None  # bytes from disks
    asked_per_s: float | None  # bytes that it read from anywhere, the page cache included
    written_per_s: float | None


class ThreadShare(Struct, frozen=True):
    """A thread of the training process, by the name that the kernel has of it."""

    thread: int  # its number; the main thread has that of the process
    name: str
    processors: float  # share of the time that it was on one


class GpuUse(Struct, frozen=True):
    """A GPU that the training computes on: means over the looks."""

    name: str  # gpu0
    model: str
    busy: float | None  # share of the time with a kernel running
    memory_used: float | None
    memory_total: float | None
    power: float | None  # W
    clock_sm: float | None  # MHz
    pcie_rx: float | None  # bytes a second
    pcie_tx: float | None
    held: tuple[str, ...]  # what held its clock back


class LineUse(Struct, frozen=True):
    """A line at which py-spy saw the main thread."""

    share: float
    place: str  # "function (file:line)"


class Attached(Struct, frozen=True):
    """A training, as far as it can be known from outside."""

    pid: int
    host: str
    seconds: float
    main: ProcessUse
    workers: tuple[ProcessUse, ...]
    n_started: int  # children that were started meanwhile
    gpus: tuple[GpuUse, ...]
    lines: tuple[LineUse, ...]  # none without py-spy
    reading: str  # what that says, in words
    processors: float | None  # of the machine that all processes took
    count: int | None  # processors that the machine has
    exact: str  # the command that would give the exact account
    notes: tuple[str, ...]
    threads: tuple[ThreadShare, ...] = ()  # of the process, those on a processor most
