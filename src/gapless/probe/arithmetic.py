"""What the GPU computes and moves at most: products of matrices by number format, its memory."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .figures import ProbeConditions, ProbeFigure

_FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "int8", "fp8")
_MIN_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
_FIRST_WIDTH = 1024  # rows and columns
_MAX_WIDTH = 8192
_WIDTH_STEP = 512
_AIM_NS = 4_000_000  # one product
_REPETITIONS = 3  # products between two events


def measure_products(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """CUDA events around three products of square matrices of random numbers, formats in turns.

    Matrices are as large as take about 4 ms, 1024 to 8192 wide (``note``). fp32 without, tf32
    with ``set_float32_matmul_precision("high")``; int8: ``torch._int_mm``; fp8: e4m3 by
    ``torch._scaled_mm`` into bf16. Two operations for each multiplication.
    """
    import torch

    acts: dict[str, Any] = {}
    widths: dict[str, int] = {}
    for name in _FORMATS:
        lacking = _explain_lack(name)
        if lacking is not None:
            yield make_absent(f"gemm.{name}", lacking)
            continue
        try:
            width = _choose_width(name, conditions.largest)
            acts[name], widths[name] = _make_timer(name, width), width
        except (RuntimeError, AttributeError, TypeError) as error:
            yield make_absent(f"gemm.{name}", describe_error(error))
    for name, series in run_rounds(acts, conditions.until).items():
        width = widths[name]
        note = f"matrices {width} wide"
        values = rates(2.0 * width**3, series)
        yield make_figure(f"gemm.{name}", values, series.spent_s, None, note)
    torch.set_float32_matmul_precision("highest")


def _explain_lack(name: str) -> str | None:
    """Return why this GPU computes a format no faster than another, or not at all."""
    import torch

    min_capability, capability = _MIN_CAPABILITY.get(name), torch.cuda.get_device_capability()
    if min_capability is not None and torch.version.hip is None and capability < min_capability:
        (major, minor), (min_major, min_minor) = capability, min_capability
        return f"compute capability {major}.{minor}, and it takes {min_major}.{min_minor}"
    return None


def _choose_width(name: str, largest: int) -> int:
    """Choose a width whose product takes about as long as aimed at."""
    max_width = min(_MAX_WIDTH, int((largest / 8) ** 0.5) // _WIDTH_STEP * _WIDTH_STEP)
    first_width = min(_FIRST_WIDTH, max(max_width, _WIDTH_STEP))
    act = _make_timer(name, first_width)
    act()
    wanted_width = int(first_width * (_AIM_NS / act()) ** (1 / 3)) // _WIDTH_STEP * _WIDTH_STEP
    return max(first_width, min(wanted_width, max_width))


def _make_timer(name: str, width: int) -> Callable[[], float]:
    import torch

    product = _make_product(name, width)
    precision = "high" if name == "tf32" else "highest"

    def act() -> float:
        torch.set_float32_matmul_precision(precision)
        return _time_product(product) / _REPETITIONS

    return act


def _time_product(product: Callable[[], object]) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_REPETITIONS):
        product()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e6


def _make_product(name: str, width: int) -> Callable[[], object]:
    import torch

    private: Any = torch  # products that torch has not made public yet

    def random(dtype: Any) -> Any:
        return torch.randn(width, width, device="cuda").to(dtype)

    if name == "int8":
        random_ints = partial(
            torch.randint, -100, 100, (width, width), device="cuda", dtype=torch.int8
        )
        return partial(private._int_mm, random_ints(), random_ints().t())  # noqa: SLF001
    if name == "fp8":
        scale = torch.ones((), device="cuda")
        dtype = torch.float8_e4m3fn
        scales: dict[str, Any] = {"scale_a": scale, "scale_b": scale, "out_dtype": torch.bfloat16}
        return partial(private._scaled_mm, random(dtype), random(dtype).t(), **scales)  # noqa: SLF001
    dtypes = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}
    dtype = dtypes.get(name, torch.float32)
    return partial(torch.mm, random(dtype), random(dtype))


def measure_memory(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """CUDA events around passes over buffers of up to 512 MiB (``note``).

    memory.copy: ``b.copy_(a)``; memory.triad: ``torch.add(a, b, alpha=2, out=c)``. Bytes read and
    written are counted.
    """
    import torch

    count = conditions.largest // 4
    a, b, c = (torch.ones(count, device="cuda") for _ in range(3))
    passes: dict[str, tuple[int, Callable[[], object]]] = {
        "memory.copy": (2, partial(b.copy_, a)),
        "memory.triad": (3, partial(torch.add, a, b, alpha=2, out=c)),
    }
    acts = {name: partial(_time_product, act) for name, (_, act) in passes.items()}
    note = f"buffers of {(4 * count) >> 20} MiB"
    for name, series in run_rounds(acts, conditions.until).items():
        moved = passes[name][0] * 4.0 * count * _REPETITIONS
        yield make_figure(name, rates(moved, series), series.spent_s, None, note)


MEASUREMENTS = (
    Measurement(
        "gemm", measure_products, {f"gemm.{name}": FLOPS for name in _FORMATS}, 1.6, gpu=True
    ),
    Measurement(
        "memory",
        measure_memory,
        dict.fromkeys(("memory.copy", "memory.triad"), BYTES),
        0.5,
        gpu=True,
    ),
)
