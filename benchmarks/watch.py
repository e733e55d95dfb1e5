"""Run a command and measure it with everything it starts: time, processor, peak memory together."""

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

SHORTEST_PAUSE_S = 0.02
MAX_SAMPLING_SHARE = 0.01  # of the time that sampling may take: it disturbs who uses all cores most


@dataclass(frozen=True)
class CommandRun:
    """One run of a command, as a whole."""

    wall_s: float
    cpu_s: float  # of the command and all its descendants
    sampled_bytes: int  # the most that samples saw of all processes together
    largest_bytes: int  # the most that a single process held, by the kernel's own high mark
    exit_code: int

    @property
    def peak_bytes(self) -> int:
        """Return the larger: samples can miss a short peak, the kernel sees one process only."""
        return max(self.sampled_bytes, self.largest_bytes)


def resident_bytes(process: psutil.Process) -> int:
    """Return the proportional memory of a process; where the kernel does not tell, the resident."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        return int(text.split("Pss:", 1)[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def peak_resident_bytes(process: psutil.Process) -> int:
    """Return the most that a process held since it began its program, 0 where nobody tells.

    Not ``ru_maxrss``: that of a child begins with what its parent held when it was started.
    """
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
        return int(text.split("VmHWM:", 1)[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return 0


@dataclass
class PeakSampler:
    """Samples the memory of a process tree in a thread of its own."""

    root: psutil.Process
    together: int = 0
    largest: int = 0

    def sample(self) -> None:
        """Take one sample of all processes."""
        with contextlib.suppress(psutil.Error):
            processes = (self.root, *self.root.children(recursive=True))
            self.together = max(
                self.together, sum(resident_bytes(process) for process in processes)
            )
            self.largest = max(
                self.largest, *(peak_resident_bytes(process) for process in processes)
            )

    def watch(self, stop_event: threading.Event) -> None:
        """Sample until told that it is over."""
        while not stop_event.is_set():
            start_s = time.perf_counter()
            self.sample()
            cost = time.perf_counter() - start_s
            stop_event.wait(max(SHORTEST_PAUSE_S, cost / MAX_SAMPLING_SHARE))


def run_twice(command: list[str], environment: dict[str, str] | None = None) -> CommandRun:
    """Run a command twice: once for its time, undisturbed, and once for its memory."""
    timed_run = run(command, environment, sampled=False)
    sampled_run = run(command, environment)
    return replace(
        timed_run, sampled_bytes=sampled_run.sampled_bytes, largest_bytes=sampled_run.largest_bytes
    )


def run(
    command: list[str], environment: dict[str, str] | None = None, *, sampled: bool = True
) -> CommandRun:
    """Run a command with its output thrown away."""
    stop_event = threading.Event()
    start_s = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )
    peak = PeakSampler(psutil.Process(child.pid))
    watcher = threading.Thread(target=peak.watch, args=(stop_event,))
    if sampled:
        watcher.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start_s
    stop_event.set()
    if sampled:
        watcher.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    return CommandRun(
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        sampled_bytes=peak.together,
        largest_bytes=peak.largest,
        exit_code=child.returncode,
    )
