"""What an operator must compute and move at least, from its recorded inputs alone.

A multiplication and its addition are two operations. Bytes count each input that is read and each
output that is written once, whatever a cache would save; what an operator must read twice (a batch
norm, for its statistics) counts twice. ``None`` where the inputs are not sufficient.
"""

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Final, cast

from msgspec import Struct

from gapless.model.trace import Shape

NAMES: Final = {  # of dtypes, as traces write them
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "bfloat16": "bf16",
    "c10::Half": "fp16",
    "half": "fp16",
}
SIZES: Final = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}
_OTHER_SIZES: Final = {
    "long int": 8,
    "long": 8,
    "int": 4,
    "short int": 2,
    "unsigned char": 1,
    "signed char": 1,
    "bool": 1,
}
_IMAGE: Final = 4  # dimensions
_BACKWARD: Final = 2.5  # of attention, relative to its forward: it computes the products again


class OperatorDemand(Struct, frozen=True):
    """The least that a call computes and moves."""

    flops: float
    bytes: float | None
    dtype: str | None


class _Tensor(Struct, frozen=True):
    argument: int  # of the arguments
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None
    width: int  # bytes of an element

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * self.width


def operator_demand(operator: str, shape: Shape) -> OperatorDemand | None:
    """Return what a call of an operator needs at least; ``None`` if its inputs are insufficient."""
    tensors = _list_tensors(shape)
    if not tensors:
        return None
    for pattern, formula in _FORMULAS:
        if pattern.search(operator):
            return formula(operator, tensors, shape)
    return _move_demand(
        tensors, sum(tensor.bytes for tensor in tensors) + max(tensor.bytes for tensor in tensors)
    )


def dtype_of(shape: Shape) -> str | None:
    """Return the type of the first tensor of floating-point numbers: "fp32", "bf16" …."""
    return next((tensor.dtype for tensor in _list_tensors(shape) if tensor.dtype), None)


def channels_first(shape: Shape) -> bool | None:
    """Return whether the first image lies in memory channel by channel; ``None`` without images."""
    for tensor in _list_tensors(shape):
        if len(tensor.sizes) != _IMAGE or len(tensor.strides) != _IMAGE:
            continue
        _, channels, height, width = tensor.sizes
        if channels > 1 and height * width > 1:
            return tensor.strides[1] != 1
    return None


# ── Inputs ──────────────────────────────────────────────────────────────────────────────────────


def _list_tensors(shape: Shape) -> list[_Tensor]:
    """Return the tensors among the arguments; those of a list one after the other."""
    tensors: list[_Tensor] = []
    for index, (dims, name) in enumerate(zip(shape.dims, shape.types, strict=False)):
        strides = shape.strides[index] if index < len(shape.strides) else ()
        for sizes, steps in _list_sizes(dims, strides):
            dtype = NAMES.get(name)
            width = SIZES[dtype] if dtype else _OTHER_SIZES.get(name)
            if width is not None and sizes:
                tensors.append(_Tensor(index, sizes, steps, dtype, width))
    return tensors


def _list_sizes(dims: object, strides: object) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    sizes = _int_tuple(dims)
    return [] if sizes is None else [(sizes, _int_tuple(strides) or ())]


def _int_tuple(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, tuple):
        return None
    members = cast("tuple[object, ...]", value)
    numbers = tuple(number for number in members if isinstance(number, int))
    return numbers if len(numbers) == len(members) else None


def _read_numbers(shape: Shape, index: int) -> tuple[int, ...] | None:
    """Read a list of integers among the arguments ("[1, 1]"); ``None`` if it was not recorded."""
    text = shape.concrete[index] if index < len(shape.concrete) else ""
    if not re.fullmatch(r"\[[-\d, ]*\]", text):
        return None
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def _is_true(shape: Shape, index: int) -> bool:
    return index < len(shape.concrete) and shape.concrete[index] == "True"


def _move_demand(tensors: Sequence[_Tensor], size: float) -> OperatorDemand:
    dtype = next((tensor.dtype for tensor in tensors if tensor.dtype), None)
    return OperatorDemand(0.0, float(size), dtype)


