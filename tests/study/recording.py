"""Recordings by hand: a few lines say what processes did, in milliseconds."""

from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from gapless import wire
from gapless.model.recording import (
    Batches,
    Fact,
    JobPlace,
    Manifest,
    Marks,
    Process,
    Recording,
    Samples,
    StackCount,
    Sums,
    Unobserved,
    Window,
)

MS: Final = 1_000_000
MAIN: Final = 1  # the training thread
KINDS: Final = {name: kind for kind, name in enumerate(wire.MARKS_NAMES)}


class Log(Struct):
    """What one process records."""

    role: str = "training"
    pid: int = 10
    rank: int | None = 0
    world: int | None = None
    worker: int | None = None
    loader: int | None = None
    start: float = 0
    end: float | None = 1000
    marks: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    rows: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    facts: list[Fact] = field(default_factory=list[Fact])
    windows: list[Window] = field(default_factory=list[Window])
    stacks: list[StackCount] = field(default_factory=list[StackCount])
    rare_stacks: list[StackCount] = field(default_factory=list[StackCount])
    unobserved: list[Unobserved] = field(default_factory=list[Unobserved])
    sums: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    batch_sums: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    job: JobPlace | None = None
    host: str | None = None

    def add_mark(self, kind: str, start: float, end: float | None = None, **columns: int) -> None:
        """Note a mark: subject, value, flags, thread as in ``wire``."""
        stop = start if end is None else end
        self.marks.append(
            (
                KINDS[kind],
                columns.get("flags", 0),
                columns.get("subject", 0),
                columns.get("thread", MAIN),
                round(start * MS),
                round(stop * MS),
                columns.get("value", -1),
            )
        )

    def add_steps(self, *ends: float, subject: int = 0) -> None:
        """Note calls of an optimizer that end at these times and take a millisecond each."""
        for end in ends:
            self.add_mark("step", end - 1, end, subject=subject)

    def add_fetch(self, start: float, end: float, **columns: int) -> None:
        """Note a fetch; stages as ``decode=3`` in ms, other columns by their name."""
        row = dict.fromkeys(wire.BATCH_FIELDS, -1)
        row |= {"loader": 0 if self.loader is None else self.loader, "sequence": 0}
        row |= {"worker": -1 if self.worker is None else self.worker, "samples": 1, "detailed": 0}
        row |= {"start": round(start * MS), "end": round(end * MS)}
        stages = {stage: columns.pop(stage) for stage in wire.STAGES if stage in columns}
        if stages:
            row |= dict.fromkeys(
                (f"{stage}_{clock}" for stage in wire.STAGES for clock in ("wall", "cpu")), 0
            )
            row |= {f"{stage}_wall": ms * MS for stage, ms in stages.items()} | {"detailed": 1}
        self.rows.append(row | columns)

    def add_mark_sum(
        self, kind: str, stretch: tuple[float, float], count: int, **columns: float
    ) -> None:
        """Note marks of a stretch as a sum; ``total`` and ``longest`` in ms."""
        row = {"kind": KINDS[kind], "flags": 0, "subject": 0, "thread": MAIN, "value": -1}
        times = {"start": stretch[0], "end": stretch[1], "total": columns.pop("total", 0)}
        times["longest"] = columns.pop("longest", times["total"])
        row |= {name: round(ms * MS) for name, ms in times.items()} | {"count": count}
        self.sums.append(row | {name: int(value) for name, value in columns.items()})

    def add_fetch_sum(
        self, stretch: tuple[float, float], count: int, wall: float, **columns: int
    ) -> None:
        """Note fetches of a stretch as a sum; stages as in ``fetch``."""
        row = dict.fromkeys(wire.BATCH_SUM_FIELDS, -1)
        row |= {"loader": 0 if self.loader is None else self.loader, "count": count}
        row |= {"worker": -1 if self.worker is None else self.worker, "samples": count}
        row |= {"random": 0, "looked": 0, "detailed": 0, "wall": round(wall * MS)}
        stages = {
            f"{stage}_wall": columns.pop(stage) * MS for stage in wire.STAGES if stage in columns
        }
        if stages:
            row |= dict.fromkeys(wire.BATCH_FIELDS[14:], 0) | stages | {"detailed": count}
            row |= {"detailed_wall": row["wall"], "detailed_samples": count}
        row |= {name: round(ms * MS) for name, ms in zip(("start", "end"), stretch, strict=True)}
        self.batch_sums.append(row | columns)

    def add_fact(
        self, noun: str, number: int, location: tuple[str, int] | None, **values: object
    ) -> None:
        """Note a fact."""
        file, line = location or (None, None)
        self.facts.append(Fact(noun, number, file, line, "main" if file else None, values))

    def to_process(self) -> Process:
        """Return the process."""
        marks = np.array(self.marks, np.int64).reshape(-1, 7)
        rows = [[row[name] for name in wire.BATCH_FIELDS] for row in self.rows]
        batches = np.array(rows, np.int64).reshape(-1, len(wire.BATCH_FIELDS))
        columns = {name: batches[:, index] for index, name in enumerate(wire.BATCH_FIELDS)}
        return Process(
            pid=self.pid,
            role=self.role,
            rank=self.rank,
            world=self.world,
            worker=self.worker,
            loader=self.loader,
            start=round(self.start * MS),
            end=None if self.end is None else round(self.end * MS),
            argv=("train.py",),
            versions={"python": "3.12.3", "torch": "2.13.0"},
            marks=Marks(**{name: marks[:, index] for index, name in enumerate(wire.MARK_FIELDS)}),
            batches=Batches(columns),
            facts=tuple(self.facts),
            unobserved=tuple(self.unobserved),
            stacks=tuple(stack for stack in self.stacks if stack.thread != "setup"),
            setup_stacks=tuple(stack for stack in self.stacks if stack.thread == "setup"),
            rare_stacks=tuple(self.rare_stacks),
            windows=tuple(self.windows),
            counters=(),
            read={},
            written=(),
            mark_sums=_sums(self.sums, wire.MARK_SUM_FIELDS),
            batch_sums=_sums(self.batch_sums, wire.BATCH_SUM_FIELDS),
            job=self.job,
            host=self.host,
        )


def _sums(rows: list[dict[str, int]], names: tuple[str, ...]) -> Sums | None:
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in names}
    return Sums(columns) if rows else None


def recording(
    *logs: Log,
    path: str = "run",
    ended_ms: float | None = 1000,
    series: dict[str, tuple[list[float], list[float]]] | None = None,
    **manifest: object,
) -> Recording:
    """Return a recording of some processes; times of ``series`` are milliseconds, too."""
    manifest_values: dict[str, Any] = {
        "id": "2026-11-21T10-15-03-3f9a",
        "command": ("python", "train.py"),
        "folder": "project",
        "host": "box",
        "gapless": "0.1.0",
        "started_unix_ns": 1_795_256_103_000_000_000,
        "started": 0,
        "ended": None if ended_ms is None else round(ended_ms * MS),
        "exit_code": 0,
        "status": "finished",
        **manifest,
    }
    columns = {
        name: (np.array([round(ms * MS) for ms in times_ms], np.int64), tuple(values))
        for name, (times_ms, values) in (series or {}).items()
    }
    return Recording(
        path=path,
        manifest=Manifest(**manifest_values),
        processes=tuple(log.to_process() for log in logs),
        samples=Samples(columns, ()),
        unobserved=(),
    )
