"""The way from the host to the GPU and back: launches, gaps, waits. A GPU's alone."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, make_figure, run_rounds, spin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .figures import ProbeConditions, ProbeFigure

_BURST = 200  # launches in a row: far below the 1,023 that a queue takes before a launch waits
_LONG = 10_000_000  # cycles of the GPU, some 5 ms: what is launched meanwhile queues up
_WAITS = 40  # in a row
_FLOATS = 64


def measure_calls(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around 200 launches in a row into an empty queue, for each one.

    launch.call: ``torch.cuda._sleep(0)``, little more than the launch of an empty kernel;
    launch.op: ``x.neg_()`` of 64 floats, with what torch does around the launch; launch.round:
    an empty kernel and the wait for it on an idle GPU.
    """
    import torch

    sleep: Any = partial(torch.cuda._sleep, 0)  # noqa: SLF001
    small = torch.zeros(_FLOATS, device="cuda")
    stream = torch.cuda.current_stream()

    def launch_and_wait() -> None:
        sleep()
        stream.synchronize()

    acts = {
        "launch.call": partial(_time_each, sleep, _BURST),
        "launch.op": partial(_time_each, small.neg_, _BURST),
        "launch.round": partial(_time_each, launch_and_wait, _WAITS),
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


MEASUREMENTS = (
    Measurement(
        "launches",
        measure_calls,
        dict.fromkeys(("launch.call", "launch.op", "launch.round"), NS),
        0.5,
        gpu=True,
    ),
    Measurement("launches", measure_period, {"kernel.period": NS}, 0.3, gpu=True),
)
