"""What the recorder noted of a run: the values that ``store`` reads and ``study`` works on.

Times are nanoseconds on CLOCK_MONOTONIC, one axis for all processes of a host. In a column −1
means "not observed"; elsewhere ``None`` does.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gapless.model.trace import Int64  # the launcher, which makes a manifest, has no numpy yet


class Marks(Struct, frozen=True):
    """The marks of one process, by time of writing; ``kind`` and ``flags`` as in ``wire``."""

    kind: "Int64"
    flags: "Int64"
    subject: "Int64"  # the id of a loader, optimizer, model or site; wire.NOBODY
    thread: "Int64"
    start: "Int64"
    end: "Int64"
    value: "Int64"

    def __len__(self) -> int:
        """Count the marks."""
        return len(self.kind)


class Batches(Struct, frozen=True):
    """The fetches of one process, a row each: its columns are ``wire.BATCH_FIELDS``."""

    columns: "Mapping[str, Int64]"

    def __len__(self) -> int:
        """Count the fetches."""
        return len(self.columns["start"])


class Sums(Struct, frozen=True):
    """Stretches whose records were too many to keep: ``wire.MARK_SUM_FIELDS`` or ``BATCH_SUM_…``.

    A row for each stretch and kind of mark, or for each stretch and loader. Each record of a
    process is either kept, in ``Marks`` or ``Batches``, or counted here.
    """

    columns: "Mapping[str, Int64]"

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.columns["count"])


class Fact(Struct, frozen=True):
    """A thing that the training uses: a loader, an optimizer, a model, a site in the source."""

    noun: str
    id: int
    file: str | None
    line: int | None
    function: str | None
    values: Mapping[str, object]


class Unobserved(Struct, frozen=True):
    """What could not be observed, and why."""

    what: str
    why: str
    count: int = 1


class StackCount(Struct, frozen=True):
    """One sampled stack of one thread, innermost frame first: (file, line, function)."""

    # "training", "worker", "setup" (before the process stepped or loaded), or "ending" (long after
    # its last step)
    thread: str
    frames: tuple[tuple[str, int, str], ...]
    count: int  # of looks of a thread beside it, which sees it where it lets go of the GIL
    # What it stands for in time, without bias; 0 everywhere: it was not measured.
    ran_ns: int = 0  # on a processor
    # off it, or for a device; of that by what it waited for: "sleep", "file", "device" …
    blocked_ns: int = 0
    waits: tuple[tuple[str, int], ...] = ()
    late_ns: int = 0  # of all of it: while the step took twice the mean one already

    @property
    def device_ns(self) -> int:
        """Return how long it may have waited for a device, in a call of C."""
        return sum(ns for kind, ns in self.waits if kind == "device")


class Window(Struct, frozen=True):
    """A stretch recorded by torch.profiler; ``path`` in the run folder, if it was kept."""

    number: int
    path: str | None
    start: int
    end: int
    first_step: int
    last_step: int
    stacks: bool
    stop_ns: int | None
    save_ns: int | None
    discarded: str | None  # why it was not kept
    # At each edge our clock before and after each "gapless:clock" range: ``match_clocks`` of
    # ``accounting.clock`` finds the offset from them and the file.
    readings: tuple[tuple[tuple[int, int], ...], ...] = ()
    detached: bool = False  # the profiler from the device's driver, behind it


class JobPlace(Struct, frozen=True):
    """Which job a process is a part of, and where in it; ``None``: its launcher does not say."""

    run: str | None  # the id that torchrun's agents met by
    master: str | None  # address and port at which the ranks meet
    node: int | None
    nodes: int | None
    restart: int | None  # how often torchrun had started the ranks of its node before


class Process(Struct, frozen=True):
    """One process that stepped or loaded."""

    pid: int
    role: str  # "training" | "worker"
    rank: int | None
    world: int | None
    worker: int | None
    loader: int | None
    start: int  # of the process
    end: int | None  # None: it was killed; its last mark is the last that is known
    argv: tuple[str, ...]
    versions: Mapping[str, str]
    marks: Marks
    batches: Batches
    facts: tuple[Fact, ...]
    unobserved: tuple[Unobserved, ...]
    stacks: tuple[StackCount, ...]
    windows: tuple[Window, ...]
    counters: tuple[Mapping[str, object], ...]
    read: Mapping[str, int]  # paths opened by fetches, how often
    written: tuple[str, ...]
    exported: tuple[str, ...] = ()  # traces that the user's own profiler wrote
    mark_sums: Sums | None = None  # None: every mark was kept
    batch_sums: Sums | None = None
    end_kind: str | None = None  # it ended: "exit", "os._exit", "check", "trial" …
    trial: "ArmObservation | None" = None  # in a trial's arm
    setup_stacks: tuple[StackCount, ...] = ()  # since torch was looked for, until it trained
    rare_stacks: tuple[StackCount, ...] = ()  # without frames: sums, by thread, of what is not kept
    job: JobPlace | None = None
    host: str | None = None
    unix_offset_ns: int | None = None  # Unix time less the clock of its times, as it began


class ArmObservation(Struct, frozen=True):
    """What a process of a trial's arm trained on, and with what losses."""

    losses: tuple[float, ...]  # roots of the first backward passes, in order
    scaled: bool  # a GradScaler had multiplied them
    indices: Mapping[int, tuple["BatchIndices", ...]]  # by loader, in the order handed over
    samples: Mapping[int, tuple["BatchSamples", ...]]  # likewise, where there are no indices
    stopped: int | None = None  # the planned step at which it left; None: it came to another end


