"""What another format, or another layout of images, changes of the kernels that were recorded.

``Roof`` gives what products take; where it cannot, priors are used. Autocast also casts, which the
device does along with each product, and the host launches.
"""

import re
from collections.abc import Sequence
from math import hypot
from typing import Final

from gapless.model.change import Change
from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline.formulas import SIZES
from gapless.roofline.roofline import (
    MATH,
    NO_CHANGE,
    Roof,
    add_casts,
    is_memory,
    kind_of,
    scale_changes,
)

_TF32: Final = Estimate(0.15, 0.35, 0.95)  # of products, where no roofline is known
_AMP: Final = Estimate(0.1, 0.3, 0.95)
_CASTS: Final = Estimate(0.2, 0.6, 1.1)  # bytes, of those that products in fp32 read and write
_CAST_LAUNCHES: Final = Estimate(3.0, 5.0, 7.0)  # a product: weights, bias, input; and back again
_STAYS: Final = re.compile(r"layer_norm|group_norm|softmax|_loss|norm\b|cumsum|exp|log|pow|prod")
_HALVED: Final = Estimate(0.5, 0.8, 1.0)  # of memory-bound kernels, where their inputs become half
_AS_IT_IS: Final = Estimate(0.75, 1.0, 1.05)  # of those that autocast keeps in fp32
_TURNED: Final = Estimate(0.0, 0.05, 0.4)  # of layout changes of images, once the layout is right
_IMAGE_KERNELS: Final = re.compile(r"batch_norm|group_norm|pool|upsample|interpolate")
# Of the bandwidth, what kernels of images with channels last reach: norms read twice what they
# write once, and torch's forward ones do not keep it on the chip.
_BANDWIDTH: Final = (
    (re.compile(r"norm.*backward"), Estimate(0.75, 0.5, 0.3)),
    (re.compile(r"norm"), Estimate(0.5, 0.3, 0.15)),
    (re.compile(r""), Estimate(0.4, 0.25, 0.12)),
)
# torch's own batch norms with channels last (``Normalization.cuh``): blocks of 512 threads for each
# 32 channels, 128 at most; a thread asks for four numbers at a time, of each of what it reads.
_OWN_NORM: Final = re.compile(r"at::native::batch_norm")
_THREADS: Final = 512 * 128
_AT_A_TIME: Final = 4
_ANSWER_S: Final = 600e-9  # of memory that is not cached, to a GPU that asks for much
_CONVOLVED: Final = Estimate(0.6, 0.3, 0.1)  # of the peak, of convolutions on tensor cores
_TENSOR_CORES: Final = Estimate(0.85, 1.0, 1.05)  # of convolutions that use them already
_TURNS: Final = re.compile(r"nchwToNhwc|nhwcToNchw|NCHW|NHWC|transpose", re.IGNORECASE)

_SINGLE_CHANNEL: Final = re.compile(r"\[\d+, 1, \d+, \d+\]")  # of images, and of their filters


def tf32_changes(
    rows: Sequence[Work], roof: Roof | None, *, convolutions: bool
) -> tuple[Change, ...]:
    """Return what rounding fp32 products to TF32 changes; convolutions only if not done yet."""

    def factor(work: Work) -> Estimate:
        if not _is_single(work) or work.leaf == "busy.tc_math" or kind_of(work) == "attention":
            return NO_CHANGE
        if kind_of(work) == "convolution" and not convolutions:
            return NO_CHANGE
        estimate = None if roof is None else roof.factor(work, "fp32", "tf32")
        return estimate or _TF32

    return scale_changes(rows, factor)


def half_changes(
    rows: Sequence[Work], roof: Roof | None, form: str, host_events: int | None = None
) -> tuple[Change, ...]:
    """Return what autocast to "bf16" or "fp16" changes: products, memory, casts, their launches.

    ``host_events``: those traced in the rows' windows, to know what a cast costs the host.
    """

    def factor(work: Work) -> Estimate:
        if work.dtype != "fp32":
            return NO_CHANGE
        if work.leaf in MATH:
            return _half_product(work, roof, form)
        return _keep_launches(work, roof, _memory_factor(work)) if is_memory(work) else NO_CHANGE

    products = sum(
        row.calls for row in rows if _is_single(row) and not row.backward and not row.again
    )
    extra = Estimate(*(products * end for end in _ends(_CAST_LAUNCHES)))
    return (*scale_changes(rows, factor), *add_casts(rows, extra, host_events))


