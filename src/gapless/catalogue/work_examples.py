"""Rows of work, and a machine's constants, for the figures of rules about computing."""

from math import prod
from typing import Any, Final

from gapless.catalogue.seen_parts import MS, STEPS
from gapless.model.machine import Constant, Constants
from gapless.model.trace import Shape
from gapless.model.work import Work
from gapless.replay.formulas import demand

_TYPES: Final = {"fp32": "float", "fp64": "double", "bf16": "c10::BFloat16", "fp16": "c10::Half"}
_PEAKS: Final = {
    "gemm.fp64": 60e12,
    "gemm.fp32": 50e12,
    "gemm.tf32": 330e12,
    "gemm.bf16": 790e12,
    "gemm.fp16": 760e12,
    "memory.triad": 4.3e12,
    "kernel.period": 1800.0,
}


def worked(
    operator: str,
    sizes: tuple[tuple[int, ...], ...],
    ms: float,
    leaf: str,
    **more: Any,  # noqa: ANN401 - any field of Work, beside "calls" and "dtype"
) -> Work:
    """Give what calls of an operator did in a step: ``calls`` of them, in ``ms`` together."""
    dtype, many = more.pop("dtype", "fp32"), more.pop("calls", 1) * STEPS
    concrete = more.pop("concrete", ())
    strides = tuple(_strides(one) for one in sizes)
    shape = Shape(sizes, strides, (_TYPES[dtype],) * len(sizes), concrete)
    needs = demand(operator, shape)
    usual: dict[str, Any] = {
        "operator": operator,
        "inputs": " ".join(f"[{', '.join(map(str, one))}]" for one in sizes),
        "dtype": dtype,
        "leaf": leaf,
        "kernel": None,
        "calls": many,
        "launches": many,
        "ns": round(ms * STEPS * MS),
        "flops": None if needs is None else needs.flops * many,
        "bytes": None if needs is None or needs.bytes is None else needs.bytes * many,
    }
    return Work(**(usual | more))


def h200() -> Constants:
    """Give the constants of an H200 that matter to kernels, in round numbers."""
    values = tuple(
        Constant(name, "", None, value, value, value, 10, 0.0) for name, value in _PEAKS.items()
    )
    return Constants(None, values, ("gemm",), 0.0, 1.0)


def amx() -> Constants:
    """Give the constants of 16 processors that multiply in bf16 twice as fast as in fp32."""
    values = tuple(
        Constant(name, "", at, value, value, value, 10, 0.0)
        for name, at, value in (
            ("cpu.gemm.fp32", 16, 1.8e12),
            ("cpu.gemm.bf16", 16, 3.9e12),
            ("cpu.memory.triad", 16, 86e9),
        )
    )
    return Constants(None, values, ("cpu.gemm",), 0.0, 1.0)


def _strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(sizes[at + 1 :]) for at in range(len(sizes)))
