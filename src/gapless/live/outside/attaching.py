"""Look at a training that was not started with gapless: from outside, without stopping it."""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from gapless.errors import NotFoundError
from gapless.launch.process_tree import Status, Tree
from gapless.live.activity import PROC, read_clock
from gapless.live.gpus import held_reasons, open_gpus
from gapless.live.machine import MachineSampler
from gapless.live.outside.attached import Attached, GpuUse, ProcessUse, ThreadShare, ThreadUse
from gapless.live.outside.stack_looks import StackLooks
from gapless.live.outside.target import check_target, exact_command, is_recorded
from gapless.live.outside.thread_use import ThreadMeter
from gapless.live.processes import read_command, read_io

_MAX_THREADS: Final = 6  # that are told apart
_MIN_PROCESSORS: Final = 0.01
ThreadTimes = Mapping[int, tuple[str, int]]  # number → name, ns on a processor


_LOOK_S: Final = 0.05  # between two looks at threads
_LOOKS_PER_SAMPLE: Final = 10  # of them for one at the machine, and for new children
_NO_WORKERS: Final = ("resource_tracker", "forkserver", "semaphore_tracker")
_NO_SPOOL: Final = Path("/nonexistent/gapless-spool")
_MAX_PROCESSES: Final = 65  # that are looked at
_MIN_SAID_SHARE: Final = 0.2  # of the time: what takes less is not said to hold it up
_MOSTLY: Final = 0.7
_S: Final = 10**9


@dataclass
class _Watched:
    """A process, as it was first and last seen."""

    meter: ThreadMeter
    command: str
    first: tuple[int, Status, Mapping[str, int]]
    last: tuple[int, Status, Mapping[str, int]]

    def use(self) -> ProcessUse | None:
        """Return what it took; ``None`` if it was seen once only."""
        thread = self.meter.use()
        (start_ns, before, first_io), (end_ns, after, last_io) = self.first, self.last
        if thread is None:
            return None

        def rate(name: str) -> float | None:
            if name not in first_io or name not in last_io or end_ns <= start_ns:
                return None
            return max(0, last_io[name] - first_io[name]) / (end_ns - start_ns) * _S

        wall_ns = end_ns - start_ns
        return ProcessUse(
            pid=self.meter.pid,
            command=self.command,
            thread=thread,
            processors=(after.cpu_ns - before.cpu_ns) / wall_ns if wall_ns > 0 else None,
            threads=after.threads,
            memory=after.resident,
            read_per_s=rate("read_bytes"),
            asked_per_s=rate("rchar"),
            written_per_s=rate("write_bytes"),
        )


@dataclass
class Observer:
    """What is looked at, look by look."""

    pid: int
    proc: Path = PROC
    tree: Tree = field(init=False)
    machine: MachineSampler = field(init=False)
    processes: dict[int, _Watched] = field(default_factory=dict[int, _Watched])
    figures: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    n_at_start: int = 0
    first_threads: tuple[int, ThreadTimes] = (0, {})
    threads: tuple[ThreadShare, ...] = ()

    def __post_init__(self) -> None:
        self.tree = Tree(self.pid, _NO_SPOOL, self.proc)
        self.machine = MachineSampler(self.tree)

    def observe(self, seconds: float) -> bool:
        """Look for so long; return whether the process was there to the end."""
        self.machine.open()
        self.first_threads = time.monotonic_ns(), read_threads(self.pid, self.proc)
        until_s, looks = time.monotonic() + seconds, 0
        while True:
            now_ns = time.monotonic_ns()
            if looks % _LOOKS_PER_SAMPLE == 0:
                self._look_at_processes(now_ns)
                self.machine.sample(now_ns)
                self.figures.append(dict(self.machine.figures))
            is_there = [watched.meter.look(now_ns) for watched in self.processes.values()]
            if not is_there or not is_there[0]:
                return False
            looks += 1
            if time.monotonic() >= until_s:
                self._look_at_processes(time.monotonic_ns())
                return True
            time.sleep(_LOOK_S)

    def _look_at_processes(self, now_ns: int) -> None:
        self.tree.look()
        start_ns, first = self.first_threads
        threads = read_threads(self.pid, self.proc)
        self.threads = busiest_threads(first, threads, now_ns - start_ns) or self.threads
        for pid, status in self.tree.statuses().items():
            sighting = now_ns, status, read_io(pid, self.proc)
            watched = self.processes.get(pid)
            if watched is not None:
                watched.last = sighting
            elif len(self.processes) < _MAX_PROCESSES:
                command = read_command(pid, self.proc)
                meter = ThreadMeter(pid, self.proc)
                self.processes[pid] = _Watched(meter, command, sighting, sighting)
        self.n_at_start = self.n_at_start or len(self.processes)


