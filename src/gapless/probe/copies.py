"""Copies between host and GPU, by size, from pinned and from pageable memory."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import BYTES, NS, Measurement, RoundSeries, make_absent, make_figure, run_rounds, spin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import ProbeConditions, ProbeFigure

_SIZES = tuple(size << 10 for size in (4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10))
_BURST_BYTES = 16 << 20  # bytes of copies of one size between two events, at most …
_MAX_BURST = 20  # … and so many copies
_SPIN_CYCLES = 1_000_000  # cycles of the GPU, some 0.5 ms: copies queue up behind them
_PINNED = (1 << 20, 16 << 20)
_KINDS = tuple(
    f"copy.{way}.{memory}" for way in ("h2d", "d2h") for memory in ("pinned", "pageable")
)


def measure_by_size(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Time copies of 4 KiB to 256 MiB (``at``: bytes), all kinds and sizes in turns.

    pinned: CUDA events around copies that had queued up behind a long kernel, for each one.
    pageable: host clock around a copy that blocks, on an idle GPU, until the GPU is idle again.
    bandwidth: bytes over time between the two largest sizes.
    """
    import torch

    sizes = [size for size in _SIZES if size <= conditions.largest]
    max_size = max(sizes)
    device_buffer = torch.empty(max_size, dtype=torch.uint8, device="cuda")
    pageable = torch.ones(max_size, dtype=torch.uint8)
    pinned = torch.ones(max_size, dtype=torch.uint8).pin_memory()
    pairs: dict[str, tuple[Any, Any]] = {
        "copy.h2d.pinned": (device_buffer, pinned),
        "copy.h2d.pageable": (device_buffer, pageable),
        "copy.d2h.pinned": (pinned, device_buffer),
        "copy.d2h.pageable": (pageable, device_buffer),
    }
    acts: dict[tuple[str, int], partial[float]] = {}
    for name, (to, source) in pairs.items():
        time_copy = _time_queued if name.endswith("pinned") else _time_blocking
        for size in sizes:
            acts[name, size] = partial(time_copy, to[:size], source[:size])
    series_by_copy = run_rounds(acts, conditions.until)
    for (name, size), series in series_by_copy.items():
        yield make_figure(name, series.values, series.spent_s, size)
    if len(sizes) > 1:
        for name in pairs:
            yield from _fit_bandwidth(name, {size: series_by_copy[name, size] for size in sizes})


def _time_queued(to: Any, source: Any) -> float:
    import torch

    times = max(1, min(_MAX_BURST, _BURST_BYTES // to.numel()))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    spin(_SPIN_CYCLES)
    start.record()
    for _ in range(times):
        to.copy_(source, non_blocking=True)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e6 / times


def _time_blocking(to: Any, source: Any) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    to.copy_(source)
    torch.cuda.synchronize()
    return time.perf_counter_ns() - began


def _fit_bandwidth(name: str, series_by_size: dict[int, RoundSeries]) -> Iterator[ProbeFigure]:
    """Yield the bandwidth, of each round its own."""
    *_, large, largest = sorted(series_by_size)
    spent = sum(series_by_size[largest].spent_s)
    slopes = [
        (largest_ns - large_ns) / (largest - large)
        for largest_ns, large_ns in zip(
            series_by_size[largest].values, series_by_size[large].values
        )
    ]
    if any(slope <= 0 for slope in slopes):
        yield make_absent(f"{name}.bandwidth", "larger copies took no longer")
        return
    yield make_figure(f"{name}.bandwidth", [1e9 / slope for slope in slopes], spent)


def measure_pinning(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around ``pin_memory()`` of so many bytes (``at``).

    copy.pin: where torch has pinned as many before and kept them.
    """
    import torch

    sizes = [size for size in _PINNED if size <= conditions.largest]
    pageable = torch.ones(max([*sizes, _SIZES[0]]), dtype=torch.uint8)
    acts = {size: partial(_time_pin, pageable[:size]) for size in sizes}
    for size, series in run_rounds(acts, conditions.until).items():
        yield make_figure("copy.pin", series.values, series.spent_s, size)


def _time_pin(source: Any) -> float:
    began = time.perf_counter_ns()
    pinned = source.pin_memory()
    took = time.perf_counter_ns() - began
    del pinned
    return took


MEASUREMENTS = (
    Measurement(
        "copies",
        measure_by_size,
        {
            **dict.fromkeys(_KINDS, NS),
            **{f"{kind}.bandwidth": BYTES for kind in _KINDS},
        },
        1.8,
        gpu=True,
    ),
    Measurement("copies", measure_pinning, {"copy.pin": NS}, 0.3, gpu=True),
)
