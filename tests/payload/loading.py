"""Run a script of a test with the recorder inside, and read the rows of its fetches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from gapless import payload, wire

SITE = Path(payload.__file__).parent / "site"
START = """
import os, random, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

class Numbers(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((4,), index)
"""


class Row(NamedTuple):
    """One fetch."""

    values: dict[str, int]

    def __getitem__(self, name: Any) -> int:  # type: ignore[override]
        return self.values[name]

    @property
    def wall(self) -> int:
        return self["end"] - self["start"]

    @property
    def blocked(self) -> int:
        return self.wall - self["cpu"] - max(0, self["run_queue"])

    def largest(self, part: str = "wall") -> str:
        return max(wire.STAGES, key=lambda stage: self[f"{stage}_{part}"])


class Ran(NamedTuple):
    """What a script printed and what was recorded of it."""

    out: str
    error: str
    rows: list[Row]
    frames: list[wire.Frame]

    def texts(self, kind: int) -> list[dict[str, Any]]:
        return [frame.text() for frame in self.frames if frame.kind == kind]

    def detailed(self) -> list[Row]:
        return [row for row in self.rows if row["detailed"]]


def run(folder: Path, script: str, *, recorded: bool = True, **options: object) -> Ran:
    """Run the script below ``START`` in a folder; it must end well."""
    path = folder / "script.py"
    path.write_text(START + textwrap.dedent(script))
    spool = folder / "spool"
    spool.mkdir(exist_ok=True)
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    if recorded:
        given = ",".join(
            f'"{key}":{value}' for key, value in {"windows": "false", **options}.items()
        )
        environment |= {
            "PYTHONPATH": str(SITE),
            wire.SPOOL: str(spool),
            wire.OPTIONS: "{" + given + "}",
        }
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frames: list[wire.Frame] = []
    for log in sorted(spool.glob("*.log")):
        frames += wire.frames(log.read_bytes())[0]
    rows = [
        Row(dict(zip(wire.BATCH_FIELDS, values, strict=True)))
        for frame in frames
        if frame.kind == wire.BATCHES
        for values in wire.BATCH.iter_unpack(frame.body)
    ]
    return Ran(done.stdout, done.stderr, rows, frames)
