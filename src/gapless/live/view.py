"""What ``gapless watch`` shows at one moment: values, ready to be drawn or written as JSON.

Times are integer nanoseconds, shares fractions; ``None`` is what is not known.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from gapless.model.account import Account


class WorkerView(Struct, frozen=True):
    """A worker of a loader, and what it does now."""

    worker: int
    pid: int
    doing: str  # in words
    on_processor: float | None  # share of the time since the last look
    ready: float | None  # likewise: it could run, and waited for a processor
    fetch_ns: int | None  # mean of its latest fetches
    stages: Mapping[str, float]  # share of each stage in these, where they were measured


class LoaderView(Struct, frozen=True):
    """A loader of one rank: the batches that are ready, and who makes them."""

    rank: int | None
    id: int
    file: str | None
    line: int | None
    num_workers: int | None  # as it was made
    ready: int | None  # batches that are made, and not handed over yet
    capacity: int | None  # batches that may be under way: workers × prefetch_factor
    workers: tuple[WorkerView, ...]
    late_share: float | None = None  # of the latest batches: waited for over 1 ms


class RankView(Struct, frozen=True):
    """A training process and its latest steps."""

    rank: int | None
    pid: int
    steps: int | None  # so far
    since_step_ns: int | None  # since its last step ended, as far as it is recorded
    median_ns: int | None  # of the latest steps
    wait_share: float | None  # of the latest steps: waiting for data
    doing: str | None  # its main thread, in words


class PaceView(Struct, frozen=True):
    """The steps of a stretch of time, all ranks together where they are added up."""

    steps: int  # that the figures are of
    mean_ns: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    samples_per_s: float | None


class RunView(Struct, frozen=True):
    """A recorded run as far as it is recorded."""

    id: str
    path: str
    command: tuple[str, ...]
    status: str  # running | finished | failed | killed | gone
    exit_code: int | None
    elapsed_ns: int | None
    behind_ns: int | None  # how long ago the last record was made; None: it is over
    steps: int | None  # so far, of the rank that made most
    recent: PaceView | None
    whole: PaceView | None
    recent_account: Account | None
    account: Account | None  # so far
    account_age_ns: int | None  # how long ago that was computed
    refined_by: int  # steps of windows behind the accounts
    windows: int  # that are kept, of the rank with most
    no_windows: str | None  # why there will be none
    cause: str | None  # why steps take as long as they do now, in words
    ranks: tuple[RankView, ...]
    loaders: tuple[LoaderView, ...]
    notes: tuple[str, ...]


class ProcessView(Struct, frozen=True):
    """A process of the machine."""

    pid: int
    user: str
    command: str
    is_training: bool  # it looks like one
    state: str  # as the kernel writes it: R, S, D, T, Z
    on_processor: float | None  # processors: 2.5 is two and a half
    ready: float | None  # share of the time that its main thread waited for a processor
    threads: int
    memory: int  # bytes, resident
    read_per_s: float | None  # bytes from disks
    written_per_s: float | None
    gpu_memory: int | None  # bytes
    gpu_busy: float | None = None  # GPUs whose multiprocessors it kept busy: 1.5 is one and a half


class LiveView(Struct, frozen=True):
    """A moment: a run, if one is watched, and the machine."""

    host: str
    taken_unix_ns: int
    run: RunView | None
    machine: Mapping[str, float]  # as the samplers name them: gpu0.sm, cpu.total …
    held: Mapping[str, tuple[str, ...]]  # what holds the clock of a GPU back: gpu0 → power
    gpu_names: Mapping[str, str]
    processors: int | None
    processes: tuple[ProcessView, ...]  # without a run; trainings first
    notes: tuple[str, ...]
    cores: tuple[float, ...] = ()  # without a run: how busy each processor was, as shares


class Watcher(Protocol):
    """Whatever can be looked at: a run, the machine."""

    def look(self) -> LiveView:
        """Return what is to be seen now."""
        ...

    def await_window(self, n_windows: int) -> None:
        """Be quick to show what a window adds that was asked for."""
        ...

    def study_when_due(self) -> bool:
        """Do what takes longer, if it is due; return whether it was."""
        ...
