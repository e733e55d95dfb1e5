"""What another format, or another layout of images, changes of the kernels that were recorded.

``Roof`` tells what products take; where it cannot, priors stand in. Autocast also casts, which the
device does beside each product, and the host launches.
"""

import re
from collections.abc import Sequence
from math import hypot
from typing import Final

from gapless.model.change import Change
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.formulas import SIZES
from gapless.replay.roofline import (
    MATH,
    SAME,
    Roof,
    is_memory,
    kind_of,
    more_casts,
    scales,
)

_TF32: Final = Interval(0.15, 0.35, 0.95)  # of products, where no roofline is known
_AMP: Final = Interval(0.1, 0.3, 0.95)
_CASTS: Final = Interval(0.2, 0.6, 1.1)  # bytes, of those that products in fp32 read and write
_CAST_LAUNCHES: Final = Interval(3.0, 5.0, 7.0)  # a product: weights, bias, input; and back again
_STAYS: Final = re.compile(r"layer_norm|group_norm|softmax|_loss|norm\b|cumsum|exp|log|pow|prod")
_HALVED: Final = Interval(0.5, 0.8, 1.0)  # of memory-bound kernels, where their inputs become half
_AS_IT_IS: Final = Interval(0.75, 1.0, 1.05)  # of those that autocast keeps in fp32
_TURNED: Final = Interval(0.0, 0.05, 0.4)  # of turning images round, once the layout is right
_IMAGE_KERNELS: Final = re.compile(r"batch_norm|group_norm|pool|upsample|interpolate")
# Of the bandwidth, what kernels of images with channels last reach: norms read twice what they
# write once, and torch's forward ones do not keep it on the chip.
_BANDWIDTH: Final = (
    (re.compile(r"norm.*backward"), Interval(0.75, 0.5, 0.3)),
    (re.compile(r"norm"), Interval(0.5, 0.3, 0.15)),
    (re.compile(r""), Interval(0.4, 0.25, 0.12)),
)
# torch's own batch norms with channels last (``Normalization.cuh``): blocks of 512 threads for each
# 32 channels, 128 at most; a thread asks for four numbers at a time, of each of what it reads.
_OWN_NORM: Final = re.compile(r"at::native::batch_norm")
_THREADS: Final = 512 * 128
_AT_A_TIME: Final = 4
_ANSWER_S: Final = 600e-9  # of memory that is not cached, to a GPU that asks for much
_CONVOLVED: Final = Interval(0.6, 0.3, 0.1)  # of the peak, of convolutions on tensor cores
_TENSOR_CORES: Final = Interval(0.85, 1.0, 1.05)  # of convolutions that use them already
_TURNS: Final = re.compile(r"nchwToNhwc|nhwcToNchw|NCHW|NHWC|transpose", re.IGNORECASE)


def in_tf32(rows: Sequence[Work], roof: Roof | None, *, convolutions: bool) -> tuple[Change, ...]:
    """Give what rounding fp32 products to TF32 changes; of convolutions if they are not so yet."""

    def factor(work: Work) -> Interval:
        if not _is_single(work) or work.leaf == "busy.tc_math" or kind_of(work) == "attention":
            return SAME
        if kind_of(work) == "convolution" and not convolutions:
            return SAME
        found = None if roof is None else roof.factor(work, "fp32", "tf32")
        return found or _TF32

    return scales(rows, factor)


def in_half(
    rows: Sequence[Work], roof: Roof | None, form: str, host_events: int | None = None
) -> tuple[Change, ...]:
    """Give what autocast to "bf16" or "fp16" changes: products, memory, casts, their launches.

    ``host_events``: that were traced in the rows' windows, to tell what a cast costs the host.
    """

    def factor(work: Work) -> Interval:
        if work.dtype != "fp32":
            return SAME
        if work.leaf in MATH:
            return _halved_product(work, roof, form)
        return _with_launches(work, roof, _memory(work)) if is_memory(work) else SAME

    products = sum(
        one.calls for one in rows if _is_single(one) and not one.backward and not one.again
    )
    extra = Interval(*(products * one for one in _ends(_CAST_LAUNCHES)))
    return (*scales(rows, factor), *more_casts(rows, extra, host_events))


