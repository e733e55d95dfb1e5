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
SHARE = 0.01  # of the time that sampling may take: it disturbs who uses all cores most


@dataclass(frozen=True)
class Run:
    """One run of a command, as a whole."""

    wall_s: float
    cpu_s: float  # of the command and all its descendants
    sampled_bytes: int  # the most that samples saw of all processes together
    largest_bytes: int  # the most that a single process held, by the kernel's own high mark
    exit_code: int

    @property
    def peak_bytes(self) -> int:
        """Give the larger: samples can miss a short peak, the kernel sees one process only."""
        return max(self.sampled_bytes, self.largest_bytes)


def resident(process: psutil.Process) -> int:
    """Give the proportional memory of a process; where the kernel does not tell, the resident."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        return int(text.split("Pss:", 1)[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def high_mark(process: psutil.Process) -> int:
    """Give the most that a process held since it began its program, 0 where nobody tells.

    Not ``ru_maxrss``: that of a child begins with what its parent held when it was started.
    """
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
        return int(text.split("VmHWM:", 1)[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return 0


@dataclass
class Peak:
    """Samples the memory of a process tree in a thread of its own."""

    root: psutil.Process
    together: int = 0
    largest: int = 0

    def sample(self) -> None:
        """Take one sample of all processes."""
        with contextlib.suppress(psutil.Error):
            processes = (self.root, *self.root.children(recursive=True))
            self.together = max(self.together, sum(resident(one) for one in processes))
            self.largest = max(self.largest, *(high_mark(one) for one in processes))

    def watch(self, over: threading.Event) -> None:
        """Sample until told that it is over."""
        while not over.is_set():
            begun = time.perf_counter()
            self.sample()
            cost = time.perf_counter() - begun
            over.wait(max(SHORTEST_PAUSE_S, cost / SHARE))


def run_apart(command: list[str], environment: dict[str, str] | None = None) -> Run:
    """Run a command twice: once for its time, undisturbed, and once for its memory."""
    timed = run(command, environment, sampled=False)
    seen = run(command, environment)
    return replace(timed, sampled_bytes=seen.sampled_bytes, largest_bytes=seen.largest_bytes)


def run(
    command: list[str], environment: dict[str, str] | None = None, *, sampled: bool = True
) -> Run:
    """Run a command with its output thrown away."""
    over = threading.Event()
    begun = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )
    peak = Peak(psutil.Process(child.pid))
    watcher = threading.Thread(target=peak.watch, args=(over,))
    if sampled:
        watcher.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    over.set()
    if sampled:
        watcher.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    return Run(
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        sampled_bytes=peak.together,
        largest_bytes=peak.largest,
        exit_code=child.returncode,
    )
