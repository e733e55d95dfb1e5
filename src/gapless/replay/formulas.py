"""What an operator must compute and move at least, from its recorded inputs alone.

A multiplication and its addition are two operations. Bytes count each input that is read and each
output that is written once, whatever a cache would save; what an operator must read twice (a batch
norm, for its statistics) counts twice. ``None`` where the inputs do not tell.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, cast

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
_BACKWARD: Final = 2.5  # of attention, of what its forward computes: it makes the products again


@dataclass(frozen=True)
class Demand:
    """The least that a call computes and moves."""

    flops: float
    bytes: float | None
    dtype: str | None


@dataclass(frozen=True)
class _Tensor:
    at: int  # of the arguments
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None
    width: int  # bytes of an element

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * self.width


def demand(operator: str, shape: Shape) -> Demand | None:
    """Give what a call of an operator needs at least; ``None`` if its inputs do not tell."""
    tensors = _tensors(shape)
    if not tensors:
        return None
    for pattern, formula in _FORMULAS:
        if pattern.search(operator):
            return formula(operator, tensors, shape)
    return _moved(tensors, sum(one.bytes for one in tensors) + max(one.bytes for one in tensors))


def dtype_of(shape: Shape) -> str | None:
    """Give the type of the first tensor of floating-point numbers: "fp32", "bf16" …."""
    return next((one.dtype for one in _tensors(shape) if one.dtype), None)


def channels_first(shape: Shape) -> bool | None:
    """Tell whether the first image lies in memory channel by channel; ``None`` without images."""
    for one in _tensors(shape):
        if len(one.sizes) != _IMAGE or len(one.strides) != _IMAGE:
            continue
        _, channels, height, width = one.sizes
        if channels > 1 and height * width > 1:
            return one.strides[1] != 1
    return None


# ── Inputs ──────────────────────────────────────────────────────────────────────────────────────


def _tensors(shape: Shape) -> list[_Tensor]:
    """Give the tensors among the arguments; those of a list one after the other."""
    found: list[_Tensor] = []
    for at, (dims, name) in enumerate(zip(shape.dims, shape.types, strict=False)):
        strides = shape.strides[at] if at < len(shape.strides) else ()
        for sizes, steps in _each(dims, strides):
            dtype = NAMES.get(name)
            width = SIZES[dtype] if dtype else _OTHER_SIZES.get(name)
            if width is not None and sizes:
                found.append(_Tensor(at, sizes, steps, dtype, width))
    return found


def _each(dims: object, strides: object) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    sizes = _whole(dims)
    return [] if sizes is None else [(sizes, _whole(strides) or ())]


def _whole(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, tuple):
        return None
    parts = cast("tuple[object, ...]", value)
    numbers = tuple(one for one in parts if isinstance(one, int))
    return numbers if len(numbers) == len(parts) else None


def _numbers(shape: Shape, at: int) -> tuple[int, ...] | None:
    """Read a list of integers among the arguments ("[1, 1]"); ``None`` if it was not recorded."""
    text = shape.concrete[at] if at < len(shape.concrete) else ""
    if not re.fullmatch(r"\[[-\d, ]*\]", text):
        return None
    return tuple(int(one) for one in re.findall(r"-?\d+", text))


def _is_true(shape: Shape, at: int) -> bool:
    return at < len(shape.concrete) and shape.concrete[at] == "True"


def _moved(tensors: Sequence[_Tensor], size: float) -> Demand:
    dtype = next((one.dtype for one in tensors if one.dtype), None)
    return Demand(0.0, float(size), dtype)


# ── Products ────────────────────────────────────────────────────────────────────────────────────


def _product(operator: str, tensors: Sequence[_Tensor], shape: Shape) -> Demand | None:
    """Count ``[…, m, k] × […, k, n]``; a linear layer's weights are ``[n, k]``."""
    del shape
    pair = [one for one in tensors if len(one.sizes) > 1 and one.dtype]
    if re.search(r"::(addmm|_addmm_activation|baddbmm)$", operator):
        pair = [one for one in pair if one.at in (1, 2)]
    if len(pair) < 2:  # noqa: PLR2004 - a product has two
        return None
    left, right = pair[:2]
    wide = right.sizes[-2] if operator.endswith("::linear") else right.sizes[-1]
    rows, deep = prod(left.sizes[:-1]), left.sizes[-1]
    out = rows * wide * left.width
    return Demand(2.0 * rows * wide * deep, float(left.bytes + right.bytes + out), left.dtype)


# ── Convolutions ────────────────────────────────────────────────────────────────────────────────

