"""What the processors compute and move: products of matrices and passes over memory, by threads."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import BYTES, FLOPS, Measurement, absent, figure, rates, reason, rounds
from .surroundings import last_level_cache, processors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import Figure, Room

_FIRST = 256  # rows and columns
_STEP = 64
_TRIES = 3  # the quickest is the least disturbed
_AIM_NS = 15_000_000  # one product
_WIDEST = 8192
_LEAST = 4 << 20  # bytes of a buffer
_MOST = 256 << 20
_UNKNOWN = 64 << 20


def products(room: Room) -> Iterator[Figure]:
    """Host clock around one product of square matrices of random numbers (``at``: threads).

    cpu.gemm.fp32 with one thread, and with twice as many up to all that this process may use;
    fp64 and bf16 with all. Matrices are as large as would take about 15 ms (``note``). Formats and
    threads in turns; a small product goes before each, for threads to be there.
    """
    import torch

    every = processors()
    wanted = [("fp32", threads) for threads in _counts(every)] + [("fp64", every), ("bf16", every)]
    acts: dict[tuple[str, int], partial[float]] = {}
    widths: dict[tuple[str, int], int] = {}
    before = torch.get_num_threads()
    for name, threads in wanted:
        try:
            width = _width(name, threads, room.largest)
            widths[name, threads] = width
            acts[name, threads] = partial(_product, *_matrices(name, width), threads)
        except RuntimeError as error:  # noqa: PERF203
            yield absent(f"cpu.gemm.{name}", reason(error), threads)
    for (name, threads), series in rounds(acts, room.until).items():
        width = widths[name, threads]
        values = rates(2.0 * width**3, series)
        note = f"matrices {width} wide"
        yield figure(f"cpu.gemm.{name}", values, series.spent_s, threads, note)
    torch.set_num_threads(before)


def _counts(every: int) -> list[int]:
    """Give 1, 2, 4 … and all."""
    powers = [1 << at for at in range(every.bit_length())]
    return sorted({*(one for one in powers if one < every), every})


def _matrices(name: str, width: int) -> tuple[Any, Any]:
    import torch

    dtype = {"fp64": torch.float64, "bf16": torch.bfloat16}.get(name, torch.float32)
    return torch.randn(width, width).to(dtype), torch.randn(width, width).to(dtype)


def _width(name: str, threads: int, largest: int) -> int:
    """Choose a width by what one thread takes: several may wait for a processor of others."""
    first = _matrices(name, _FIRST)
    _product(*first, 1)
    took = min(_product(*first, 1) for _ in range(_TRIES)) / threads
    wanted = int(_FIRST * (_AIM_NS / took) ** (1 / 3)) // _STEP * _STEP
    most = min(_WIDEST, int((largest / 8) ** 0.5) // _STEP * _STEP)
    return max(_STEP, min(wanted, most))


def _product(one: Any, two: Any, threads: int) -> float:
    import torch

    torch.set_num_threads(threads)
    torch.mm(one[:_STEP], two)
    began = time.perf_counter_ns()
    torch.mm(one, two)
    return time.perf_counter_ns() - began


def memory(room: Room) -> Iterator[Figure]:
    """Host clock around ``torch.add(a, b, alpha=2, out=c)`` (``at``: threads).

    Bytes read and written are counted. One thread, and all that this process may use, in turns.
    Each of the three buffers is as large as the last level of cache, 4 to 256 MiB (``note``).
    """
    import torch

    size = max(_LEAST, min(room.largest, last_level_cache() or _UNKNOWN, _MOST))
    one, two, three = (torch.ones(size // 4) for _ in range(3))

    def once(threads: int) -> float:
        torch.set_num_threads(threads)
        began = time.perf_counter_ns()
        torch.add(one, two, alpha=2, out=three)
        return time.perf_counter_ns() - began

    before = torch.get_num_threads()
    acts = {threads: partial(once, threads) for threads in sorted({1, processors()})}
    note = f"buffers of {size >> 20} MiB"
    for threads, series in rounds(acts, room.until).items():
        values = rates(3.0 * size, series)
        yield figure("cpu.memory.triad", values, series.spent_s, threads, note)
    torch.set_num_threads(before)


MEASUREMENTS = (
    Measurement(
        "cpu", products, {f"cpu.gemm.{name}": FLOPS for name in ("fp32", "fp64", "bf16")}, 1.0
    ),
    Measurement("cpu", memory, {"cpu.memory.triad": BYTES}, 0.4),
)
