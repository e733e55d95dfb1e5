"""Run a script of a test with the recorder inside, and read the rows of its fetches."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless import payload, wire
from tests import preloaded
from tests.payload import watching

if TYPE_CHECKING:
    from collections.abc import Mapping

SITE = Path(payload.__file__).parent / "site"
PRELUDE = """
import os, random, sys, time, warnings
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.full((4,), index)
"""


class FetchRow(NamedTuple):
    """One fetch."""

    values: Mapping[str, int]

    def value_of(self, name: str) -> int:
        return self.values[name]

    @property
    def wall_ns(self) -> int:
        return self.value_of("end") - self.value_of("start")

    @property
    def blocked_ns(self) -> int:
        return self.wall_ns - self.value_of("cpu") - max(0, self.value_of("run_queue"))

    def longest_stage(self, measure: str = "wall") -> str:
        """Name the stage that took most."""
        return max(wire.STAGES, key=lambda stage: self.value_of(f"{stage}_{measure}"))


class RecordedRun(NamedTuple):
    """What a script printed and what was recorded of it."""

    out: str
    error: str
    rows: list[FetchRow]
    frames: list[wire.Frame]

    def texts(self, kind: int) -> list[dict[str, Any]]:
        return [frame.text() for frame in self.frames if frame.kind == kind]


def run_script(
    folder: Path, script: str, *, is_recorded: bool = True, **options: object
) -> RecordedRun:
    """Run the script below ``START`` in a folder; it must end well."""
    path = folder / "script.py"
    path.write_text(PRELUDE + textwrap.dedent(script))
    spool = folder / "spool"
    spool.mkdir(exist_ok=True)
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    if is_recorded:
        environment |= {
            "PYTHONPATH": str(SITE),
            wire.SPOOL: str(spool),
            wire.OPTIONS: json.dumps({"windows": False, **options}),
        }
    if is_recorded:
        outcome = watching.run_command([sys.executable, str(path)], folder, environment)
    else:
        outcome = preloaded.run([str(path)], folder, environment)
    assert outcome.code == 0, outcome.err
    frames: list[wire.Frame] = []
    for log in sorted(spool.glob("*.log")):
        frames += wire.frames(log.read_bytes())[0]
    rows = [
        FetchRow(dict(zip(wire.BATCH_FIELDS, values, strict=True)))
        for frame in frames
        if frame.kind == wire.BATCHES
        for values in wire.BATCH.iter_unpack(frame.body)
    ]
    return RecordedRun(outcome.out, outcome.err, rows, frames)
