"""The processes of the machine: what each takes now; those that look like trainings first."""

import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless.launch.process_tree import Status, read
from gapless.launch.samplers import Growth
from gapless.live.activity import PROC, ActivityMeter
from gapless.live.view import ProcessView

_TORCH: Final = b"libtorch"  # of the files that a process has mapped
_PYTHON: Final = ("python", "torchrun", "accelerate", "deepspeed")
_MAX_DETAILED: Final = 40  # of the busiest processes memory, disks and threads are asked for
_MIN_SHOWN_CPU: Final = 0.005  # of a processor: a process that takes less is not shown
_NS: Final = 10**9
GpuMemory = Mapping[int, int | None]  # of processes that compute on a GPU: bytes, if known


@dataclass
class ProcessTable:
    """The processes that are looked at again and again."""

    proc: Path = PROC
    _cpu: Growth = field(default_factory=Growth)
    _io: Growth = field(default_factory=Growth)
    _commands: dict[tuple[int, int], tuple[str, bool]] = field(
        default_factory=dict[tuple[int, int], tuple[str, bool]]
    )
    _meter: ActivityMeter | None = None

    def look(self, now_ns: int, gpu_memory: GpuMemory) -> tuple[ProcessView, ...]:
        """Return the processes that do something, or look like trainings; these first."""
        statuses = dict(self._statuses())
        rates = {
            pid: self._cpu.rate(f"{pid} {status.started}", now_ns, status.cpu_ns)
            for pid, status in statuses.items()
        }
        self._cpu.keep_only({f"{pid} {status.started}" for pid, status in statuses.items()})
        order = sorted(statuses, key=lambda pid: (pid not in gpu_memory, -(rates[pid] or 0.0)))
        views = [
            self._view(pid, statuses[pid], rates[pid], now_ns, gpu_memory)
            for pid in order[:_MAX_DETAILED]
        ]
        self._forget(statuses)
        shown_views = [
            view
            for view in views
            if view.is_training or (view.on_processor or 0.0) >= _MIN_SHOWN_CPU
        ]
        shown_views.sort(key=lambda view: (not view.is_training, -(view.on_processor or 0.0)))
        return tuple(shown_views)

    def _statuses(self) -> Iterator[tuple[int, Status]]:
        names: list[str] = []
        with suppress(OSError):  # a system without /proc
            names = os.listdir(self.proc)  # noqa: PTH208 - hundreds of processes
        for name in names:
            if name.isdigit():
                status = read(self.proc, int(name))
                if status is not None and not status.is_over:
                    yield int(name), status

    def _view(
        self, pid: int, status: Status, rate: float | None, now_ns: int, gpu_memory: GpuMemory
    ) -> ProcessView:
        self._meter = self._meter or ActivityMeter(self.proc)
        activity = self._meter.look(pid, now_ns)
        command, has_torch = self._command(pid, status)
        counts = read_io(pid, self.proc)
        return ProcessView(
            pid=pid,
            user=owner_of(pid, self.proc),
            command=command,
            is_training=has_torch or pid in gpu_memory,
            state="?" if activity is None else activity.state,
            on_processor=None if rate is None else rate / _NS,
            ready=None if activity is None else activity.ready,
            threads=status.threads,
            memory=status.resident,
            read_per_s=self._rate(f"{pid} r", now_ns, counts.get("read_bytes")),
            written_per_s=self._rate(f"{pid} w", now_ns, counts.get("write_bytes")),
            gpu_memory=gpu_memory.get(pid),
        )

    def _rate(self, name: str, now_ns: int, count: int | None) -> float | None:
        return None if count is None else self._io.rate(name, now_ns, count)

    def _command(self, pid: int, status: Status) -> tuple[str, bool]:
        """Return the command line, and whether torch is loaded; looked up until it is."""
        key = pid, status.started
        known = self._commands.get(key)
        if known is None or (not known[1] and known[0].split(" ")[0].endswith(_PYTHON)):
            known = self._commands[key] = read_command(pid, self.proc), has_torch(pid, self.proc)
        return known

    def _forget(self, statuses: Mapping[int, Status]) -> None:
        starts = {(pid, status.started) for pid, status in statuses.items()}
        self._commands = {key: text for key, text in self._commands.items() if key in starts}


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
