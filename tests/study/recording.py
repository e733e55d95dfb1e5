"""Recordings by hand: a few lines say what processes did, in milliseconds."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gapless import wire
from gapless.model.recording import (
    Batches,
    Fact,
    Manifest,
    Marks,
    Process,
    Recording,
    Samples,
    StackCount,
    Sums,
    Unseen,
    Window,
)

MS: Final = 1_000_000
MAIN: Final = 1  # the training thread
KINDS: Final = {name: kind for kind, name in enumerate(wire.MARKS_NAMES)}


@dataclass
class Log:
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
    unseen: list[Unseen] = field(default_factory=list[Unseen])
    sums: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    batch_sums: list[dict[str, int]] = field(default_factory=list[dict[str, int]])

    def mark(self, kind: str, start: float, end: float | None = None, **rest: int) -> None:
        """Note a mark: subject, value, flags, thread as in ``wire``."""
        stop = start if end is None else end
        self.marks.append(
            (
                KINDS[kind],
                rest.get("flags", 0),
                rest.get("subject", 0),
                rest.get("thread", MAIN),
                round(start * MS),
                round(stop * MS),
                rest.get("value", -1),
            )
        )

    def steps(self, *ends: float, subject: int = 0) -> None:
        """Note calls of an optimizer that end at these times and take a millisecond each."""
        for end in ends:
            self.mark("step", end - 1, end, subject=subject)

    def fetch(self, start: float, end: float, **rest: int) -> None:
        """Note a fetch; stages as ``decode=3`` in ms, other columns by their name."""
        row = dict.fromkeys(wire.BATCH_FIELDS, -1)
        row |= {"loader": 0 if self.loader is None else self.loader, "sequence": 0}
        row |= {"worker": -1 if self.worker is None else self.worker, "samples": 1, "detailed": 0}
        row |= {"start": round(start * MS), "end": round(end * MS)}
        stages = {stage: rest.pop(stage) for stage in wire.STAGES if stage in rest}
        if stages:
            row |= dict.fromkeys(
                (f"{one}_{part}" for one in wire.STAGES for part in ("wall", "cpu")), 0
            )
            row |= {f"{stage}_wall": ms * MS for stage, ms in stages.items()} | {"detailed": 1}
        self.rows.append(row | rest)

    def summed(self, kind: str, stretch: tuple[float, float], count: int, **rest: float) -> None:
        """Note marks of a stretch as a sum; ``total`` and ``longest`` in ms."""
        row = {"kind": KINDS[kind], "flags": 0, "subject": 0, "thread": MAIN, "value": -1}
        times = {"start": stretch[0], "end": stretch[1], "total": rest.pop("total", 0)}
        times["longest"] = rest.pop("longest", times["total"])
        row |= {name: round(ms * MS) for name, ms in times.items()} | {"count": count}
        self.sums.append(row | {name: int(value) for name, value in rest.items()})

    def fetches(self, stretch: tuple[float, float], count: int, wall: float, **rest: int) -> None:
        """Note fetches of a stretch as a sum; stages as in ``fetch``."""
        row = dict.fromkeys(wire.BATCH_SUM_FIELDS, -1)
        row |= {"loader": 0 if self.loader is None else self.loader, "count": count}
        row |= {"worker": -1 if self.worker is None else self.worker, "samples": count}
        row |= {"random": 0, "looked": 0, "detailed": 0, "wall": round(wall * MS)}
        stages = {f"{stage}_wall": rest.pop(stage) * MS for stage in wire.STAGES if stage in rest}
        if stages:
            row |= dict.fromkeys(wire.BATCH_FIELDS[14:], 0) | stages | {"detailed": count}
            row |= {"detailed_wall": row["wall"], "detailed_samples": count}
        row |= {name: round(ms * MS) for name, ms in zip(("start", "end"), stretch, strict=True)}
        self.batch_sums.append(row | rest)

    def fact(self, noun: str, number: int, place: tuple[str, int] | None, **values: object) -> None:
        """Note a fact."""
        file, line = place or (None, None)
        self.facts.append(Fact(noun, number, file, line, "main" if file else None, values))

    def process(self) -> Process:
        """Give the process."""
        marks = np.array(self.marks, np.int64).reshape(-1, 7)
        rows = [[row[name] for name in wire.BATCH_FIELDS] for row in self.rows]
        batches = np.array(rows, np.int64).reshape(-1, len(wire.BATCH_FIELDS))
        columns = {name: batches[:, at] for at, name in enumerate(wire.BATCH_FIELDS)}
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
            marks=Marks(**{name: marks[:, at] for at, name in enumerate(wire.MARK_FIELDS)}),
            batches=Batches(columns),
            facts=tuple(self.facts),
            unseen=tuple(self.unseen),
            stacks=tuple(self.stacks),
            windows=tuple(self.windows),
            counters=(),
            read={},
            written=(),
            mark_sums=_sums(self.sums, wire.MARK_SUM_FIELDS),
            batch_sums=_sums(self.batch_sums, wire.BATCH_SUM_FIELDS),
        )


def _sums(rows: list[dict[str, int]], names: tuple[str, ...]) -> Sums | None:
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in names}
    return Sums(columns) if rows else None


def recording(
    *logs: Log,
    path: str = "run",
    ended: float | None = 1000,
    series: dict[str, tuple[list[float], list[float]]] | None = None,
    **manifest: object,
) -> Recording:
    """Give a recording of some processes; times of ``series`` are milliseconds, too."""
    told: dict[str, Any] = {
        "id": "2026-11-21T10-15-03-3f9a",
        "command": ("python", "train.py"),
        "folder": "project",
        "host": "box",
        "gapless": "0.1.0",
        "started_unix_ns": 1_795_256_103_000_000_000,
        "started": 0,
        "ended": None if ended is None else round(ended * MS),
        "exit_code": 0,
        "status": "finished",
        **manifest,
    }
    columns = {
        name: (np.array([round(one * MS) for one in at], np.int64), tuple(values))
        for name, (at, values) in (series or {}).items()
    }
    return Recording(
        path=path,
        manifest=Manifest(**told),
        processes=tuple(log.process() for log in logs),
        samples=Samples(columns, ()),
        unseen=(),
    )
