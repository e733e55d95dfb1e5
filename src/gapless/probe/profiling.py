"""What torch's profiler costs: to start and stop, and for each event that it records."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, Series, figure, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import Figure, Room

_CALLS = 600  # below the 1,023 launches that a queue takes before a launch waits
_WARM = 50
_STARTS = 12


def starting(room: Room) -> Iterator[Figure]:
    """Host clock around the start and the stop of ``torch.profiler.profile`` with nothing in it.

    profiler.first: the first start in this process, which loads what it needs; profiler.start and
    profiler.stop: those after it. With the GPU's activities where a GPU is measured.
    """
    wanted = ["CPU"] if room.device is None else ["CPU", "CUDA"]
    first, _ = _empty(wanted)
    yield figure("profiler.first", [first], first / 1e9)
    began = time.perf_counter()
    pairs = [_empty(wanted)]
    while time.monotonic() < room.until and len(pairs) < _STARTS:
        pairs.append(_empty(wanted))
    spent = time.perf_counter() - began
    for name, values in zip(("profiler.start", "profiler.stop"), zip(*pairs)):
        yield figure(name, values, spent)


def _empty(activities: Sequence[str]) -> tuple[float, float]:
    session = _session(activities, {})
    began = time.perf_counter_ns()
    session.__enter__()
    started = time.perf_counter_ns()
    session.__exit__(None, None, None)
    return started - began, time.perf_counter_ns() - started


def _session(activities: Sequence[str], options: dict[str, bool]) -> Any:
    from torch.profiler import ProfilerActivity, profile

    wanted = [getattr(ProfilerActivity, name) for name in activities]
    return profile(activities=wanted, **options)  # type: ignore[arg-type]


def operators(room: Room) -> Iterator[Figure]:
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
    acts: dict[str, Any] = {name: partial(_under, "cpu", ["CPU"], on) for name, on in modes.items()}
    acts["none"] = partial(_under, "cpu", [], {})
    found = rounds(acts, room.until)
    for name in modes:
        yield figure(name, _less(found, name, "none"), found[name].spent_s)


def launches(room: Room) -> Iterator[Figure]:
    """Host clock around 600 ``x.neg_()`` of one float on the GPU, into an empty queue.

    profiler.launch: the profiler with the GPU's activities, less without them: what recording a
    launch call and its kernel adds to the host. profiler.gpu_op: with, less no profiler: the
    operator's event as well. In turns, for each call.
    """
    acts: dict[str, Any] = {
        "both": partial(_under, "cuda", ["CPU", "CUDA"], {}),
        "cpu": partial(_under, "cuda", ["CPU"], {}),
        "none": partial(_under, "cuda", [], {}),
    }
    found = rounds(acts, room.until)
    yield figure("profiler.launch", _less(found, "both", "cpu"), found["both"].spent_s)
    yield figure("profiler.gpu_op", _less(found, "both", "none"), found["both"].spent_s)


def _less(found: dict[str, Series], more: str, less: str) -> list[float]:
    return [one - two for one, two in zip(found[more].values, found[less].values)]


def _under(device: str, activities: Sequence[str], options: dict[str, bool]) -> float:
    import torch

    value = torch.zeros(1, device=device)
    if device == "cuda":
        torch.cuda.synchronize()
    if not activities:
        return _each(value)
    with _session(activities, options):
        return _each(value)


def _each(value: Any) -> float:
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
    Measurement("profiler", starting, dict.fromkeys(_STARTING, NS), 0.4),
    Measurement("profiler", operators, dict.fromkeys(_OPERATORS, NS), 0.6),
    Measurement("profiler", launches, dict.fromkeys(_LAUNCHES, NS), 0.8, gpu=True),
)