_PLACES: Final = {  # of stride, padding and dilation among the arguments
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


def _convolution(operator: str, tensors: Sequence[_Tensor], shape: Shape) -> Demand | None:
    if len(tensors) < 2:  # noqa: PLR2004 - images and weights
        return None
    images, weights = tensors[:2]
    name = operator.rpartition("::")[2]
    if "transpose" in name or (name in {"convolution", "_convolution"} and _is_true(shape, 6)):
        return _spread(images, weights)
    places = _PLACES.get(name)
    out = None if places is None else _windows(images.sizes[2:], weights.sizes[2:], shape, places)
    if out is None:
        return None
    made = images.sizes[0] * weights.sizes[0] * prod(out)
    moved = images.bytes + weights.bytes + made * images.width
    return Demand(2.0 * made * prod(weights.sizes[1:]), float(moved), images.dtype)


def _spread(images: _Tensor, weights: _Tensor) -> Demand:
    """Count a transposed convolution: each pixel is spread over a window."""
    flops = 2.0 * prod(images.sizes) * prod(weights.sizes[1:])
    return Demand(flops, float(2 * images.bytes + weights.bytes), images.dtype)


def _windows(
    sizes: Sequence[int], kernel: Sequence[int], shape: Shape, places: tuple[int, int, int]
) -> tuple[int, ...] | None:
    """Give how many windows of a kernel lie in an image, along each of its sides."""
    settings = [_numbers(shape, at) if at >= 0 else (1,) for at in places]
    if any(not one for one in settings) or len(sizes) != len(kernel):
        return None
    stride, padding, dilation = (
        tuple((one or (1,)) * len(sizes))[: len(sizes)] for one in settings
    )
    return tuple(
        (size + 2 * pad - wide * (of - 1) - 1) // step + 1
        for size, of, step, pad, wide in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )


def _convolution_backward(
    _operator: str, tensors: Sequence[_Tensor], shape: Shape
) -> Demand | None:
    """Count the gradients of images and weights, those of both that are asked for."""
    if len(tensors) < 3:  # noqa: PLR2004 - gradient, images, weights
        return None
    gradient, images, weights = tensors[:3]
    pixels = images if _is_true(shape, 7) else gradient
    asked = shape.concrete[10] if len(shape.concrete) > 10 else ""  # noqa: PLR2004 - output_mask
    wanted = [one.strip() == "True" for one in asked.strip("[]").split(",")][:2]
    many = sum(wanted) if len(wanted) == 2 else 2  # noqa: PLR2004
    flops = 2.0 * prod(pixels.sizes) * prod(weights.sizes[1:]) * many
    moved = many * (gradient.bytes + images.bytes + weights.bytes)
    return Demand(flops, float(moved), gradient.dtype)


# ── Attention ───────────────────────────────────────────────────────────────────────────────────


def _attention(operator: str, tensors: Sequence[_Tensor], shape: Shape) -> Demand | None:
    """Count both products; half of them where later tokens are masked."""
    back = "backward" in operator
    parts = [one for one in tensors if len(one.sizes) == _IMAGE][int(back) :]
    if len(parts) < 3:  # noqa: PLR2004 - queries, keys, values
        return None
    queries, keys, values = parts[:3]
    at = 2 if re.search(r"scaled_dot_product|cudnn", operator) else 1  # where tokens are counted
    flops = (
        2.0 * prod(queries.sizes) * keys.sizes[at] + 2.0 * prod(values.sizes) * queries.sizes[at]
    )
    flops *= 0.5 if _is_causal(operator, shape) else 1.0
    moved = 2 * queries.bytes + keys.bytes + values.bytes
    if back:
        return Demand(_BACKWARD * flops, 2.0 * moved, queries.dtype)
    return Demand(flops, float(moved), queries.dtype)


def _is_causal(operator: str, shape: Shape) -> bool:
    """Tell whether later tokens are masked: a flag, or of memory-efficient attention a number."""
    if "_efficient_attention" in operator and "scaled" not in operator:
        at = 14 if "backward" in operator else 9
        return at < len(shape.concrete) and shape.concrete[at] in {"1", "2"}
    return "True" in shape.concrete[5:]


# ── What reads and writes ───────────────────────────────────────────────────────────────────────


def _passes(times: float) -> Callable[[str, Sequence[_Tensor], Shape], Demand | None]:
    """Give the formula of what goes so many times over its largest tensor."""

    def formula(_operator: str, tensors: Sequence[_Tensor], _shape: Shape) -> Demand:
        return _moved(tensors, times * max(one.bytes for one in tensors))

    return formula


def _inputs(_operator: str, tensors: Sequence[_Tensor], _shape: Shape) -> Demand:
    return _moved(tensors, sum(one.bytes for one in tensors))


def _unknown(_operator: str, _tensors: Sequence[_Tensor], _shape: Shape) -> None:
    """Leave open what depends on values, or was recorded as a list."""


_FORMULAS: Final = tuple(  # the first that matches
    (re.compile(pattern), formula)
    for pattern, formula in (
        (r"convolution_backward", _convolution_backward),
        (r"::(_|cudnn_|miopen_|mkldnn_|thnn_|_slow_)?conv(olution|\dd|_depthwise)", _convolution),
        (r"attention", _attention),
        (r"::(mm|addmm|_addmm_activation|bmm|baddbmm|linear|matmul|_scaled_mm)$", _product),
        (r"batch_norm.*backward", _passes(5.0)),
        (r"batch_norm", _passes(3.0)),
        (r"(layer|group|rms)_norm.*backward|softmax_backward", _passes(3.0)),
        (r"(layer|group|rms)_norm|softmax|max_pool|avg_pool|upsample", _passes(2.0)),
        (
            r"index|gather|scatter|embedding|sort|topk|unique|nonzero|_foreach|_fused|::cat$",
            _unknown,
        ),
        (r"::(copy_|sum|mean|norm|max|min|all|any|fill_|zero_|nll_loss\w*)$", _inputs),
    )
)
