"""Copies between host and GPU, by size, from pinned and from pageable memory."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import BYTES, NS, Measurement, Series, absent, figure, rounds, spin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import Figure, Room

_SIZES = tuple(size << 10 for size in (4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10))
_TOGETHER = 16 << 20  # bytes of copies of one size between two events, at most …
_MOST = 20  # … and so many copies
_BEHIND = 1_000_000  # cycles of the GPU, some 0.5 ms: copies queue up behind them
_BURST = 50
_PINNED = (1 << 20, 16 << 20)
_KINDS = tuple(
    f"copy.{way}.{memory}" for way in ("h2d", "d2h") for memory in ("pinned", "pageable")
)


def by_size(room: Room) -> Iterator[Figure]:
    """Time copies of 4 KiB to 256 MiB (``at``: bytes), all kinds and sizes in turns.

    pinned: CUDA events around copies that had queued up behind a long kernel, for each one.
    pageable: host clock around a copy that blocks, on an idle GPU, until the GPU is idle again.
    bandwidth: bytes over time between the two largest sizes; fixed: what the smallest takes
    beyond its bytes at that bandwidth.
    """
    import torch

    sizes = [size for size in _SIZES if size <= room.largest]
    most = max(sizes)
    there = torch.empty(most, dtype=torch.uint8, device="cuda")
    pageable = torch.ones(most, dtype=torch.uint8)
    pinned = torch.ones(most, dtype=torch.uint8).pin_memory()
    pairs: dict[str, tuple[Any, Any]] = {
        "copy.h2d.pinned": (there, pinned),
        "copy.h2d.pageable": (there, pageable),
        "copy.d2h.pinned": (pinned, there),
        "copy.d2h.pageable": (pageable, there),
    }
    acts: dict[tuple[str, int], partial[float]] = {}
    for name, (to, source) in pairs.items():
        timed = _queued if name.endswith("pinned") else _blocking
        for size in sizes:
            acts[name, size] = partial(timed, to[:size], source[:size])
    found = rounds(acts, room.until)
    for (name, size), series in found.items():
        yield figure(name, series.values, series.spent_s, size)
    if len(sizes) > 1:
        for name in pairs:
            yield from _line(name, {size: found[name, size] for size in sizes})


def _queued(to: Any, source: Any) -> float:
    import torch

    times = max(1, min(_MOST, _TOGETHER // to.numel()))
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    spin(_BEHIND)
    first.record()
    for _ in range(times):
        to.copy_(source, non_blocking=True)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e6 / times


def _blocking(to: Any, source: Any) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    to.copy_(source)
    torch.cuda.synchronize()
    return time.perf_counter_ns() - began


def _line(name: str, by: dict[int, Series]) -> Iterator[Figure]:
    """Give bandwidth and fixed cost, of each round its own."""
    small, *_, large, largest = sorted(by) if len(by) > 2 else [min(by), *sorted(by)]  # noqa: PLR2004
    spent = sum(by[largest].spent_s)
    slopes = [
        (more - less) / (largest - large)
        for more, less in zip(by[largest].values, by[large].values)
    ]
    if any(slope <= 0 for slope in slopes):
        yield absent(f"{name}.bandwidth", "larger copies took no longer")
        return
    yield figure(f"{name}.bandwidth", [1e9 / slope for slope in slopes], spent)
    fixed = [took - small * slope for took, slope in zip(by[small].values, slopes)]
    yield figure(f"{name}.fixed", fixed, spent)


def on_the_host(room: Room) -> Iterator[Figure]:
    """Host clock around what a copy costs the host.

    copy.call: each of 50 calls in a row of a copy of 4 KiB from pinned memory that does not
    block, into an empty queue; copy.pin: ``pin_memory()`` of so many bytes (``at``) where torch
    has pinned as many before and kept them.
    """
    import torch

    sizes = [size for size in _PINNED if size <= room.largest]
    pageable = torch.ones(max([*sizes, _SIZES[0]]), dtype=torch.uint8)
    small = pageable[: _SIZES[0]].pin_memory()
    there = torch.empty_like(small, device="cuda")
    acts: dict[int, Any] = {0: partial(_calls, there, small)}
    acts.update({size: partial(_pin, pageable[:size]) for size in sizes})
    for size, series in rounds(acts, room.until).items():
        name = "copy.pin" if size else "copy.call"
        yield figure(name, series.values, series.spent_s, size or None)


def _calls(to: Any, source: Any) -> float:
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for _ in range(_BURST):
        to.copy_(source, non_blocking=True)
    return (time.perf_counter_ns() - began) / _BURST


def _pin(source: Any) -> float:
    began = time.perf_counter_ns()
    kept = source.pin_memory()
    took = time.perf_counter_ns() - began
    del kept
    return took


MEASUREMENTS = (
    Measurement(
        "copies",
        by_size,
        {
            **dict.fromkeys(_KINDS, NS),
            **{f"{kind}.bandwidth": BYTES for kind in _KINDS},
            **{f"{kind}.fixed": NS for kind in _KINDS},
        },
        1.8,
        gpu=True,
    ),
    Measurement("copies", on_the_host, {"copy.call": NS, "copy.pin": NS}, 0.3, gpu=True),
)
