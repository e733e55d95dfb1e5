"""A recorded run that goes on: its logs grow as the recorder would let them grow."""

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gapless import wire
from tests.store import drawing

MS = 10**6
STEP_NS, WAIT_NS, FETCH_NS = 40 * MS, 30 * MS, 70 * MS
WORKERS = 2


@dataclass
class GrowingRun:
    """A training that waits 30 of each 40 ms for two workers."""

    folder: Path
    pid: int = field(default_factory=os.getpid)  # of the training: a process that is there
    started_ns: int = 0
    steps: int = 0
    fetched: int = 0  # batches

    def begin(self) -> Path:
        """Write the folder, the facts, and nothing that stepped."""
        self.started_ns = time.monotonic_ns() - 60 * 10**9
        drawing.write_run(
            self.folder, {}, status="running", ended=None, exit_code=None, host=platform.node(),
            launcher=os.getpid(), started=self.started_ns, started_unix_ns=time.time_ns(),
        )  # fmt: skip
        self._append("rank0.log", drawing.process(self.pid, start_ns=self.started_ns))
        self._append("rank0.log", drawing.fact("optimizer", 0, name="SGD"))
        self._append(
            "rank0.log", drawing.fact("loader", 0, batch_size=4, num_workers=2, prefetch_factor=2)
        )
        for worker in range(WORKERS):
            head = drawing.process(
                self.pid + 1 + worker, "worker", worker=worker, loader=0, start_ns=self.started_ns
            )
            self._append(f"rank0-worker{worker}.log", head)
        return self.folder

    def grow(self, steps: int, until_ns: int | None = None) -> None:
        """Write some steps, the last of which ends now, and one batch more than was handed over."""
        end_ns = time.monotonic_ns() if until_ns is None else until_ns
        first_ns = end_ns - steps * STEP_NS
        if not self.steps:
            self._append(
                "rank0.log",
                drawing.marks((wire.ITER, 0, 0, 11, first_ns - STEP_NS, first_ns - STEP_NS + 1, 0)),
            )
        for number in range(self.steps, self.steps + steps):
            begin_ns = first_ns + (number - self.steps) * STEP_NS
            wait = (wire.NEXT, 0, 0, 11, begin_ns, begin_ns + WAIT_NS, number)
            step = drawing.step(number, begin_ns + STEP_NS - MS, begin_ns + STEP_NS)
            self._append("rank0.log", drawing.marks(wait, step))
            self._fetch(number, begin_ns + WAIT_NS - MS)
        self.steps += steps
        self._fetch(self.steps, end_ns)

    def end(self) -> None:
        """Let the command end well."""
        self._append("rank0.log", wire.text_frame(wire.END, {"ns": time.monotonic_ns()}))
        manifest = json.loads((self.folder / "run.json").read_text())
        changes = {"status": "finished", "exit_code": 0, "ended": time.monotonic_ns()}
        (self.folder / "run.json").write_text(json.dumps(manifest | changes))

    def tell(self, kind: int, value: Mapping[str, object]) -> None:
        """Write a frame of the training process."""
        self._append("rank0.log", wire.text_frame(kind, dict(value)))

    def _fetch(self, number: int, end_ns: int) -> None:
        if number < self.fetched:
            return
        self.fetched = number + 1
        stages = {"detailed": 1, "decode_wall": FETCH_NS - 10 * MS, "collate_wall": 10 * MS}
        place = {"worker": number % WORKERS, "sequence": number // WORKERS}
        batch = drawing.batch(end_ns - FETCH_NS, end_ns, cpu=FETCH_NS, **place, **stages)
        self._append(f"rank0-worker{number % WORKERS}.log", drawing.batches(batch))

    def _append(self, name: str, frame: bytes) -> None:
        with (self.folder / "logs" / name).open("ab") as log:
            log.write(frame)
