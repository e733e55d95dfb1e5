"""A trace of rows: what every drawing becomes, that of a rule's figure as that of a test."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gapless.model.trace import Events, GpuColumns, Health, MemoryColumns, Trace, Track

# start, end, name, category, track, correlation, detail: as in ``Events``
EventRow = tuple[int, int, int, int, int, int, int]
# device, stream, graph node, bytes, geometry, collective, wait event, wait stream: ``GpuColumns``
GpuRow = tuple[int, int, int, int, int, int, int, int]


def build_trace(
    events: Sequence[EventRow],
    gpu: Sequence[GpuRow],
    names: Iterable[str],
    tracks: Iterable[Track],
    **fields: Any,  # noqa: ANN401 - of the trace: devices, shapes, rank …
) -> Trace:
    """Return the trace of these rows; what is not given is empty, as in a file without it."""
    rows = np.array(events, np.int64).reshape(-1, len(Events.__struct_fields__))
    gpu_rows = np.array(gpu, np.int64).reshape(-1, len(GpuColumns.__struct_fields__))
    empty = np.empty(0, np.int64)
    absent: dict[str, Any] = {
        "path": "drawing.json",
        "origin_ns": 0,
        "shapes": (),
        "geometries": (),
        "collectives": (),
        "devices": (),
        "distributed": None,
        "rank": 0,
        "versions": (),
        "health": Health("kineto"),
    }
    return Trace(
        events=Events(
            start=rows[:, 0].copy(),
            end=rows[:, 1].copy(),
            name=rows[:, 2].astype(np.int32),
            category=rows[:, 3].astype(np.uint8),
            track=rows[:, 4].astype(np.int32),
            correlation=rows[:, 5].copy(),
            detail=rows[:, 6].astype(np.int32),
        ),
        gpu=GpuColumns(
            device=gpu_rows[:, 0].astype(np.int32),
            stream=gpu_rows[:, 1].copy(),
            graph_node=gpu_rows[:, 2].copy(),
            bytes=gpu_rows[:, 3].copy(),
            geometry=gpu_rows[:, 4].astype(np.int32),
            collective=gpu_rows[:, 5].astype(np.int32),
            wait_event=gpu_rows[:, 6].copy(),
            wait_stream=gpu_rows[:, 7].copy(),
        ),
        memory=MemoryColumns(
            empty, empty, empty, empty, empty.astype(np.int32), empty.astype(np.int32)
        ),
        names=tuple(names),
        tracks=tuple(tracks),
        written_events=len(rows),
        **(absent | fields),
    )