# ── Products ────────────────────────────────────────────────────────────────────────────────────


def _product_demand(
    operator: str, tensors: Sequence[_Tensor], shape: Shape
) -> OperatorDemand | None:
    """Count ``[…, m, k] × […, k, n]``; a linear layer's weights are ``[n, k]``."""
    del shape
    pair = [tensor for tensor in tensors if len(tensor.sizes) > 1 and tensor.dtype]
    if re.search(r"::(addmm|_addmm_activation|baddbmm)$", operator):
        pair = [tensor for tensor in pair if tensor.argument in (1, 2)]
    if len(pair) < 2:  # noqa: PLR2004 - a product has two
        return None
    lhs, rhs = pair[:2]
    width = rhs.sizes[-2] if operator.endswith("::linear") else rhs.sizes[-1]
    rows, depth = prod(lhs.sizes[:-1]), lhs.sizes[-1]
    out_bytes = rows * width * lhs.width
    return OperatorDemand(
        2.0 * rows * width * depth, float(lhs.bytes + rhs.bytes + out_bytes), lhs.dtype
    )


# ── Convolutions ────────────────────────────────────────────────────────────────────────────────

_ARGUMENTS: Final = {  # of stride, padding and dilation among the arguments
    "convolution": (3, 4, 5),
    "_convolution": (3, 4, 5),
    "cudnn_convolution": (3, 2, 4),
    "miopen_convolution": (4, 3, 5),
    "mkldnn_convolution": (4, 3, 5),
    "conv1d": (3, 4, 5),
    "conv2d": (3, 4, 5),
    "conv3d": (3, 4, 5),
    "_conv_depthwise2d": (4, 5, 6),
    "_slow_conv2d_forward": (4, 5, -1),
}


def _convolution_demand(
    operator: str, tensors: Sequence[_Tensor], shape: Shape
) -> OperatorDemand | None:
    if len(tensors) < 2:  # noqa: PLR2004 - images and weights
        return None
    images, weights = tensors[:2]
    name = operator.rpartition("::")[2]
    if "transpose" in name or (name in {"convolution", "_convolution"} and _is_true(shape, 6)):
        return _transposed_demand(images, weights)
    positions = _ARGUMENTS.get(name)
    extents = (
        None
        if positions is None
        else _count_windows(images.sizes[2:], weights.sizes[2:], shape, positions)
    )
    if extents is None:
        return None
    n_outputs = images.sizes[0] * weights.sizes[0] * prod(extents)
    n_bytes = images.bytes + weights.bytes + n_outputs * images.width
    return OperatorDemand(2.0 * n_outputs * prod(weights.sizes[1:]), float(n_bytes), images.dtype)


def _transposed_demand(images: _Tensor, weights: _Tensor) -> OperatorDemand:
    """Count a transposed convolution: each pixel is spread over a window."""
    flops = 2.0 * prod(images.sizes) * prod(weights.sizes[1:])
    return OperatorDemand(flops, float(2 * images.bytes + weights.bytes), images.dtype)


def _count_windows(
    sizes: Sequence[int], kernel: Sequence[int], shape: Shape, positions: tuple[int, int, int]
) -> tuple[int, ...] | None:
    """Return how many windows of a kernel lie in an image, along each of its sides."""
    settings = [_read_numbers(shape, position) if position >= 0 else (1,) for position in positions]
    if any(not setting for setting in settings) or len(sizes) != len(kernel):
        return None
    stride, padding, dilation = (
        tuple((setting or (1,)) * len(sizes))[: len(sizes)] for setting in settings
    )
    return tuple(
        (size + 2 * pad - spacing * (extent - 1) - 1) // step + 1
        for size, extent, step, pad, spacing in zip(
            sizes, kernel, stride, padding, dilation, strict=True
        )
    )


