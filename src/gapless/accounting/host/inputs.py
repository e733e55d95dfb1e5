"""What the recorded inputs of an operator say of it, looked up by its set of shapes."""

import numpy as np
from msgspec import Struct

from gapless.accounting.charges import Bool
from gapless.model.ledger import TC_MISS_REASONS
from gapless.model.trace import Int64, Shape, Trace

_HALVES = frozenset({"c10::Half", "c10::BFloat16", "half", "bfloat16"})
_SINGLES, _DOUBLES = frozenset({"float"}), frozenset({"double"})
_GROUPS_AT = 8  # the argument "groups" of aten::convolution and aten::_convolution
_HALF_STEP, _SINGLE_STEP = 8, 4  # elements: tensor cores want multiples at 16 bit, at tf32


class OperatorInputs(Struct, frozen=True):
    """One entry a set of shapes of the trace, and one more, at −1, for an operator without any."""

    restrided: Bool  # the first two tensors have equal dtypes and sizes, and different strides
    recast: Bool  # the first two tensors have different dtypes
    why: Int64  # → WHYS: why an operator of this kind would not use tensor cores


def operator_inputs(trace: Trace) -> OperatorInputs:
    """Look at every distinct set of recorded inputs once."""
    shapes = [*trace.shapes, Shape()]
    return OperatorInputs(
        np.array([_is_restrided(shape) for shape in shapes], bool),
        np.array([_is_recast(shape) for shape in shapes], bool),
        np.array([TC_MISS_REASONS.index(_find_reason(shape)) for shape in shapes], np.int64),
    )


def _tensors(shape: Shape) -> list[tuple[tuple[int, ...], object, str]]:
    """Return sizes, strides and dtype of the arguments that are tensors."""
    tensors: list[tuple[tuple[int, ...], object, str]] = []
    for position, (dims, dtype) in enumerate(zip(shape.dims, shape.types, strict=False)):
        sizes = _sizes(dims)
        if sizes is not None and dtype not in ("", "Scalar", "ScalarList", "TensorList"):
            strides = shape.strides[position] if position < len(shape.strides) else None
            tensors.append((sizes, strides, dtype))
    return tensors


def _sizes(dims: object) -> tuple[int, ...] | None:
    if not isinstance(dims, tuple):
        return None
    sizes = [size for size in dims if isinstance(size, int)]  # pyright: ignore[reportUnknownVariableType]
    return tuple(sizes) if len(sizes) == len(dims) else None  # pyright: ignore[reportUnknownArgumentType]


def _is_restrided(shape: Shape) -> bool:
    match _tensors(shape)[:2]:
        case [(sizes, strides, dtype), (other_sizes, other_strides, other_dtype)]:
            is_same = sizes == other_sizes and dtype == other_dtype
            return is_same and strides is not None and strides != other_strides
        case _:
            return False


def _is_recast(shape: Shape) -> bool:
    match _tensors(shape)[:2]:
        case [(_, _, dtype), (_, _, other)]:
            return dtype != other
        case _:
            return False


def _find_reason(shape: Shape) -> str:
    """Return the first reason that inputs can show; nothing where they were not recorded."""
    tensors = _tensors(shape)
    if not tensors:
        return ""
    dtypes = {dtype for _, _, dtype in tensors}
    if dtypes & _SINGLES:
        return "fp32_no_tf32"
    if dtypes & _DOUBLES:
        return "fp64"
    step = _HALF_STEP if dtypes & _HALVES else _SINGLE_STEP
    if any(size % step for sizes, _, _ in tensors for size in sizes[-2:]):
        return "misaligned"
    if len(shape.concrete) > _GROUPS_AT and shape.concrete[_GROUPS_AT] not in ("", "1"):
        return "grouped/depthwise"
    return "too_small"
