"""What the processors compute and move: products of matrices and passes over memory, by threads."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import (
    BYTES,
    FLOPS,
    Measurement,
    describe_error,
    make_absent,
    make_figure,
    rates,
    run_rounds,
)
from .surroundings import last_level_cache, processors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import ProbeConditions, ProbeFigure

_FIRST_WIDTH = 256  # rows and columns
_WIDTH_STEP = 64
_TRIES = 3  # the quickest is the least disturbed
_AIM_NS = 15_000_000  # one product
_MAX_WIDTH = 8192
_MIN_BUFFER = 4 << 20  # bytes of a buffer
_MAX_BUFFER = 256 << 20
_DEFAULT_BUFFER = 64 << 20


def measure_products(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around one product of square matrices of random numbers (``at``: threads).

    cpu.gemm.fp32 with one thread, and with twice as many up to all that this process may use;
    fp64 and bf16 with all. Matrices are as large as would take about 15 ms (``note``). Formats and
    threads in turns; a small product goes before each, for threads to be there.
    """
    import torch

    n_processors = processors()
    variants = [("fp32", threads) for threads in _list_thread_counts(n_processors)] + [
        ("fp64", n_processors),
        ("bf16", n_processors),
    ]
    acts: dict[tuple[str, int], partial[float]] = {}
    widths: dict[tuple[str, int], int] = {}
    before = torch.get_num_threads()
    for name, threads in variants:
        try:
            width = _choose_width(name, threads, conditions.largest)
            widths[name, threads] = width
            acts[name, threads] = partial(_time_product, *_make_matrices(name, width), threads)
        except RuntimeError as error:  # noqa: PERF203
            yield make_absent(f"cpu.gemm.{name}", describe_error(error), threads)
    for (name, threads), series in run_rounds(acts, conditions.until).items():
        width = widths[name, threads]
        values = rates(2.0 * width**3, series)
        note = f"matrices {width} wide"
        yield make_figure(f"cpu.gemm.{name}", values, series.spent_s, threads, note)
    torch.set_num_threads(before)


def _list_thread_counts(n_processors: int) -> list[int]:
    """Return 1, 2, 4 … and all."""
    powers = [1 << exponent for exponent in range(n_processors.bit_length())]
    return sorted({*(power for power in powers if power < n_processors), n_processors})


def _make_matrices(name: str, width: int) -> tuple[Any, Any]:
    import torch

    dtype = {"fp64": torch.float64, "bf16": torch.bfloat16}.get(name, torch.float32)
    return torch.randn(width, width).to(dtype), torch.randn(width, width).to(dtype)


def _choose_width(name: str, threads: int, largest: int) -> int:
    """Choose a width by what one thread takes: several may wait for a processor of others."""
    matrices = _make_matrices(name, _FIRST_WIDTH)
    _time_product(*matrices, 1)
    took = min(_time_product(*matrices, 1) for _ in range(_TRIES)) / threads
    wanted_width = int(_FIRST_WIDTH * (_AIM_NS / took) ** (1 / 3)) // _WIDTH_STEP * _WIDTH_STEP
    max_width = min(_MAX_WIDTH, int((largest / 8) ** 0.5) // _WIDTH_STEP * _WIDTH_STEP)
    return max(_WIDTH_STEP, min(wanted_width, max_width))


def _time_product(a: Any, b: Any, threads: int) -> float:
    import torch

    torch.set_num_threads(threads)
    torch.mm(a[:_WIDTH_STEP], b)
    began = time.perf_counter_ns()
    torch.mm(a, b)
    return time.perf_counter_ns() - began


def measure_memory(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around ``torch.add(a, b, alpha=2, out=c)`` (``at``: threads).

    Bytes read and written are counted. One thread, and all that this process may use, in turns.
    Each of the three buffers is as large as the last level of cache, 4 to 256 MiB (``note``).
    """
    import torch

    size = max(
        _MIN_BUFFER, min(conditions.largest, last_level_cache() or _DEFAULT_BUFFER, _MAX_BUFFER)
    )
    a, b, c = (torch.ones(size // 4) for _ in range(3))

    def time_triad(threads: int) -> float:
        torch.set_num_threads(threads)
        began = time.perf_counter_ns()
        torch.add(a, b, alpha=2, out=c)
        return time.perf_counter_ns() - began

    before = torch.get_num_threads()
    acts = {threads: partial(time_triad, threads) for threads in sorted({1, processors()})}
    note = f"buffers of {size >> 20} MiB"
    for threads, series in run_rounds(acts, conditions.until).items():
        values = rates(3.0 * size, series)
        yield make_figure("cpu.memory.triad", values, series.spent_s, threads, note)
    torch.set_num_threads(before)


MEASUREMENTS = (
    Measurement(
        "cpu",
        measure_products,
        {f"cpu.gemm.{name}": FLOPS for name in ("fp32", "fp64", "bf16")},
        1.0,
    ),
    Measurement("cpu", measure_memory, {"cpu.memory.triad": BYTES}, 0.4),
)
