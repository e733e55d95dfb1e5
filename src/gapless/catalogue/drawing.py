"""Traces drawn as text: one row a lane, one column a millisecond.

::

    step    aaaaaaaaaabbbbbbbbbb
    main    wwwwwwlLsswwwwwwlLss
    gpu     ......mmee......mmee
    worker  rddddc....rddddc....

``.`` is nothing; a run of one letter is one event, and the letters of each lane are below. ``step``
marks steps by any letters (of three or more the first is left out as warm-up). Rows of one name
are one lane: what lies inside another frame is drawn in a second row. The n-th launch of all
threads (``l``, ``L``) starts the n-th kernel, the n-th copy call (``c``, ``i``) the n-th copy; one
that lasts until its copy has ended blocks. ``worker`` shows the fetches for the waits ``w``, the
n-th stretch for the n-th wait. ``accounting.partition`` charges the trace as drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from textwrap import dedent
from typing import Final

import numpy as np

from gapless.accounting import account, partition
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.catalogue.traced import traced
from gapless.model import category as c
from gapless.model.leaf import LEAF
from gapless.model.seen import Seen
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import Tables
from gapless.model.trace import Device, Events, GpuColumns, Health, MemoryColumns, Trace, Track

MILLISECOND: Final = 1_000_000
_LOADER: Final = "enumerate(DataLoader)#_{}ProcessingDataLoaderIter.__next__"
HOST: Final[Mapping[str, tuple[int, str]]] = {  # letter → category and name
    "p": (c.PYTHON_FUNCTION, "train.py(1): main"),
    "o": (c.CPU_OP, "aten::add"),
    "b": (c.CPU_OP, "autograd::engine::evaluate_function: MulBackward0"),
    "w": (c.USER_ANNOTATION, _LOADER.format("Multi")),
    "W": (c.USER_ANNOTATION, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    "t": (c.USER_ANNOTATION, "gapless:iter"),  # an epoch begins: workers start
    "l": (c.RUNTIME, "cudaLaunchKernel"),
    "L": (c.RUNTIME, "cudaLaunchKernel"),  # the next call, right behind
    "c": (c.RUNTIME, "cudaMemcpyAsync"),  # inside aten::to
    "i": (c.RUNTIME, "cudaMemcpyAsync"),  # inside aten::item
    "s": (c.RUNTIME, "cudaStreamSynchronize"),
    "S": (c.RUNTIME, "cudaDeviceSynchronize"),
    "z": (c.USER_ANNOTATION, "Optimizer.step#AdamW.step"),
    "0": (c.USER_ANNOTATION, "Optimizer.zero_grad#AdamW.zero_grad"),
    "g": (c.MARKER, "Python GC"),
    "a": (c.RUNTIME, "cudaMalloc"),
    "f": (c.RUNTIME, "cudaFree"),
    "j": (c.PYTHON_FUNCTION, "torch/_dynamo/convert_frame.py(1): compile"),
    "k": (c.PYTHON_FUNCTION, "torch/serialization.py(1): save"),
    "y": (c.USER_ANNOTATION, "gapless:logging"),
    "e": (c.USER_ANNOTATION, "gapless:eval"),
    "r": (c.CPU_OP, "c10d::allreduce_"),
}
GPU: Final[Mapping[str, str]] = {  # letter → name
    "k": "a_kernel",
    "m": "cutlass_tensorop_gemm",
    "q": "ampere_sgemm_128x64_nn",  # fp32, which could use tensor cores
    "e": "vectorized_elementwise_kernel",
    "n": "batch_norm_collect_statistics_kernel",
    "x": "nchwToNhwcKernel",
    "g": "index_elementwise_kernel",
    "d": "fused_dropout_kernel_philox",
    "z": "multi_tensor_apply_kernel",
    "y": "CatArrayBatchedCopy",
    "r": "ncclDevKernel_AllReduce_Sum_f32",
}
COPY: Final[Mapping[str, str]] = {
    "h": "Memcpy HtoD (Pageable -> Device)",
    "H": "Memcpy HtoD (Pinned -> Device)",
    "d": "Memcpy DtoH (Device -> Pageable)",
    "D": "Memcpy DtoH (Device -> Pinned)",
    "p": "Memcpy PtoP (Device -> Device)",
}
WORKER: Final[Mapping[str, str]] = {
    "r": "read",
    "d": "decode",
    "a": "augment",
    "t": "tokenise",
    "c": "collate",
    "o": "other",
}
_AROUND: Final = {"c": "aten::to", "i": "aten::item"}
_LAUNCHES: Final = ("lL", "ci")  # of kernels; of copies
_DEVICES: Final = {"gpu": (GPU, c.KERNEL), "copy": (COPY, c.MEMCPY)}
_DEVICE: Final = Device(0, "NVIDIA H200", (9, 0), 141 << 30, 132)
_NOT_HOST: Final = ("step", "worker", *_DEVICES)
_HEALTHY: Final = StudyHealth(
    source="drawing",
    events=0,
    dropped=0,
    repaired=0,
    truncated=False,
    resolution_ns=1,
    launches_recorded=None,
    clock_error_ns=0,
    details=(),
    notes=(),
)


@dataclass(frozen=True)
class Run:
    """A letter, repeated: one event of a lane, in ns."""

    lane: str
    letter: str
    start: int
    end: int


@dataclass(frozen=True)
class _Event:
    start: int
    end: int
    name: str
    category: int
    lane: str
    correlation: int = -1


@dataclass(frozen=True)
class Drawn:
    """A drawing as a trace, and what workers did while they were waited for."""

    trace: Trace
    stages: Stages


def runs(drawing: str) -> tuple[Run, ...]:
    """Read the runs of a drawing, by lane in its order. Raises ``ValueError`` for what is none."""
    found: list[Run] = []
    for row in dedent(drawing).splitlines():
        if not row.strip():
            continue
        lane, *cells = row.split()
        if len(cells) != 1:
            raise ValueError(f"a row is the name of a lane and its cells, and not {row!r}")
        at = 0
        for letter, group in groupby(cells[0]):
            start, at = at, at + len(list(group))
            if letter != ".":
                _check(lane, letter)
                found.append(Run(lane, letter, start * MILLISECOND, at * MILLISECOND))
    return tuple(found)


def draw(drawing: str) -> Drawn:
    """Give the trace of a drawing. Raises ``ValueError`` where it means none."""
    every = runs(drawing)
    events = [*_steps(every), *_host(every), *_activities(every)]
    waits = [at for at, one in enumerate(events) if one.name == HOST["w"][1]]
    return Drawn(_trace(events), _stages(every, waits))


def seen(drawing: str) -> Seen:
    """Give what a rule sees of a drawing that is a foreign trace: its account, and no tables."""
    drawn = draw(drawing)
    study = Study(
        run=RunInfo(("drawing.json",), (0,), 1, None, ()),
        health=_HEALTHY,
        steps=None,
        account=account([partition(drawn.trace, stages=drawn.stages)]),
        tables=Tables((), (), (), (), (), (), ()),
    )
    return Seen(study, traced(study))


def _check(lane: str, letter: str) -> None:
    known = {"gpu": GPU, "copy": COPY, "worker": WORKER, "step": None}.get(lane, HOST)
    if known is not None and letter not in known:
        raise ValueError(f"{letter!r} is no letter of the lane {lane!r}: {''.join(known)}")


def _steps(every: Sequence[Run]) -> list[_Event]:
    found = [one for one in every if one.lane == "step"]
    return [
        _Event(one.start, one.end, f"ProfilerStep#{number}", c.USER_ANNOTATION, "main")
        for number, one in enumerate(found)
    ]


def _host(every: Sequence[Run]) -> list[_Event]:
    """Draw the frames of threads; launches get the numbers of what they start."""
    found: list[_Event] = []
    counts = [0, 0]
    for one in sorted(every, key=lambda run: run.start):
        if one.lane in _NOT_HOST:
            continue
        kind, name = HOST[one.letter]
        correlation = -1
        for at, letters in enumerate(_LAUNCHES):
            if one.letter in letters:
                counts[at] += 1
                correlation = _number(at, counts[at])
        if one.letter in _AROUND:
            found.append(_Event(one.start, one.end, _AROUND[one.letter], c.CPU_OP, one.lane))
        found.append(_Event(one.start, one.end, name, kind, one.lane, correlation))
    return found


def _activities(every: Sequence[Run]) -> list[_Event]:
    found: list[_Event] = []
    hosts = [one for one in every if one.lane not in _NOT_HOST]
    for at, (lane, (names, kind)) in enumerate(_DEVICES.items()):
        mine = sorted((one for one in every if one.lane == lane), key=lambda run: run.start)
        calls = sum(one.letter in _LAUNCHES[at] for one in hosts)
        if len(mine) > calls:
            raise ValueError(f"{len(mine)} runs of the lane {lane!r}, and {calls} calls for them")
        found += [
            _Event(one.start, one.end, names[one.letter], kind, lane, _number(at, number))
            for number, one in enumerate(mine, 1)
        ]
    return found


def _number(at: int, count: int) -> int:
    """Give the correlation of the n-th launch of a kind: odd of kernels, even of copies."""
    return 2 * count + at


def _stages(every: Sequence[Run], waits: Sequence[int]) -> Stages:
    mine = [one for one in every if one.lane == "worker"]
    if not mine:
        return NO_STAGES
    fetch = np.cumsum([0, *(b.start > a.end for a, b in pairwise(mine))])
    if int(fetch[-1]) >= len(waits):
        raise ValueError(f"{int(fetch[-1]) + 1} fetches, and {len(waits)} waits for them")
    return Stages(
        wait=np.array(waits, np.int64)[fetch],
        start=np.array([one.start for one in mine], np.int64),
        end=np.array([one.end for one in mine], np.int64),
        leaf=np.array([LEAF[f"idle.data.{WORKER[one.letter]}"] for one in mine], np.int64),
        culprit=np.full(len(mine), -1),
    )


def _trace(events: Sequence[_Event]) -> Trace:
    names = sorted({one.name for one in events})
    lanes = sorted({one.lane for one in events})
    on_device = [one.lane in _DEVICES for one in events]
    rows = np.cumsum(on_device) - 1
    many = sum(on_device)
    nothing, none = np.empty(0, np.int64), np.full(many, -1)
    streams = [7 + list(_DEVICES).index(one.lane) for one in events if one.lane in _DEVICES]
    return Trace(
        path="drawing.json",
        origin_ns=0,
        events=Events(
            start=np.array([one.start for one in events], np.int64),
            end=np.array([one.end for one in events], np.int64),
            name=np.array([names.index(one.name) for one in events], np.int32),
            category=np.array([one.category for one in events], np.uint8),
            track=np.array([lanes.index(one.lane) for one in events], np.int32),
            correlation=np.array([one.correlation for one in events], np.int64),
            detail=np.where(on_device, rows, -1).astype(np.int32),
        ),
        gpu=GpuColumns(
            device=np.zeros(many, np.int32),
            stream=np.array(streams, np.int64),
            graph_node=none,
            bytes=none,
            geometry=none.astype(np.int32),
            collective=none.astype(np.int32),
            wait_event=none,
            wait_stream=none,
        ),
        memory=MemoryColumns(
            nothing, nothing, nothing, nothing, nothing.astype(np.int32), nothing.astype(np.int32)
        ),
        names=tuple(names),
        tracks=tuple(Track(0 if one in _DEVICES else 1, one) for one in lanes),
        shapes=(),
        geometries=(),
        collectives=(),
        devices=(_DEVICE,),
        distributed=None,
        rank=0,
        versions=(),
        health=Health("kineto"),
        written_events=len(events),
    )