def _halved_product(work: Work, roof: Roof | None, form: str) -> Interval:
    if not _is_single(work):
        return SAME
    on_cores = work.leaf == "busy.tc_math" and kind_of(work) != "attention"
    found = None if roof is None else roof.factor(work, "tf32" if on_cores else "fp32", form)
    if roof is None or found is None or work.bytes is None:
        return _AMP
    cast = work.bytes / roof.peaks.bandwidth * 1e9 / work.ns
    return Interval(
        found.low + _CASTS.low * cast,
        found.mid + _CASTS.mid * cast,
        found.high + _CASTS.high * cast,
    )


def _memory(work: Work) -> Interval:
    return _AS_IT_IS if _STAYS.search(work.operator) else _HALVED


def _with_launches(work: Work, roof: Roof | None, factor: Interval) -> Interval:
    """Leave alone what of a row is not its bytes: the time of kernels that do nothing."""
    if roof is None:
        return factor
    fixed = min(1.0, work.launches * roof.peaks.kernel_ns / work.ns)
    return Interval(*(fixed + (1 - fixed) * one for one in _ends(factor)))


def channels_last(
    rows: Sequence[Work], roof: Roof | None, *, half: bool, tf32: bool
) -> tuple[Change, ...]:
    """Give what images with channels last change: nothing is turned round, and memory streams.

    ``half``: convolutions run in half precision, ``tf32``: those in fp32 may be rounded.
    """

    def factor(work: Work) -> Interval:
        if work.leaf == "busy.layout":
            return _TURNED if _TURNS.search(work.kernel or "") else SAME
        if not work.channels_first or roof is None:
            return SAME
        if work.leaf in MATH:
            return _convolution(work, roof, half=half, tf32=tf32)
        return _streamed(work, roof) if _IMAGE_KERNELS.search(work.operator) else SAME

    return scales(rows, factor)


def _convolution(work: Work, roof: Roof, *, half: bool, tf32: bool) -> Interval:
    if work.leaf == "busy.tc_math":
        return _TENSOR_CORES
    form = work.dtype if half else "tf32" if tf32 else None
    peak = roof.peaks.flops.get(form or "")
    if not peak or work.flops is None or work.bytes is None:
        return SAME
    ends: list[float] = []
    for share in _ends(_CONVOLVED):
        needs = work.flops / peak / share + work.bytes / roof.peaks.bandwidth
        ends.append((needs * 1e9 + work.launches * roof.peaks.kernel_ns) / work.ns)
    return Interval(*(min(1.0, one) for one in sorted(ends)))


def _streamed(work: Work, roof: Roof) -> Interval:
    """Give what a kernel takes that reads memory in order, if it does not do so already."""
    if not work.bytes:
        return SAME
    moved = work.bytes / roof.peaks.bandwidth * 1e9
    asked = _asked_for(work)
    fixed = work.launches * roof.peaks.kernel_ns
    reached = next(found for pattern, found in _BANDWIDTH if pattern.search(work.operator))
    ends = sorted((hypot(moved / share, asked) + fixed) / work.ns for share in _ends(reached))
    return Interval(min(1.0, ends[0]), min(1.0, ends[1]), min(1.05, ends[2]))


def _asked_for(work: Work) -> float:
    """Give how long a norm takes to ask for its bytes, in ns: few channels make few threads.

    By Little's law what is under way at a time is all that comes within an answer's time. Which
    library computes norms does not depend on the layout: cuDNN's are not meant.
    """
    sizes = re.match(r"\[\d+, (\d+), ", work.inputs or "")
    if not sizes or not work.bytes or not _OWN_NORM.search(work.kernel or ""):
        return 0.0
    blocks = -(-int(sizes[1]) // 32)
    read = 2 if "backward" in work.operator else 1
    under_way = blocks * _THREADS * _AT_A_TIME * read * SIZES.get(work.dtype or "", 4)
    return work.bytes / under_way * _ANSWER_S * 1e9


def _is_single(work: Work) -> bool:
    """Tell whether a row is products in fp32."""
    return work.leaf in MATH and work.dtype == "fp32"


def _ends(one: Interval) -> tuple[float, float, float]:
    return one.low, one.mid, one.high