class BatchIndices(Struct, frozen=True):
    """A batch of a map-style loader: what its sampler drew."""

    epoch: int  # iterations of the loader before
    checksum: str  # of the indices, in order
    count: int
    distinct: int | None  # in this iteration so far; None: too many to be counted


class BatchSamples(Struct, frozen=True):
    """A batch of another loader: a checksum of each sample's first 4 KiB."""

    epoch: int
    samples: tuple[str, ...]


class Samples(Struct, frozen=True):
    """Series of the launcher's samplers: by name, (time, value) columns; absent: not observed."""

    series: "Mapping[str, tuple[Int64, tuple[float, ...]]]"
    unobserved: tuple[Unobserved, ...]
    hosts: tuple["Host", ...] | None = None  # other machines it had connections to; None: not seen


class Host(Struct, frozen=True):
    """Another machine that a process of the run connected to."""

    address: str
    port: int
    program: str | None


class AdoptedTrace(Struct, frozen=True):
    """A trace that a training's own profiler wrote, and the copy of it in the run folder."""

    source: str  # as the training named it, absolute
    path: str  # in the run folder


class Manifest(Struct, frozen=True):
    """``run.json``: what was run, when, and how it ended."""

    id: str
    command: tuple[str, ...]
    folder: str  # working folder
    host: str
    gapless: str
    started_unix_ns: int
    started: int  # CLOCK_MONOTONIC
    ended: int | None
    exit_code: int | None
    status: str  # running | finished | failed | killed
    stopped_by: str | None = None  # "check": we ended it, as asked
    pid: int | None = None  # of the command, whose end is ``ended``
    adopted: tuple[AdoptedTrace, ...] = ()


class Exchange(Struct, frozen=True):
    """What one machine of a job sends to another while steps are made, by TCP."""

    host: str
    peer: str
    interface: str | None  # of the machine that sends; None: its name is not known
    bytes_per_s: float  # while it is on its way
    busy_share: float  # of the time: something is on its way
    resent_share: float = 0.0  # of the bytes


class Node(Struct, frozen=True):
    """One of the machines of a job, each of which was recorded into a folder of its own.

    Times are on the clock of the first of them; an offset is a clock less that one.
    """

    host: str
    path: str
    number: int | None  # as its launcher counts nodes
    ranks: tuple[int, ...]
    status: str
    restarts: int | None
    first_gpu: int | None  # the number that its GPU 0 has in the job; None: none was sampled
    gpus: int
    clock_offset_ns: int
    clock_error_ns: int | None  # the offset is off by no more; None: not known
    clock_source: str  # "the first" | "the same machine" | "collectives" | "steps" | "wall clock"
    clock_count: int  # of the collectives or steps
    addresses: tuple[str, ...] = ()  # from which it sends to other machines
    exchanges: tuple[Exchange, ...] = ()  # what it sends to the other machines; empty: not observed


class Recording(Struct, frozen=True):
    """A run, as its folder holds it; of a job on several machines, as their folders do."""

    path: str
    manifest: Manifest
    processes: tuple[Process, ...]
    samples: Samples
    unobserved: tuple[Unobserved, ...]
    nodes: tuple[Node, ...] = ()  # those of one folder have none