def attach(
    pid: int, seconds: float, report_progress: Callable[[str], None], proc: Path = PROC
) -> Attached:
    """Look at a process and those below it for some seconds.

    Raises ``GaplessError`` where there is nothing to look at, or it may not be looked at.
    """
    check_target(pid, proc)
    command, notes = exact_command(pid, proc), list[str]()
    if is_recorded(pid, proc):
        notes.append("it was started with gapless run: gapless watch shows all of it")
    stacks = StackLooks(pid, seconds)
    report_progress(f"looking at process {pid} for {seconds:.0f} s")
    try:
        stacks.start()
        observer = Observer(pid, proc)
        if not observer.observe(seconds):
            notes.append("it ended while it was looked at")
        lines = stacks.finish()
    finally:
        stacks.stop()
    uses = [use for watched in observer.processes.values() if (use := watched.use()) is not None]
    if not uses or uses[0].pid != pid:
        raise NotFoundError(f"process {pid} ended before it was looked at twice")
    notes += [stacks.why_none] if stacks.why_none is not None else []
    main, workers = uses[0], tuple(filter(_is_worker, uses[1:]))
    gpus = gpu_uses(observer)
    totals = [figures["cpu.total"] for figures in observer.figures if "cpu.total" in figures]
    return Attached(
        pid=pid,
        host=platform.node(),
        seconds=main.thread.wall_ns / _S,
        main=main,
        workers=workers,
        n_started=len(observer.processes) - observer.n_at_start,
        gpus=gpus,
        lines=lines,
        reading=read_figures(main, workers, gpus),
        processors=fmean(totals) / 100 if totals else None,
        count=os.cpu_count(),
        exact=command,
        notes=(*notes, *observer.machine.notes),
        threads=observer.threads,
    )


def _is_worker(process: ProcessUse) -> bool:
    return not any(name in process.command for name in _NO_WORKERS)


def gpu_uses(observer: Observer) -> tuple[GpuUse, ...]:
    """Return the GPUs on which the training computes."""
    gpus = open_gpus()
    if gpus is None:
        return ()
    models = gpus.names()
    pids = frozenset(observer.processes)
    return tuple(_gpu_use(gpu, models.get(gpu, ""), observer) for gpu in gpus.used_by(pids))


def _gpu_use(gpu: str, model: str, observer: Observer) -> GpuUse:
    def mean(name: str) -> float | None:
        values = [
            figures[f"{gpu}.{name}"] for figures in observer.figures if f"{gpu}.{name}" in figures
        ]
        return fmean(values) if values else None

    busy = mean("sm")
    held_files = dict.fromkeys(
        reason for figures in observer.figures for reason in held_reasons(figures).get(gpu, ())
    )
    return GpuUse(
        name=gpu,
        model=model,
        busy=None if busy is None else busy / 100,
        memory_used=mean("memory_used"),
        memory_total=mean("memory_total"),
        power=mean("power"),
        clock_sm=mean("clock_sm"),
        pcie_rx=mean("pcie_rx"),
        pcie_tx=mean("pcie_tx"),
        held=tuple(held_files),
    )


def read_figures(main: ProcessUse, workers: Sequence[ProcessUse], gpus: Sequence[GpuUse]) -> str:
    """Say in words what the figures say, and no more."""
    thread = main.thread
    parts: list[str] = []
    queue = max([thread.share(thread.ready_ns), *(_queue(worker.thread) for worker in workers)])
    if queue >= _MIN_SAID_SHARE:
        parts.append(f"processors are short: {_percent(queue)} of the time a thread waits for one")
    disk = max([thread.share(thread.disk_ns), *(w.thread.share(w.thread.disk_ns) for w in workers)])
    if disk >= _MIN_SAID_SHARE:
        parts.append(f"a disk keeps a process waiting {_percent(disk)} of the time")
    working = thread.share(thread.on_processor_ns)
    idle = [1 - gpu.busy for gpu in gpus if gpu.busy is not None]
    if idle and max(idle) >= _MIN_SAID_SHARE:
        parts.append(f"a GPU has nothing to do {_percent(max(idle))} of the time")
    if working >= _MOSTLY:
        parts.append(f"the main thread itself works {_percent(working)} of the time")
    busy_workers = [w for w in workers if w.thread.share(w.thread.on_processor_ns) >= _MOSTLY]
    if workers and len(busy_workers) == len(workers) and working < _MOSTLY:
        parts.append("all workers work without a pause while it waits: it likely waits for data")
    if not parts:
        parts.append(f"the main thread works {_percent(working)} of the time, and waits else")
        if workers:
            share = fmean(worker.thread.share(worker.thread.on_processor_ns) for worker in workers)
            whose = "its worker works" if len(workers) == 1 else f"its {len(workers)} workers work"
            parts.append(f"{whose} {_percent(share)} of it")
    return "; ".join(parts)


def _queue(thread: ThreadUse) -> float:
    return thread.share(thread.ready_ns)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def read_threads(pid: int, proc: Path = PROC) -> ThreadTimes:
    """Return each thread's name and time on a processor so far; empty if the process is gone."""
    times: dict[int, tuple[str, int]] = {}
    folder = proc / str(pid) / "task"
    with suppress(OSError):
        for number in map(int, os.listdir(folder)):  # noqa: PTH208 - names alone
            with suppress(OSError):
                name = (folder / str(number) / "comm").read_text(errors="replace").strip()
                clock = read_clock(pid, number, proc)
                times |= {} if clock is None else {number: (name, clock.ran_ns)}
    return times


def busiest_threads(first: ThreadTimes, last: ThreadTimes, wall_ns: int) -> tuple[ThreadShare, ...]:
    """Return the threads that were on a processor most between two readings."""
    shares = [
        ThreadShare(number, name, (ran_ns - first.get(number, (name, 0))[1]) / wall_ns)
        for number, (name, ran_ns) in last.items()
        if wall_ns > 0
    ]
    shares.sort(key=lambda share: -share.processors)
    return tuple(share for share in shares if share.processors >= _MIN_PROCESSORS)[:_MAX_THREADS]
