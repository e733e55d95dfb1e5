"""Measure what gapless watch takes of a processor while it draws a running training.

``python -m benchmarks.watching --out benchmarks/results/watching.json`` records a training with
workers, opens the screen on it in a pseudo terminal of each size, lets it settle, and reads the
processor time of its process over 20 s. Likewise the machine view, and gapless attach on the same
training, not recorded. The aim is 3 % of one core.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.machine import machine, write_result

SETTLE_S = 15.0  # from the start of the screen: imports, the first study
MEASURE_S = 20.0
ATTACH_SETTLE_S = 5.0
SIZES = ((80, 24), (200, 60))
AIM_SHARE = 0.03
TRAINING = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(3, 16, 16), index % 10
loader = DataLoader(Numbers(), batch_size=16, num_workers=WORKERS)
model = nn.Sequential(nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.set_num_threads(1)
while True:
    for pictures, classes in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), classes).backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class WatchCost:
    """The processor time of one screen."""

    view: str  # run | machine
    columns: int
    rows: int
    measured_s: float
    cpu_s: float
    share: float  # of one processor
    drawn_bytes: int  # that it wrote to the terminal meanwhile
    resident_bytes: int
    load: float  # of the machine: processors in use, the training's included


@dataclass(frozen=True)
class AttachCost:
    """The processor time of looking from outside; py-spy's, where it is installed, is its own."""

    measured_s: float
    cpu_s: float
    share: float  # of one processor


@dataclass
class Terminal:
    """A pseudo terminal that somebody reads."""

    columns: int
    rows: int
    drawn_bytes: int = 0

    def open(self, command: list[str], folder: Path) -> int:
        """Start a command in it; return its process id."""
        pid, descriptor = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            time.sleep(0.2)  # until the size is set
            os.execvp(command[0], command)  # noqa: S606
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()
        return pid

    def _read(self, descriptor: int) -> None:
        while True:
            select.select([descriptor], [], [])
            try:
                self.drawn_bytes += len(os.read(descriptor, 1 << 16))
            except OSError:  # it ended
                return


def measure(view: str, size: tuple[int, int], folder: Path) -> WatchCost:
    """Open a screen, let it settle, and read its processor time."""
    terminal = Terminal(*size)
    command = [sys.executable, "-m", "gapless", "watch"]
    pid = terminal.open([*command, "--machine"] if view == "machine" else command, folder)
    process = psutil.Process(pid)
    time.sleep(SETTLE_S)
    psutil.cpu_percent()
    drawn_before, start_s, before = terminal.drawn_bytes, time.monotonic(), process.cpu_times()
    time.sleep(MEASURE_S)
    after, wall_s = process.cpu_times(), time.monotonic() - start_s
    cpu_s = after.user + after.system - before.user - before.system
    if process.status() == psutil.STATUS_ZOMBIE:
        sys.exit(f"gapless watch ended while it was measured ({view}, {size[0]}x{size[1]})")
    cost = WatchCost(
        view=view,
        columns=size[0],
        rows=size[1],
        measured_s=round(wall_s, 2),
        cpu_s=round(cpu_s, 3),
        share=round(cpu_s / wall_s, 4),
        drawn_bytes=terminal.drawn_bytes - drawn_before,
        resident_bytes=process.memory_info().rss,
        load=round(psutil.cpu_percent() / 100 * (psutil.cpu_count() or 1), 2),
    )
    process.terminate()
    os.waitpid(pid, 0)
    return cost


def measure_attach(folder: Path) -> AttachCost:
    """Start the training by itself, look at it from outside, and read what the looking takes."""
    training = subprocess.Popen([sys.executable, "train.py"], cwd=folder)
    try:
        time.sleep(10)
        seconds = ATTACH_SETTLE_S + MEASURE_S + 5
        command = [sys.executable, "-m", "gapless", "attach", str(training.pid)]
        command += ["--seconds", f"{seconds:.0f}"]
        looking = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        process = psutil.Process(looking.pid)
        time.sleep(ATTACH_SETTLE_S)
        start_s, before = time.monotonic(), process.cpu_times()
        time.sleep(MEASURE_S)
        after, wall_s = process.cpu_times(), time.monotonic() - start_s
        if looking.wait():
            sys.exit("gapless attach failed")
    finally:
        training.terminate()
        training.wait()
    cpu_s = after.user + after.system - before.user - before.system
    return AttachCost(round(wall_s, 2), round(cpu_s, 3), round(cpu_s / wall_s, 4))


def main() -> None:
    """Record a training, and measure each screen on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gapless-benchmark-") as place:
        folder = Path(place)
        script = TRAINING.replace("WORKERS", str(options.workers))
        (folder / "train.py").write_text(script, encoding="utf-8")
        training = subprocess.Popen(
            [sys.executable, "-m", "gapless", "run", "--quiet", sys.executable, "train.py"],
            cwd=folder,
        )
        try:
            time.sleep(10)
            costs = [measure("run", size, folder) for size in SIZES]
            costs += [measure("machine", size, folder) for size in SIZES]
        finally:
            training.terminate()
            training.wait()
        attach_cost = measure_attach(folder)
    print(f"attach: {attach_cost.share:.2%}")
    for cost in costs:
        verdict = "within" if cost.share <= AIM_SHARE else "beyond"
        print(
            f"{cost.view} {cost.columns}x{cost.rows}: {cost.share:.2%} ({verdict} {AIM_SHARE:.0%})"
        )
    result = {
        "machine": machine(),
        "workers": options.workers,
        "aim_share": AIM_SHARE,
        "costs": [asdict(cost) for cost in costs],
        "attach": asdict(attach_cost),
    }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