def _half_product(work: Work, roof: Roof | None, form: str) -> Estimate:
    if not _is_single(work):
        return NO_CHANGE
    on_cores = work.leaf == "busy.tc_math" and kind_of(work) != "attention"
    estimate = None if roof is None else roof.factor(work, "tf32" if on_cores else "fp32", form)
    if roof is None or estimate is None or work.bytes is None:
        return _AMP
    cast = work.bytes / roof.peaks.bandwidth * 1e9 / work.ns
    return Estimate(
        estimate.low + _CASTS.low * cast,
        estimate.mid + _CASTS.mid * cast,
        estimate.high + _CASTS.high * cast,
    )


def _memory_factor(work: Work) -> Estimate:
    return _AS_IT_IS if _STAYS.search(work.operator) else _HALVED


def _keep_launches(work: Work, roof: Roof | None, factor: Estimate) -> Estimate:
    """Keep the part of a row that does not depend on its bytes: the time of empty kernels."""
    if roof is None:
        return factor
    fixed = min(1.0, work.launches * roof.peaks.kernel_ns / work.ns)
    return Estimate(*(fixed + (1 - fixed) * end for end in _ends(factor)))


def channels_last_changes(
    rows: Sequence[Work], roof: Roof | None, *, half: bool, tf32: bool
) -> tuple[Change, ...]:
    """Return what images with channels last change: no layout changes, and streamed memory.

    ``half``: convolutions run in half precision, ``tf32``: those in fp32 may be rounded.
    """

    def factor(work: Work) -> Estimate:
        if convolves_single_channel(work):
            return NO_CHANGE
        if work.leaf == "busy.layout":
            return _TURNED if _TURNS.search(work.kernel or "") else NO_CHANGE
        if not work.channels_first or roof is None:
            return NO_CHANGE
        if work.leaf in MATH:
            return _convolution_factor(work, roof, half=half, tf32=tf32)
        return _stream_factor(work, roof) if _IMAGE_KERNELS.search(work.operator) else NO_CHANGE

    return scale_changes(rows, factor)


def convolves_single_channel(work: Work) -> bool:
    """Return whether a row convolves images of one channel, of which both layouts are the same."""
    return len(_SINGLE_CHANNEL.findall(work.inputs or "")) > 1


def _convolution_factor(work: Work, roof: Roof, *, half: bool, tf32: bool) -> Estimate:
    if work.leaf == "busy.tc_math":
        return _TENSOR_CORES
    form = work.dtype if half else "tf32" if tf32 else None
    peak = roof.peaks.flops.get(form or "")
    if not peak or work.flops is None or work.bytes is None:
        return NO_CHANGE
    ends: list[float] = []
    for share in _ends(_CONVOLVED):
        needs = work.flops / peak / share + work.bytes / roof.peaks.bandwidth
        ends.append((needs * 1e9 + work.launches * roof.peaks.kernel_ns) / work.ns)
    return Estimate(*(min(1.0, end) for end in sorted(ends)))


def _stream_factor(work: Work, roof: Roof) -> Estimate:
    """Return the factor of a kernel that reads memory in order, if it does not do so already."""
    if not work.bytes:
        return NO_CHANGE
    moved_ns = work.bytes / roof.peaks.bandwidth * 1e9
    ask_ns = _find_ask_ns(work)
    fixed = work.launches * roof.peaks.kernel_ns
    reached_share = next(speed for pattern, speed in _BANDWIDTH if pattern.search(work.operator))
    ends = sorted(
        (hypot(moved_ns / share, ask_ns) + fixed) / work.ns for share in _ends(reached_share)
    )
    return Estimate(min(1.0, ends[0]), min(1.0, ends[1]), min(1.05, ends[2]))


def _find_ask_ns(work: Work) -> float:
    """Return how long a norm takes to request its bytes, in ns: few channels make few threads.

    By Little's law the data in flight is what arrives within one latency. Which library computes
    norms does not depend on the layout: cuDNN's are excluded.
    """
    sizes = re.match(r"\[\d+, (\d+), ", work.inputs or "")
    if not sizes or not work.bytes or not _OWN_NORM.search(work.kernel or ""):
        return 0.0
    blocks = -(-int(sizes[1]) // 32)
    read = 2 if "backward" in work.operator else 1
    under_way = blocks * _THREADS * _AT_A_TIME * read * SIZES.get(work.dtype or "", 4)
    return work.bytes / under_way * _ANSWER_S * 1e9


def _is_single(work: Work) -> bool:
    """Return whether a row is products in fp32."""
    return work.leaf in MATH and work.dtype == "fp32"


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.low, estimate.mid, estimate.high
