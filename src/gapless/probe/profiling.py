"""What torch's profiler costs: to start and stop, and for each event that it records."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, RoundSeries, make_figure, run_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure

_CALLS = 600  # below the 1,023 launches that a queue takes before a launch waits
_WARM = 50
_STARTS = 12


def measure_starts(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around the start and the stop of ``torch.profiler.profile`` with nothing in it.

    profiler.first: the first start in this process, which loads what it needs; profiler.start and
    profiler.stop: those after it. With the GPU's activities where a GPU is measured.
    """
    activities = ["CPU"] if conditions.device is None else ["CPU", "CUDA"]
    first_ns, _ = _time_empty(activities)
    yield make_figure("profiler.first", [first_ns], first_ns / 1e9)
    began = time.perf_counter()
    pairs = [_time_empty(activities)]
    while time.monotonic() < conditions.until and len(pairs) < _STARTS:
        pairs.append(_time_empty(activities))
    spent = time.perf_counter() - began
    for name, values in zip(("profiler.start", "profiler.stop"), zip(*pairs)):
        yield make_figure(name, values, spent)


def _time_empty(activities: Sequence[str]) -> tuple[float, float]:
    session = _make_session(activities, {})
    began = time.perf_counter_ns()
    session.__enter__()
    started = time.perf_counter_ns()
    session.__exit__(None, None, None)
    return started - began, time.perf_counter_ns() - started


def _make_session(activities: Sequence[str], options: dict[str, bool]) -> Any:
    from torch.profiler import ProfilerActivity, profile

    members = [getattr(ProfilerActivity, name) for name in activities]
    return profile(activities=members, **options)  # type: ignore[arg-type]


def measure_operators(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around 600 ``x.neg_()`` of one float on the processor, each one operator event.

    With the profiler less without, in turns, for each call: profiler.op (as it is),
    profiler.op_shapes (``record_shapes``), profiler.op_stack (``with_stack``: Python's call of
    the method is an event, too). Starting and stopping the profiler is not counted.
    """
    modes: dict[str, dict[str, bool]] = {
        "profiler.op": {},
        "profiler.op_shapes": {"record_shapes": True},
        "profiler.op_stack": {"with_stack": True},
    }
    acts: dict[str, Any] = {
        name: partial(_time_profiled, "cpu", ["CPU"], on) for name, on in modes.items()
    }
    acts["none"] = partial(_time_profiled, "cpu", [], {})
    series_by_mode = run_rounds(acts, conditions.until)
    for name in modes:
        yield make_figure(
            name, _subtract(series_by_mode, name, "none"), series_by_mode[name].spent_s
        )


def measure_launches(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around 600 ``x.neg_()`` of one float on the GPU, into an empty queue.

    profiler.launch: the profiler with the GPU's activities, less without them: what recording a
    launch call and its kernel adds to the host. profiler.gpu_op: with, less no profiler: the
    operator's event as well. In turns, for each call.
    """
    acts: dict[str, Any] = {
        "both": partial(_time_profiled, "cuda", ["CPU", "CUDA"], {}),
        "cpu": partial(_time_profiled, "cuda", ["CPU"], {}),
        "none": partial(_time_profiled, "cuda", [], {}),
    }
    series_by_mode = run_rounds(acts, conditions.until)
    yield make_figure(
        "profiler.launch", _subtract(series_by_mode, "both", "cpu"), series_by_mode["both"].spent_s
    )
    yield make_figure(
        "profiler.gpu_op", _subtract(series_by_mode, "both", "none"), series_by_mode["both"].spent_s
    )


def _subtract(series_by_mode: dict[str, RoundSeries], minuend: str, subtrahend: str) -> list[float]:
    return [
        minuend_ns - subtrahend_ns
        for minuend_ns, subtrahend_ns in zip(
            series_by_mode[minuend].values, series_by_mode[subtrahend].values
        )
    ]


def _time_profiled(device: str, activities: Sequence[str], options: dict[str, bool]) -> float:
    import torch

    value = torch.zeros(1, device=device)
    if device == "cuda":
        torch.cuda.synchronize()
    if not activities:
        return _time_calls(value)
    with _make_session(activities, options):
        return _time_calls(value)


def _time_calls(value: Any) -> float:
    for _ in range(_WARM):
        value.neg_()
    began = time.perf_counter_ns()
    for _ in range(_CALLS):
        value.neg_()
    return (time.perf_counter_ns() - began) / _CALLS


_STARTING = ("profiler.first", "profiler.start", "profiler.stop")
_OPERATORS = ("profiler.op", "profiler.op_shapes", "profiler.op_stack")
_LAUNCHES = ("profiler.launch", "profiler.gpu_op")
MEASUREMENTS = (
    Measurement("profiler", measure_starts, dict.fromkeys(_STARTING, NS), 0.4),
    Measurement("profiler", measure_operators, dict.fromkeys(_OPERATORS, NS), 0.6),
    Measurement("profiler", measure_launches, dict.fromkeys(_LAUNCHES, NS), 0.8, gpu=True),
)
