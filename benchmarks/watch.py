"""Run a command and measure it with everything it starts: time, processor, peak memory together."""

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

SHORTEST_PAUSE_S = 0.02
SHARE = 0.03  # of the time that sampling may take: reading the maps of large processes is not free


@dataclass(frozen=True)
class Run:
    """One run of a command, as a whole."""

    wall_s: float
    cpu_s: float  # of the command and all its descendants
    peak_bytes: int | None  # all processes together, sampled
    largest_bytes: int  # the largest single process, as the kernel counts it
    exit_code: int


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


def together(root: psutil.Process) -> int:
    """Give the memory of a process and all its descendants."""
    with contextlib.suppress(psutil.Error):
        return sum(resident(one) for one in (root, *root.children(recursive=True)))
    return 0


@dataclass
class Peak:
    """Samples the memory of a process tree in a thread of its own."""

    root: psutil.Process
    bytes: int = 0
    samples: int = 0

    def watch(self, over: threading.Event) -> None:
        """Sample until told that it is over."""
        while not over.is_set():
            begun = time.perf_counter()
            self.bytes = max(self.bytes, together(self.root))
            self.samples += 1
            cost = time.perf_counter() - begun
            over.wait(max(SHORTEST_PAUSE_S, cost / SHARE))


def run(command: list[str], environment: dict[str, str] | None = None) -> Run:
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
    watcher.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    over.set()
    watcher.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    return Run(
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=peak.bytes or None,
        largest_bytes=usage.ru_maxrss * 1024,
        exit_code=child.returncode,
    )
