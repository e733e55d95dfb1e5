"""The assembled columns and the ends of the file → a trace."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gapless.formats import batch as b
from gapless.formats import metadata as m
from gapless.formats import tables
from gapless.formats.assemble import Assembly
from gapless.model.trace import (
    Count,
    Events,
    GpuColumns,
    Health,
    MemoryColumns,
    Trace,
    Track,
)


@dataclass(frozen=True)
class Ends:
    """What is left of a file when its events have been read."""

    head: bytes
    rest: bytes | None
    torn: int
    damage: str | None


def trace(path: Path, assembly: Assembly, ends: Ends) -> Trace:
    metadata = m.parse(ends.head, ends.rest or b"")
    events = assembly.take("events", b.EVENTS)
    gpu = assembly.take("gpu", b.GPU)
    memory = assembly.take("memory", b.MEMORY)
    distributed = m.distributed(metadata)
    for column in (*events.values(), *gpu.values(), *memory.values()):
        column.flags.writeable = False
    process: dict[Any, str] = {}
    thread: dict[Any, str] = {}
    for pid, tid, kind, text in assembly.labels:
        if kind == "process_name":
            process[pid] = text
        else:
            thread[pid, tid] = text
    return Trace(
        path=str(path),
        origin_ns=metadata.base_ns or 0,
        events=Events(**events),
        gpu=GpuColumns(**gpu),
        memory=MemoryColumns(**memory),
        names=tuple(assembly.names),
        tracks=tuple(Track(p, t, process.get(p), thread.get((p, t))) for p, t in assembly.tracks),
        shapes=tuple(map(tables.shape, assembly.shapes)),
        geometries=tuple(map(tables.geometry, assembly.geometries)),
        collectives=tuple(map(tables.collective, assembly.collectives)),
        devices=m.devices(metadata),
        distributed=distributed,
        rank=distributed.rank if distributed else None,
        versions=m.versions(metadata),
        health=Health(
            source="kineto" if metadata.is_kineto else "chrome",
            dropped=tuple(Count(k, v) for k, v in assembly.dropped.items()),
            repaired=tuple(Count(k, v) for k, v in assembly.repaired.items()),
            truncated=ends.rest is None,
        ),
        written_events=assembly.written,
    )
