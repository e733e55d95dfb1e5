"""The processes of the machine: what each takes now; those that look like trainings first."""

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from gapless.launch.process_tree import Status, read
from gapless.launch.samplers import Growth
from gapless.live.activity import PROC, ActivityMeter
from gapless.live.gpus import GpuShare
from gapless.live.view import ProcessView

_TORCH: Final = b"libtorch"  # of the files that a process has mapped
_COUNTERS: Final = ("cpu", "read_bytes", "write_bytes")  # the last two as the kernel names them
_PYTHON: Final = ("python", "torchrun", "accelerate", "deepspeed")
_MAX_SHOWN: Final = 20  # by each of what processes are sorted by
_NS: Final = 10**9
GpuShares = Mapping[int, GpuShare]  # of processes that compute on a GPU


class _ProcessUse(NamedTuple):
    """What a process took since the last look, as far as the kernel tells of it."""

    status: Status
    cpu: float | None  # ns a second
    read: float | None  # bytes a second
    written: float | None


class ProcessTable(Struct):
    """The processes that are looked at again and again."""

    proc: Path = PROC
    processors: float | None = None  # that all took which were there at the last look
    _looked_ns: int | None = None
    _keys: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])  # number, start
    _growth: Growth = field(default_factory=Growth)
    _commands: dict[tuple[int, int], tuple[str, bool]] = field(
        default_factory=dict[tuple[int, int], tuple[str, bool]]
    )
    _meter: ActivityMeter | None = None

    def look(self, now_ns: int, gpu_shares: GpuShares) -> tuple[ProcessView, ...]:
        """Return those that take most of processors, memory, disks or a GPU; trainings first."""
        use_by_pid = {pid: self._measure(pid, status, now_ns) for pid, status in self._statuses()}
        if self._looked_ns is not None:
            self.processors = sum(use.cpu or 0.0 for use in use_by_pid.values()) / _NS
        self._looked_ns = now_ns
        counters = {
            f"{pid} {use.status.started} {counter}"
            for pid, use in use_by_pid.items()
            for counter in _COUNTERS
        }
        self._growth.keep_only(counters)
        views = [
            self._view(pid, use_by_pid[pid], now_ns, gpu_shares.get(pid))
            for pid in _find_largest(use_by_pid, gpu_shares)
        ]
        self._keys = {(pid, use.status.started) for pid, use in use_by_pid.items()}
        self._commands = {key: text for key, text in self._commands.items() if key in self._keys}
        views.sort(key=lambda view: (not view.is_training, -(view.on_processor or 0.0)))
        return tuple(views)

    def _measure(self, pid: int, status: Status, now_ns: int) -> _ProcessUse:
        counts = {"cpu": status.cpu_ns}
        if status.resident:  # else the kernel's own, which it counts no bytes of
            counts |= read_io(pid, self.proc)
        is_new, rates = (pid, status.started) not in self._keys, list[float | None]()
        for what in _COUNTERS:
            counter, count = f"{pid} {status.started} {what}", counts.get(what)
            if is_new and self._looked_ns is not None:  # it came since then: all is new of it
                self._growth.rate(counter, self._looked_ns, 0)
            rates.append(None if count is None else self._growth.rate(counter, now_ns, count))
        cpu, read_bytes, written = rates
        return _ProcessUse(status, cpu, read_bytes, written)

    def _statuses(self) -> Iterator[tuple[int, Status]]:
        names: list[str] = []
        with suppress(OSError):  # a system without /proc
            names = os.listdir(self.proc)  # noqa: PTH208 - hundreds of processes
        for name in names:
            if name.isdigit():
                status = read(self.proc, int(name))
                if status is not None and not status.is_over:
                    yield int(name), status

    def _view(self, pid: int, use: _ProcessUse, now_ns: int, gpu: GpuShare | None) -> ProcessView:
        self._meter = self._meter or ActivityMeter(self.proc)
        activity, status = self._meter.look(pid, now_ns), use.status
        command, has_torch = self._command(pid, status)
        return ProcessView(
            pid=pid,
            user=owner_of(pid, self.proc),
            command=command,
            is_training=has_torch or gpu is not None,
            state="?" if activity is None else activity.state,
            on_processor=None if use.cpu is None else use.cpu / _NS,
            ready=None if activity is None else activity.ready,
            threads=status.threads,
            memory=status.resident,
            read_per_s=use.read,
            written_per_s=use.written,
            gpu_memory=None if gpu is None else gpu.memory,
            gpu_busy=None if gpu is None else gpu.busy,
        )

    def _command(self, pid: int, status: Status) -> tuple[str, bool]:
        """Return the command line, and whether torch is loaded; looked up until it is."""
        key = pid, status.started
        command = self._commands.get(key)
        if command is None or (not command[1] and command[0].split(" ")[0].endswith(_PYTHON)):
            command = self._commands[key] = read_command(pid, self.proc), has_torch(pid, self.proc)
        return command


def _find_largest(uses: Mapping[int, _ProcessUse], gpu_shares: GpuShares) -> dict[int, None]:
    """Return the processes on GPUs, and those that take most of anything else."""
    measures: tuple[Callable[[int], float], ...] = (
        lambda pid: uses[pid].cpu or 0.0,
        lambda pid: uses[pid].status.resident,
        lambda pid: (uses[pid].read or 0.0) + (uses[pid].written or 0.0),
    )
    largest = dict.fromkeys(pid for pid in gpu_shares if pid in uses)
    for measure in measures:
        order = sorted(uses, key=measure, reverse=True)[:_MAX_SHOWN]
        largest |= dict.fromkeys(pid for pid in order if measure(pid) > 0)
    return largest


def read_command(pid: int, proc: Path = PROC) -> str:
    """Return the command line of a process, or its name in brackets; empty if it is gone."""
    with suppress(OSError):
        words = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        command = " ".join(word.decode(errors="replace") for word in words)
        if command:
            return command
        return f"[{(proc / str(pid) / 'comm').read_text(errors='replace').strip()}]"
    return ""


def has_torch(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process has torch loaded; not known of other users' processes: no."""
    with suppress(OSError):
        return _TORCH in (proc / str(pid) / "maps").read_bytes()
    return False


def owner_of(pid: int, proc: Path = PROC) -> str:
    """Return the user of a process."""
    try:
        number = (proc / str(pid)).stat().st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def read_io(pid: int, proc: Path = PROC) -> dict[str, int]:
    """Return what a process read and wrote, as the kernel names it; nothing where not allowed."""
    counts: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in (proc / str(pid) / "io").read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(":")
            counts[name] = int(number)
    return counts


def read_environment(pid: int, proc: Path = PROC) -> dict[str, str]:
    """Return the variables that a process was started with; empty where that cannot be read."""
    variables: dict[str, str] = {}
    with suppress(OSError):
        for entry in (proc / str(pid) / "environ").read_bytes().split(b"\0"):
            name, _, value = entry.decode(errors="replace").partition("=")
            variables[name] = value
    return variables