def _convolution_gradients(
    _operator: str, tensors: Sequence[_Tensor], shape: Shape
) -> OperatorDemand | None:
    """Count the gradients of images and weights, as far as they are requested."""
    if len(tensors) < 3:  # noqa: PLR2004 - gradient, images, weights
        return None
    gradient, images, weights = tensors[:3]
    pixels = images if _is_true(shape, 7) else gradient
    mask = shape.concrete[10] if len(shape.concrete) > 10 else ""  # noqa: PLR2004 - output_mask
    wants = [flag.strip() == "True" for flag in mask.strip("[]").split(",")][:2]
    n_gradients = sum(wants) if len(wants) == 2 else 2  # noqa: PLR2004
    flops = 2.0 * prod(pixels.sizes) * prod(weights.sizes[1:]) * n_gradients
    n_bytes = n_gradients * (gradient.bytes + images.bytes + weights.bytes)
    return OperatorDemand(flops, float(n_bytes), gradient.dtype)


# ── Attention ───────────────────────────────────────────────────────────────────────────────────


def _attention_demand(
    operator: str, tensors: Sequence[_Tensor], shape: Shape
) -> OperatorDemand | None:
    """Count both products; half of them where later tokens are masked."""
    is_backward = "backward" in operator
    inputs = [tensor for tensor in tensors if len(tensor.sizes) == _IMAGE][int(is_backward) :]
    if len(inputs) < 3:  # noqa: PLR2004 - queries, keys, values
        return None
    queries, keys, values = inputs[:3]
    axis = 2 if re.search(r"scaled_dot_product|cudnn", operator) else 1  # where tokens are counted
    flops = (
        2.0 * prod(queries.sizes) * keys.sizes[axis]
        + 2.0 * prod(values.sizes) * queries.sizes[axis]
    )
    flops *= 0.5 if _is_causal(operator, shape) else 1.0
    n_bytes = 2 * queries.bytes + keys.bytes + values.bytes
    if is_backward:
        return OperatorDemand(_BACKWARD * flops, 2.0 * n_bytes, queries.dtype)
    return OperatorDemand(flops, float(n_bytes), queries.dtype)


def _is_causal(operator: str, shape: Shape) -> bool:
    """Return whether later tokens are masked: a flag, or of memory-efficient attention a number."""
    if "_efficient_attention" in operator and "scaled" not in operator:
        index = 14 if "backward" in operator else 9
        return index < len(shape.concrete) and shape.concrete[index] in {"1", "2"}
    return "True" in shape.concrete[5:]


# ── What reads and writes ───────────────────────────────────────────────────────────────────────


def _pass_formula(times: float) -> Callable[[str, Sequence[_Tensor], Shape], OperatorDemand | None]:
    """Return the formula of an operator with so many passes over its largest tensor."""

    def formula(_operator: str, tensors: Sequence[_Tensor], _shape: Shape) -> OperatorDemand:
        return _move_demand(tensors, times * max(tensor.bytes for tensor in tensors))

    return formula


def _read_inputs(_operator: str, tensors: Sequence[_Tensor], _shape: Shape) -> OperatorDemand:
    return _move_demand(tensors, sum(tensor.bytes for tensor in tensors))


def _leave_open(_operator: str, _tensors: Sequence[_Tensor], _shape: Shape) -> None:
    """Leave open what depends on values, or was recorded as a list."""


_FORMULAS: Final = tuple(  # the first that matches
    (re.compile(pattern), formula)
    for pattern, formula in (
        (r"convolution_backward", _convolution_gradients),
        (
            r"::(_|cudnn_|miopen_|mkldnn_|thnn_|_slow_)?conv(olution|\dd|_depthwise)",
            _convolution_demand,
        ),
        (r"attention", _attention_demand),
        (r"::(mm|addmm|_addmm_activation|bmm|baddbmm|linear|matmul|_scaled_mm)$", _product_demand),
        (r"batch_norm.*backward", _pass_formula(5.0)),
        (r"batch_norm", _pass_formula(3.0)),
        (r"(layer|group|rms)_norm.*backward|softmax_backward", _pass_formula(3.0)),
        (r"(layer|group|rms)_norm|softmax|max_pool|avg_pool|upsample", _pass_formula(2.0)),
        (
            r"index|gather|scatter|embedding|sort|topk|unique|nonzero|_foreach|_fused|::cat$",
            _leave_open,
        ),
        (r"::(copy_|sum|mean|norm|max|min|all|any|fill_|zero_|nll_loss\w*)$", _read_inputs),
    )
)
