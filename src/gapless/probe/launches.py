"""The way from the host to the GPU and back: launches, gaps, waits. A GPU's alone."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .figures import NS, Measurement, make_absent, make_figure, run_rounds, spin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure

_BURST = 200  # launches in a row: far below the 1,023 that a queue takes before a launch waits
_LONG = 10_000_000  # cycles of the GPU, some 5 ms: what is launched meanwhile queues up
_SHORT = 100_000  # cycles, some 50 µs
_PROFILE_REPEATS = 40  # of each kind in a profile
_FLOATS = 64


class ProfileSpan(NamedTuple):
    """An event of a profile: ns."""

    name: str
    start: int
    end: int
    correlation: int


def measure_calls(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around 200 launches in a row into an empty queue, for each one.

    launch.call: ``torch.cuda._sleep(0)``, little more than the launch of an empty kernel;
    launch.op: ``x.neg_()`` of 64 floats, with what torch does around the launch; launch.round:
    an empty kernel and the wait for it on an idle GPU; sync.item: ``x.item()`` of a value that
    is ready on an idle GPU, copy included.
    """
    import torch

    sleep: Any = partial(torch.cuda._sleep, 0)  # noqa: SLF001
    small = torch.zeros(_FLOATS, device="cuda")
    value = torch.zeros((), device="cuda")
    stream = torch.cuda.current_stream()

    def launch_and_wait() -> None:
        sleep()
        stream.synchronize()

    acts = {
        "launch.call": partial(_time_each, sleep, _BURST),
        "launch.op": partial(_time_each, small.neg_, _BURST),
        "launch.round": partial(_time_each, launch_and_wait, _PROFILE_REPEATS),
        "sync.item": partial(_time_each, value.item, _PROFILE_REPEATS),
    }
    for name, series in run_rounds(acts, conditions.until).items():
        yield make_figure(name, series.values, series.spent_s)


def _time_each(act: Callable[[], object], times: int) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for _ in range(times):
        act()
    return (time.perf_counter_ns() - began) / times


def measure_period(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """CUDA events around 200 kernels of 64 floats that had queued up behind a long one, for each.

    kernel.period is thus the time of a tiny kernel and of the gap behind it, without a profiler.
    """
    import torch

    small = torch.zeros(_FLOATS, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_queued() -> float:
        spin(_LONG)
        start.record()
        for _ in range(_BURST):
            small.neg_()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e6 / _BURST

    series = run_rounds({"kernel.period": time_queued}, conditions.until)["kernel.period"]
    yield make_figure("kernel.period", series.values, series.spent_s)


def measure_timeline(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Spans of one profile (torch.profiler, CUPTI's clock), as predictions read them from traces.

    launch.lag: from the end of the launch call to the start of the kernel, the GPU being idle at
    the call's start; kernel.empty: an empty kernel; kernel.gap: from the end of a kernel to the
    start of the next in the same stream, if that one was launched before; sync.stream,
    sync.event, sync.device: from the end of the last kernel to the return of the call that waited
    for it. The spread is that of single events.
    """
    del conditions
    import torch
    from torch.profiler import ProfilerActivity, profile

    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        _run_profiled(torch)
    launches, kernels, syncs = _read_spans(profiler)
    spent = time.perf_counter() - began
    if not kernels:
        for name in _TIMELINE:
            yield make_absent(name, "the profiler showed no kernels here")
        return
    for name, values in _read_constants(launches, kernels, syncs).items():
        yield make_figure(name, values, spent)


_SYNCS = ("sync.stream", "sync.event", "sync.device")
_TIMELINE: dict[str, str] = dict.fromkeys(("launch.lag", "kernel.empty", "kernel.gap", *_SYNCS), NS)


def _run_profiled(torch: Any) -> None:
    """Do what is to be seen in the profile."""
    small = torch.zeros(_FLOATS, device="cuda")
    event = torch.cuda.Event()
    stream = torch.cuda.current_stream()
    for wait in (stream.synchronize, event.synchronize, torch.cuda.synchronize):
        for _ in range(_PROFILE_REPEATS):
            spin(_SHORT)
            event.record()
            wait()
            spin(0)
            torch.cuda.synchronize()
    for _ in range(2):
        spin(_LONG)
        for _ in range(_BURST // 2):
            small.neg_()
        torch.cuda.synchronize()


def _read_spans(profiler: Any) -> tuple[list[ProfileSpan], list[ProfileSpan], list[ProfileSpan]]:
    """Return launches, kernels, synchronising calls of a profile, each in the order of starts."""
    launches: list[ProfileSpan] = []
    kernels: list[ProfileSpan] = []
    syncs: list[ProfileSpan] = []
    for event in profiler.profiler.kineto_results.events():
        start = event.start_ns()
        name = event.name()
        span = ProfileSpan(name, start, start + event.duration_ns(), event.correlation_id())
        if event.device_type().name != "CPU":
            if not name.startswith(("Mem", "mem", "Context", "Event", "Stream", "Device")):
                kernels.append(span)
        elif "LaunchKernel" in name:
            launches.append(span)
        elif name.startswith("cuda") and name.endswith("Synchronize"):
            syncs.append(span)
    return tuple(sorted(spans, key=lambda span: span.start) for spans in (launches, kernels, syncs))  # type: ignore[return-value]


def _read_constants(
    launches: Sequence[ProfileSpan], kernels: Sequence[ProfileSpan], syncs: Sequence[ProfileSpan]
) -> dict[str, list[float]]:
    """Take the constants from the spans of one stream."""
    constants: dict[str, list[float]] = {name: [] for name in _TIMELINE}
    launches_by_id = {launch.correlation: launch for launch in launches}
    before = None
    for kernel in kernels:
        call = launches_by_id.get(kernel.correlation)
        if call is not None:
            if before is None or before.end <= call.start:
                constants["launch.lag"].append(kernel.start - call.end)
            elif call.end < before.end:
                constants["kernel.gap"].append(kernel.start - before.end)
        before = kernel
    sleeps = [kernel.end - kernel.start for kernel in kernels if "spin" in kernel.name]
    constants["kernel.empty"] = [took for took in sleeps if took < 2 * min(sleeps)]
    for call in syncs:
        name = "sync." + call.name[len("cuda") : -len("Synchronize")].lower()
        last_end_ns = max((kernel.end for kernel in kernels if kernel.start < call.end), default=0)
        if name in constants and call.start < last_end_ns <= call.end:
            constants[name].append(call.end - last_end_ns)
    return constants


MEASUREMENTS = (
    Measurement(
        "launches",
        measure_calls,
        dict.fromkeys(("launch.call", "launch.op", "launch.round", "sync.item"), NS),
        0.5,
        gpu=True,
    ),
    Measurement("launches", measure_period, {"kernel.period": NS}, 0.3, gpu=True),
    Measurement("launches", measure_timeline, _TIMELINE, 2.0, gpu=True),
)
