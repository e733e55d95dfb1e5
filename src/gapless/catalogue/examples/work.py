"""Rows of work, and a machine's constants, for figures of rules about computing."""

from math import prod
from typing import Any, Final

from gapless.catalogue.examples.parts import MS, STEPS
from gapless.model.machine import Constant, Constants
from gapless.model.trace import Shape
from gapless.model.work import Work
from gapless.roofline.formulas import operator_demand

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


def example_work(
    operator: str,
    sizes: tuple[tuple[int, ...], ...],
    ms: float,
    leaf: str,
    **changes: Any,  # noqa: ANN401 - any field of Work, beside "calls" and "dtype"
) -> Work:
    """Return the work of an operator in a step: ``calls`` of it, which take ``ms`` together."""
    dtype, n_calls = changes.pop("dtype", "fp32"), changes.pop("calls", 1) * STEPS
    concrete = changes.pop("concrete", ())
    strides = tuple(_strides(operand) for operand in sizes)
    shape = Shape(sizes, strides, (_TYPES[dtype],) * len(sizes), concrete)
    work_demand = operator_demand(operator, shape)
    defaults: dict[str, Any] = {
        "operator": operator,
        "inputs": " ".join(f"[{', '.join(map(str, operand))}]" for operand in sizes),
        "dtype": dtype,
        "leaf": leaf,
        "kernel": None,
        "calls": n_calls,
        "launches": n_calls,
        "ns": round(ms * STEPS * MS),
        "flops": None if work_demand is None else work_demand.flops * n_calls,
        "bytes": None
        if work_demand is None or work_demand.bytes is None
        else work_demand.bytes * n_calls,
    }
    return Work(**(defaults | changes))


def h200() -> Constants:
    """Return the constants of an H200 that matter to kernels, rounded."""
    values = tuple(
        Constant(name, "", None, value, value, value, 10, 0.0) for name, value in _PEAKS.items()
    )
    return Constants(None, values, ("gemm",), 0.0, 1.0)


def amx() -> Constants:
    """Return the constants of 16 processors that multiply in bf16 twice as fast as in fp32."""
    values = tuple(
        Constant(name, "", threads, value, value, value, 10, 0.0)
        for name, threads, value in (
            ("cpu.gemm.fp32", 16, 1.8e12),
            ("cpu.gemm.bf16", 16, 3.9e12),
            ("cpu.memory.triad", 16, 86e9),
        )
    )
    return Constants(None, values, ("cpu.gemm",), 0.0, 1.0)


def _strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
