"""Traces drawn as text: one row for each lane, one column for each millisecond.

::

    step    aaaaaaaaaabbbbbbbbbb
    main    wwwwwwlLsswwwwwwlLss
    gpu     ......mmee......mmee
    worker  rddddc....rddddc....

``.`` is nothing; a run of one letter is one event; the letters of each lane are defined below.
``step`` marks steps by any letters (of three or more, the first is left out as warm-up). Rows of
the same name are one lane: a frame inside another is drawn in a second row. The n-th launch of all
threads (``l``, ``L``) starts the n-th kernel, the n-th copy call (``c``, ``i``) the n-th copy; a
call that lasts until its copy has ended blocks. ``worker`` shows the fetches for the waits ``w``,
the n-th stretch for the n-th wait. ``accounting.partition`` accounts for the trace as drawn.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from textwrap import dedent
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting import partition, sum_ledgers
from gapless.accounting.host.stages import NO_STAGES, Stages
from gapless.catalogue.examples.trace_rows import build_trace
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model import category as c
from gapless.model.evidence import Evidence
from gapless.model.leaf import LEAF
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import EMPTY_TABLES
from gapless.model.trace import Device, Trace, Track

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
    "L": (c.RUNTIME, "cudaLaunchKernel"),  # the next call, right after
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
_ENCLOSING_CALLS: Final = {"c": "aten::to", "i": "aten::item"}
_LAUNCHES: Final = ("lL", "ci")  # of kernels; of copies
_DEVICE_LANES: Final = {"gpu": (GPU, c.KERNEL), "copy": (COPY, c.MEMCPY)}
_DEVICE: Final = Device(0, "NVIDIA H200", (9, 0), 141 << 30)
_NON_HOST_LANES: Final = ("step", "worker", *_DEVICE_LANES)
_HEALTH: Final = StudyHealth(
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


class LetterRun(Struct, frozen=True):
    """A letter, repeated: an event of a lane, in ns."""

    lane: str
    letter: str
    start: int
    end: int


class _Event(Struct, frozen=True):
    start: int
    end: int
    name: str
    category: int
    lane: str
    correlation: int = -1


class DrawnTrace(Struct, frozen=True):
    """A drawing as a trace, and what workers did while they were waited for."""

    trace: Trace
    stages: Stages


def parse_runs(drawing: str) -> tuple[LetterRun, ...]:
    """Return the runs of a drawing by lane, in order. Raises ``ValueError`` if it is malformed."""
    runs: list[LetterRun] = []
    for row in dedent(drawing).splitlines():
        if not row.strip():
            continue
        lane, *cells = row.split()
        if len(cells) != 1:
            raise ValueError(f"a row is the name of a lane and its cells, and not {row!r}")
        column = 0
        for letter, group in groupby(cells[0]):
            start, column = column, column + len(list(group))
            if letter != ".":
                _check_letter(lane, letter)
                runs.append(LetterRun(lane, letter, start * MILLISECOND, column * MILLISECOND))
    return tuple(runs)


def draw_trace(drawing: str) -> DrawnTrace:
    """Return the trace of a drawing. Raises ``ValueError`` if it is inconsistent."""
    runs = parse_runs(drawing)
    events = [*_draw_steps(runs), *_draw_host(runs), *_draw_activities(runs)]
    waits = [index for index, event in enumerate(events) if event.name == HOST["w"][1]]
    return DrawnTrace(_build_trace(events), _draw_stages(runs, waits))


def foreign_evidence(drawing: str) -> Evidence:
    """Return the evidence of a drawing as a foreign trace: its account, and no tables."""
    drawn_trace = draw_trace(drawing)
    study = Study(
        run=RunInfo(("drawing.json",), (0,), 1, None, ()),
        health=_HEALTH,
        steps=None,
        account=sum_ledgers([partition(drawn_trace.trace, stages=drawn_trace.stages)]),
        tables=EMPTY_TABLES,
    )
    return Evidence(study, infer_facts(study))


def _check_letter(lane: str, letter: str) -> None:
    letters = {"gpu": GPU, "copy": COPY, "worker": WORKER, "step": None}.get(lane, HOST)
    if letters is not None and letter not in letters:
        raise ValueError(f"{letter!r} is no letter of the lane {lane!r}: {''.join(letters)}")


def _draw_steps(runs: Sequence[LetterRun]) -> list[_Event]:
    step_runs = [run for run in runs if run.lane == "step"]
    return [
        _Event(run.start, run.end, f"ProfilerStep#{number}", c.USER_ANNOTATION, "main")
        for number, run in enumerate(step_runs)
    ]


def _draw_host(runs: Sequence[LetterRun]) -> list[_Event]:
    """Draw the frames of threads; launches get the correlation of what they start."""
    events: list[_Event] = []
    launch_counts = [0, 0]
    for run in sorted(runs, key=lambda run: run.start):
        if run.lane in _NON_HOST_LANES:
            continue
        category, name = HOST[run.letter]
        correlation = -1
        for kind, letters in enumerate(_LAUNCHES):
            if run.letter in letters:
                launch_counts[kind] += 1
                correlation = _correlation_of(kind, launch_counts[kind])
        if run.letter in _ENCLOSING_CALLS:
            events.append(
                _Event(run.start, run.end, _ENCLOSING_CALLS[run.letter], c.CPU_OP, run.lane)
            )
        events.append(_Event(run.start, run.end, name, category, run.lane, correlation))
    return events


def _draw_activities(runs: Sequence[LetterRun]) -> list[_Event]:
    events: list[_Event] = []
    host_runs = [run for run in runs if run.lane not in _NON_HOST_LANES]
    for kind, (lane, (names, category)) in enumerate(_DEVICE_LANES.items()):
        lane_runs = sorted((run for run in runs if run.lane == lane), key=lambda run: run.start)
        n_calls = sum(run.letter in _LAUNCHES[kind] for run in host_runs)
        if len(lane_runs) > n_calls:
            raise ValueError(
                f"{len(lane_runs)} runs of the lane {lane!r}, and {n_calls} calls for them"
            )
        events += [
            _Event(
                run.start, run.end, names[run.letter], category, lane, _correlation_of(kind, number)
            )
            for number, run in enumerate(lane_runs, 1)
        ]
    return events


def _correlation_of(kind: int, count: int) -> int:
    """Return the correlation of the n-th launch of a kind: odd of kernels, even of copies."""
    return 2 * count + kind


def _draw_stages(runs: Sequence[LetterRun], waits: Sequence[int]) -> Stages:
    worker_runs = [run for run in runs if run.lane == "worker"]
    if not worker_runs:
        return NO_STAGES
    fetch_numbers = np.cumsum(
        [0, *(following.start > previous.end for previous, following in pairwise(worker_runs))]
    )
    if int(fetch_numbers[-1]) >= len(waits):
        raise ValueError(f"{int(fetch_numbers[-1]) + 1} fetches, and {len(waits)} waits for them")
    return Stages(
        wait=np.array(waits, np.int64)[fetch_numbers],
        start=np.array([run.start for run in worker_runs], np.int64),
        end=np.array([run.end for run in worker_runs], np.int64),
        leaf=np.array([LEAF[f"idle.data.{WORKER[run.letter]}"] for run in worker_runs], np.int64),
        culprit=np.full(len(worker_runs), -1),
    )


def _build_trace(events: Sequence[_Event]) -> Trace:
    names = sorted({event.name for event in events})
    lanes = sorted({event.lane for event in events})
    device_lanes = list(_DEVICE_LANES)
    gpu = [
        (0, 7 + device_lanes.index(event.lane), -1, -1, -1, -1, -1, -1)
        for event in events
        if event.lane in device_lanes
    ]
    gpu_rows = iter(range(len(gpu)))
    rows = [
        (
            event.start,
            event.end,
            names.index(event.name),
            event.category,
            lanes.index(event.lane),
            event.correlation,
            next(gpu_rows) if event.lane in device_lanes else -1,
        )
        for event in events
    ]
    tracks = [Track(0 if lane in device_lanes else 1, lane) for lane in lanes]
    return build_trace(rows, gpu, names, tracks, devices=(_DEVICE,))
