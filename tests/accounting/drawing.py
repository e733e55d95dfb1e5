"""Traces drawn by hand: frames on host threads, activities on devices."""

import itertools
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from gapless.accounting.host.stages import NO_STAGES, Stages
from gapless.accounting.ranks.collectives import NO_ARRIVALS, Arrivals
from gapless.catalogue.examples.trace_rows import EventRow, GpuRow, build_trace
from gapless.model import category as c
from gapless.model.leaf import LEAF
from gapless.model.ledger import Ledger
from gapless.model.trace import (
    Collective,
    Device,
    Geometry,
    Health,
    Shape,
    Trace,
    Track,
)

Kind = Literal["compute", "comm", "h2d", "d2h", "p2p", "memset", "dtod"]
US: Final = 1000
_LOADER: Final = "enumerate(DataLoader)#_{}ProcessingDataLoaderIter.__next__"
_TAGS: Final[dict[str, tuple[int, str]]] = {  # tag → category and name of a frame that has it
    "op": (c.CPU_OP, "aten::x"),
    "to": (c.CPU_OP, "aten::to"),
    "cpu-node": (c.CPU_OP, "autograd::engine::evaluate_function: XBackward0"),
    "sync": (c.RUNTIME, "cudaStreamSynchronize"),
    "alloc": (c.RUNTIME, "cudaMalloc"),
    "free": (c.RUNTIME, "cudaFree"),
    "compile": (c.PYTHON_FUNCTION, "torch/_dynamo/convert_frame.py(1): f"),
    "gc": (c.MARKER, "Python GC"),
    "data": (c.USER_ANNOTATION, _LOADER.format("Multi")),
    "data0": (c.USER_ANNOTATION, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    "io": (c.PYTHON_FUNCTION, "torch/serialization.py(1): save"),
    "h2d": (c.CPU_OP, "aten::pin_memory"),
    "comm": (c.CPU_OP, "c10d::allreduce_"),
    "opt": (c.USER_ANNOTATION, "Optimizer.step#SGD.step"),
    "zero": (c.USER_ANNOTATION, "Optimizer.zero_grad#SGD.zero_grad"),
    "py": (c.PYTHON_FUNCTION, "train.py(1): f"),
    "profiler": (c.MARKER, "gapless: probe"),
    "range": (c.USER_ANNOTATION, "my range"),
}
_CATEGORIES: Final = {
    "h2d": c.MEMCPY,
    "d2h": c.MEMCPY,
    "p2p": c.MEMCPY,
    "dtod": c.MEMCPY,
    "memset": c.MEMSET,
}
_ACTIVITIES: Final = {
    "compute": "tensorop_gemm",
    "comm": "ncclDevKernel_AllReduce",
    "h2d": "Memcpy HtoD (Pinned -> Device)",
    "d2h": "Memcpy DtoH (Device -> Pinned)",
    "p2p": "Memcpy PtoP (Device -> Device)",
    "dtod": "Memcpy DtoD (Device -> Device)",
    "memset": "Memset (Device)",
}


class Frame(Struct, frozen=True):
    """An event of a host thread. ``name`` and ``category`` stand in place of those of the tag."""

    tag: str
    start: int
    end: int
    thread: str = "m"
    id: str = ""
    stages: tuple[tuple[int, int, str], ...] = ()  # of a data frame: what its worker did
    name: str = ""
    category: int = -1
    shape: Shape | None = None
    correlation: int = -1  # of a synchronisation that the device recorded too


class Call(Struct, frozen=True):
    """A launch call."""

    start: int
    end: int
    thread: str = "m"
    name: str = ""
    id: str = ""


class Act(Struct, frozen=True):
    """What a device ran; without a call its launch was not recorded."""

    id: str
    start: int
    end: int
    call: Call | None
    kind: Kind = "compute"
    name: str = ""
    stream: int = 7
    graph: str = ""  # the graph launch that it belongs to: its activities share one call
    last_rank: int | None = None  # when the last rank came to this collective
    device: int = 0
    collective: Collective | None = None
    bytes: int = -1
    geometry: Geometry | None = None


class SyncRecord(Struct, frozen=True):
    """A device's record of a synchronisation or of a stream that waits for an event."""

    start: int
    end: int
    correlation: int
    stream: int = 7
    device: int = 0
    name: str = "Stream Sync"
    wait_event: int = -1
    wait_stream: int = -1


class Drawing(Struct, frozen=True):
    """What to draw. ``steps``: boundaries, or (start, end) of each ProfilerStep#; or none."""

    acts: Sequence[Act] = ()
    frames: Sequence[Frame] = ()
    steps: Sequence[int] | Sequence[tuple[int, int]] = ()
    overhead: Sequence[tuple[int, int]] = ()
    syncs: Sequence[SyncRecord] = ()
    devices: tuple[Device, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    rank: int | None = None
    origin: int = 0


class DrawnInputs(Struct, frozen=True):
    """A trace, what else ``partition`` takes, and the name of each event."""

    trace: Trace
    arrivals: Arrivals
    stages: Stages
    event_names: tuple[str, ...]


class _Columns(Struct):
    """Columns in the making."""

    rows: list[EventRow]
    event_names: list[str]
    gpu: list[GpuRow]
    names: dict[str, int]
    tracks: dict[tuple[int | str, int | str], int]
    shapes: list[Shape]
    geometries: list[Geometry]
    collectives: list[Collective]

    def add_event(
        self,
        span: tuple[int, int],
        name: str,
        kind: int,
        track: tuple[int | str, int | str],
        *,
        event_name: str,
        correlation: int = -1,
        detail: int = -1,
    ) -> int:
        track_index = self.tracks.setdefault(track, len(self.tracks))
        name_index = self.names.setdefault(name, len(self.names))
        self.rows.append((*span, name_index, kind, track_index, correlation, detail))
        self.event_names.append(event_name)
        return len(self.rows) - 1


def draw(drawing: Drawing) -> DrawnInputs:
    """Make the trace of a drawing: frames first, then calls, activities, the profiler."""
    columns = _Columns([], [], [], {}, {}, [], [], [])
    stages, arrivals = list[tuple[int, ...]](), list[tuple[int, int]]()
    for frame in drawing.frames:
        stages += _draw_frame(columns, frame)
    calls = _draw_calls(columns, drawing.acts)
    for node, act in enumerate(drawing.acts):
        event = _draw_activity(columns, act, calls[node], node)
        if act.last_rank is not None:
            arrivals.append((event, act.last_rank))
    for sync in drawing.syncs:
        columns.gpu.append(
            (sync.device, sync.stream, -1, -1, -1, -1, sync.wait_event, sync.wait_stream)
        )
        span, detail = (sync.start, sync.end), len(columns.gpu) - 1
        track = (sync.device, sync.stream)
        columns.add_event(
            span,
            sync.name,
            c.SYNC,
            track,
            event_name="",
            correlation=sync.correlation,
            detail=detail,
        )
    for number, span in enumerate(_step_spans(drawing.steps)):
        columns.add_event(
            span, f"ProfilerStep#{number}", c.USER_ANNOTATION, (1, "m"), event_name="step"
        )
    for span in drawing.overhead:
        columns.add_event(span, "Buffer Flush", c.OVERHEAD, (-1, 0), event_name="overhead")
    return DrawnInputs(
        _make_trace(columns, drawing),
        _make_arrivals(arrivals),
        _make_stages(stages),
        tuple(columns.event_names),
    )


def _draw_frame(columns: _Columns, frame: Frame) -> list[tuple[int, ...]]:
    kind, name = _TAGS[frame.tag]
    detail = -1
    if frame.shape is not None:
        columns.shapes.append(frame.shape)
        detail = len(columns.shapes) - 1
    event_name = frame.id or f"{frame.tag}@{frame.start}"
    event = columns.add_event(
        (frame.start, frame.end),
        frame.name or name,
        frame.category if frame.category >= 0 else kind,
        (1, frame.thread),
        event_name=event_name,
        correlation=frame.correlation,
        detail=detail,
    )
    stage_rows: list[tuple[int, ...]] = []
    for start, end, stage in frame.stages:
        stage_event = columns.add_event(
            (start, end), stage, c.OTHER_KIND, (2, "worker"), event_name=f"{event_name}:{stage}"
        )
        stage_rows.append((event, start, end, LEAF[f"idle.data.{stage}"], stage_event))
    return stage_rows


def _draw_calls(columns: _Columns, acts: Sequence[Act]) -> list[int]:
    """Draw the launch calls and give each activity its correlation id."""
    graphs: dict[str, int] = {}
    ids: list[int] = []
    for number, act in enumerate(acts, 1):
        if act.graph in graphs:
            ids.append(graphs[act.graph])
            continue
        ids.append(number)
        if act.graph:
            graphs[act.graph] = number
        if act.call is None:
            continue
        call, copies = act.call, act.kind in _CATEGORIES
        name = "cudaGraphLaunch" if act.graph else "cudaMemcpyAsync" if copies else ""
        event_name = call.id or f"L@{call.start}"
        columns.add_event(
            (call.start, call.end),
            call.name or name or "cudaLaunchKernel",
            c.RUNTIME,
            (1, call.thread),
            event_name=event_name,
            correlation=number,
        )
    return ids


def _draw_activity(columns: _Columns, act: Act, correlation: int, node: int) -> int:
    geometry = collective = -1
    if act.geometry is not None:
        columns.geometries.append(act.geometry)
        geometry = len(columns.geometries) - 1
    if act.collective is not None:
        columns.collectives.append(act.collective)
        collective = len(columns.collectives) - 1
    graph = node if act.graph else -1
    columns.gpu.append((act.device, act.stream, graph, act.bytes, geometry, collective, -1, -1))
    return columns.add_event(
        (act.start, act.end),
        act.name or _ACTIVITIES[act.kind],
        _CATEGORIES.get(act.kind, c.KERNEL),
        (act.device, act.stream),
        event_name=act.id,
        correlation=correlation,
        detail=len(columns.gpu) - 1,
    )


def _step_spans(steps: Sequence[int] | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    spans = [step for step in steps if isinstance(step, tuple)]
    if spans:
        return spans
    bounds = [step for step in steps if isinstance(step, int)]
    return list(itertools.pairwise(bounds))


def _make_trace(columns: _Columns, drawing: Drawing) -> Trace:
    return build_trace(
        columns.rows,
        columns.gpu,
        columns.names,
        [Track(pid, tid) for pid, tid in columns.tracks],
        origin_ns=drawing.origin,
        shapes=tuple(columns.shapes),
        geometries=tuple(columns.geometries),
        collectives=tuple(columns.collectives),
        devices=drawing.devices,
        rank=drawing.rank,
        health=Health("kineto", lost=drawing.lost),
    )


def _make_arrivals(rows: list[tuple[int, int]]) -> Arrivals:
    if not rows:
        return NO_ARRIVALS
    columns = np.array(rows, np.int64)
    return Arrivals(
        columns[:, 0], columns[:, 1], np.zeros(len(rows), np.int64), 0, 0, by_order=False
    )


def _make_stages(rows: list[tuple[int, ...]]) -> Stages:
    if not rows:
        return NO_STAGES
    columns = np.array(rows, np.int64)
    return Stages(*(columns[:, index] for index in range(5)))


def culprit_names(ledger: Ledger, leaf: str, event_names: tuple[str, ...]) -> set[str]:
    """Return the names of the events blamed for a leaf; "" where none is."""
    blamed_events = np.unique(ledger.culprit[ledger.leaf == LEAF[leaf]])
    return {event_names[event] if event >= 0 else "" for event in blamed_events.tolist()}
