"""Traces drawn by hand: frames on host threads, activities on devices."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from gapless.accounting.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.model import category as c
from gapless.model.leaf import LEAF
from gapless.model.ledger import Ledger
from gapless.model.trace import (
    Collective,
    Device,
    Events,
    Geometry,
    GpuColumns,
    Health,
    MemoryColumns,
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


@dataclass(frozen=True)
class Frame:
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


@dataclass(frozen=True)
class Call:
    """A launch call."""

    start: int
    end: int
    thread: str = "m"
    name: str = ""
    id: str = ""


@dataclass(frozen=True)
class Act:
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
    what: Collective | None = None
    bytes: int = -1
    geometry: Geometry | None = None


@dataclass(frozen=True)
class Synced:
    """A device's record of a synchronisation or of a stream that waits for an event."""

    start: int
    end: int
    correlation: int
    stream: int = 7
    device: int = 0
    name: str = "Stream Sync"
    wait_event: int = -1
    wait_stream: int = -1


@dataclass(frozen=True)
class Drawing:
    """What to draw. ``steps``: boundaries, or (start, end) of each ProfilerStep#; or none."""

    acts: Sequence[Act] = ()
    frames: Sequence[Frame] = ()
    steps: Sequence[int] | Sequence[tuple[int, int]] = ()
    overhead: Sequence[tuple[int, int]] = ()
    syncs: Sequence[Synced] = ()
    devices: tuple[Device, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    rank: int | None = None
    origin: int = 0


@dataclass(frozen=True)
class Drawn:
    """A trace, what else ``partition`` takes, and the name of each event."""

    trace: Trace
    arrivals: Arrivals
    stages: Stages
    who: tuple[str, ...]


@dataclass
class _Pen:
    """Columns in the making."""

    rows: list[tuple[int, int, int, int, int, int, int]]
    who: list[str]
    gpu: list[tuple[int, int, int, int, int, int, int, int]]
    names: dict[str, int]
    tracks: dict[tuple[int | str, int | str], int]
    shapes: list[Shape]
    geometries: list[Geometry]
    collectives: list[Collective]

    def event(
        self,
        span: tuple[int, int],
        name: str,
        kind: int,
        track: tuple[int | str, int | str],
        *,
        who: str,
        correlation: int = -1,
        detail: int = -1,
    ) -> int:
        at = self.tracks.setdefault(track, len(self.tracks))
        number = self.names.setdefault(name, len(self.names))
        self.rows.append((*span, number, kind, at, correlation, detail))
        self.who.append(who)
        return len(self.rows) - 1


def draw(drawing: Drawing) -> Drawn:
    """Make the trace of a drawing: frames first, then calls, activities, the profiler."""
    pen = _Pen([], [], [], {}, {}, [], [], [])
    stages, arrivals = list[tuple[int, ...]](), list[tuple[int, int]]()
    for frame in drawing.frames:
        stages += _frame(pen, frame)
    calls = _calls(pen, drawing.acts)
    for node, act in enumerate(drawing.acts):
        event = _activity(pen, act, calls[node], node)
        if act.last_rank is not None:
            arrivals.append((event, act.last_rank))
    for sync in drawing.syncs:
        pen.gpu.append(
            (sync.device, sync.stream, -1, -1, -1, -1, sync.wait_event, sync.wait_stream)
        )
        span, detail = (sync.start, sync.end), len(pen.gpu) - 1
        at = (sync.device, sync.stream)
        pen.event(span, sync.name, c.SYNC, at, who="", correlation=sync.correlation, detail=detail)
    for number, span in enumerate(_step_spans(drawing.steps)):
        pen.event(span, f"ProfilerStep#{number}", c.USER_ANNOTATION, (1, "m"), who="step")
    for span in drawing.overhead:
        pen.event(span, "Buffer Flush", c.OVERHEAD, (-1, 0), who="overhead")
    return Drawn(_trace(pen, drawing), _arrivals(arrivals), _stages(stages), tuple(pen.who))


def _frame(pen: _Pen, frame: Frame) -> list[tuple[int, ...]]:
    kind, name = _TAGS[frame.tag]
    detail = -1
    if frame.shape is not None:
        pen.shapes.append(frame.shape)
        detail = len(pen.shapes) - 1
    who = frame.id or f"{frame.tag}@{frame.start}"
    event = pen.event(
        (frame.start, frame.end),
        frame.name or name,
        frame.category if frame.category >= 0 else kind,
        (1, frame.thread),
        who=who,
        correlation=frame.correlation,
        detail=detail,
    )
    out: list[tuple[int, ...]] = []
    for start, end, stage in frame.stages:
        made = pen.event((start, end), stage, c.OTHER, (2, "worker"), who=f"{who}:{stage}")
        out.append((event, start, end, LEAF[f"idle.data.{stage}"], made))
    return out


def _calls(pen: _Pen, acts: Sequence[Act]) -> list[int]:
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
        who = call.id or f"L@{call.start}"
        pen.event(
            (call.start, call.end),
            call.name or name or "cudaLaunchKernel",
            c.RUNTIME,
            (1, call.thread),
            who=who,
            correlation=number,
        )
    return ids


def _activity(pen: _Pen, act: Act, correlation: int, node: int) -> int:
    geometry = collective = -1
    if act.geometry is not None:
        pen.geometries.append(act.geometry)
        geometry = len(pen.geometries) - 1
    if act.what is not None:
        pen.collectives.append(act.what)
        collective = len(pen.collectives) - 1
    graph = node if act.graph else -1
    pen.gpu.append((act.device, act.stream, graph, act.bytes, geometry, collective, -1, -1))
    return pen.event(
        (act.start, act.end),
        act.name or _ACTIVITIES[act.kind],
        _CATEGORIES.get(act.kind, c.KERNEL),
        (act.device, act.stream),
        who=act.id,
        correlation=correlation,
        detail=len(pen.gpu) - 1,
    )


def _step_spans(steps: Sequence[int] | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    spans = [step for step in steps if isinstance(step, tuple)]
    if spans:
        return spans
    bounds = [step for step in steps if isinstance(step, int)]
    return list(itertools.pairwise(bounds))


def _trace(pen: _Pen, drawing: Drawing) -> Trace:
    rows = np.array(pen.rows, np.int64).reshape(-1, 7)
    gpu = np.array(pen.gpu, np.int64).reshape(-1, 8)
    none = np.empty(0, np.int64)
    return Trace(
        path="drawing.json",
        origin_ns=drawing.origin,
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
            device=gpu[:, 0].astype(np.int32),
            stream=gpu[:, 1].copy(),
            graph_node=gpu[:, 2].copy(),
            bytes=gpu[:, 3].copy(),
            geometry=gpu[:, 4].astype(np.int32),
            collective=gpu[:, 5].astype(np.int32),
            wait_event=gpu[:, 6].copy(),
            wait_stream=gpu[:, 7].copy(),
        ),
        memory=MemoryColumns(none, none, none, none, none.astype(np.int32), none.astype(np.int32)),
        names=tuple(pen.names),
        tracks=tuple(Track(pid, tid) for pid, tid in pen.tracks),
        shapes=tuple(pen.shapes),
        geometries=tuple(pen.geometries),
        collectives=tuple(pen.collectives),
        devices=drawing.devices,
        distributed=None,
        rank=drawing.rank,
        versions=(),
        health=Health("kineto", lost=drawing.lost),
        written_events=len(rows),
    )


def _arrivals(found: list[tuple[int, int]]) -> Arrivals:
    if not found:
        return NO_ARRIVALS
    columns = np.array(found, np.int64)
    return Arrivals(
        columns[:, 0], columns[:, 1], np.zeros(len(found), np.int64), 0, 0, by_order=False
    )


def _stages(found: list[tuple[int, ...]]) -> Stages:
    if not found:
        return NO_STAGES
    columns = np.array(found, np.int64)
    return Stages(*(columns[:, at] for at in range(5)))


def culprits(ledger: Ledger, leaf: str, who: tuple[str, ...]) -> set[str]:
    """Give the names of the events blamed for a leaf; "" where none is."""
    blamed = np.unique(ledger.culprit[ledger.leaf == LEAF[leaf]])
    return {who[event] if event >= 0 else "" for event in blamed.tolist()}
