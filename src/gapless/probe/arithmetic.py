"""What the GPU computes and moves at most: products of matrices by number format, its memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import BYTES, FLOPS, Measurement, absent, figure, rates, reason, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .figures import Figure, Room

_FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "int8", "fp8")
_LEAST_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
_FIRST = 1024  # rows and columns
_WIDEST = 8192
_STEP = 512
_AIM_NS = 4_000_000  # one product
_TIMES = 3  # products between two events


def products(room: Room) -> Iterator[Figure]:
    """CUDA events around three products of square matrices of random numbers, formats in turns.

    Matrices are as large as take about 4 ms, 1024 to 8192 wide (``note``). fp32 without, tf32
    with ``set_float32_matmul_precision("high")``; int8: ``torch._int_mm``; fp8: e4m3 by
    ``torch._scaled_mm`` into bf16. Two operations for each multiplication.
    """
    import torch

    acts: dict[str, Any] = {}
    widths: dict[str, int] = {}
    for name in _FORMATS:
        lacking = _lacking(name)
        if lacking is not None:
            yield absent(f"gemm.{name}", lacking)
            continue
        try:
            width = _width(name, room.largest)
            acts[name], widths[name] = _timed(name, width), width
        except (RuntimeError, AttributeError, TypeError) as error:
            yield absent(f"gemm.{name}", reason(error))
    for name, series in rounds(acts, room.until).items():
        width = widths[name]
        note = f"matrices {width} wide"
        values = rates(2.0 * width**3, series)
        yield figure(f"gemm.{name}", values, series.spent_s, None, note)
    torch.set_float32_matmul_precision("highest")


def _lacking(name: str) -> str | None:
    """Say why this GPU computes a format no faster than another, or not at all."""
    import torch

    least, own = _LEAST_CAPABILITY.get(name), torch.cuda.get_device_capability()
    if least is not None and torch.version.hip is None and own < least:
        return f"compute capability {own[0]}.{own[1]}, and it takes {least[0]}.{least[1]}"
    return None


def _width(name: str, largest: int) -> int:
    """Choose a width whose product takes about as long as aimed at."""
    most = min(_WIDEST, int((largest / 8) ** 0.5) // _STEP * _STEP)
    first = min(_FIRST, max(most, _STEP))
    act = _timed(name, first)
    act()
    wanted = int(first * (_AIM_NS / act()) ** (1 / 3)) // _STEP * _STEP
    return max(first, min(wanted, most))


def _timed(name: str, width: int) -> Callable[[], float]:
    import torch

    product = _product(name, width)
    precision = "high" if name == "tf32" else "highest"

    def act() -> float:
        torch.set_float32_matmul_precision(precision)
        return _elapsed(product) / _TIMES

    return act


def _elapsed(product: Callable[[], object]) -> float:
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(_TIMES):
        product()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e6


def _product(name: str, width: int) -> Callable[[], object]:
    import torch

    private: Any = torch  # products that torch has not made public yet

    def random(dtype: Any) -> Any:
        return torch.randn(width, width, device="cuda").to(dtype)

    if name == "int8":
        whole = partial(torch.randint, -100, 100, (width, width), device="cuda", dtype=torch.int8)
        return partial(private._int_mm, whole(), whole().t())  # noqa: SLF001
    if name == "fp8":
        one = torch.ones((), device="cuda")
        dtype = torch.float8_e4m3fn
        scales: dict[str, Any] = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
        return partial(private._scaled_mm, random(dtype), random(dtype).t(), **scales)  # noqa: SLF001
    dtypes = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}
    dtype = dtypes.get(name, torch.float32)
    return partial(torch.mm, random(dtype), random(dtype))


def memory(room: Room) -> Iterator[Figure]:
    """CUDA events around passes over buffers of up to 512 MiB (``note``).

    memory.copy: ``b.copy_(a)``; memory.triad: ``torch.add(a, b, alpha=2, out=c)``. Bytes read and
    written are counted.
    """
    import torch

    count = room.largest // 4
    one, two, three = (torch.ones(count, device="cuda") for _ in range(3))
    passes: dict[str, tuple[int, Callable[[], object]]] = {
        "memory.copy": (2, partial(two.copy_, one)),
        "memory.triad": (3, partial(torch.add, one, two, alpha=2, out=three)),
    }
    acts = {name: partial(_elapsed, act) for name, (_, act) in passes.items()}
    note = f"buffers of {(4 * count) >> 20} MiB"
    for name, series in rounds(acts, room.until).items():
        moved = passes[name][0] * 4.0 * count * _TIMES
        yield figure(name, rates(moved, series), series.spent_s, None, note)


MEASUREMENTS = (
    Measurement("gemm", products, {f"gemm.{name}": FLOPS for name in _FORMATS}, 1.6, gpu=True),
    Measurement(
        "memory", memory, dict.fromkeys(("memory.copy", "memory.triad"), BYTES), 0.5, gpu=True
    ),
)
