"""Attention that is not fused: its products and the softmax between them, found by their sizes.

Scores are a square of queries and keys for each head; what reads or writes a tensor of that shape
belongs to it. A fused kernel computes the same products and never writes the scores.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from gapless.model.change import Change
from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import NO_CHANGE, Roof, kind_of, remove_launches, scale_changes

_MIN_KEYS: Final = 64  # keys: with fewer, scores do not matter
_EFFICIENCY: Final = Estimate(0.6, 0.35, 0.15)  # of the peak, of fused kernels
_KEPT_TIME: Final = Estimate(0.05, 0.2, 0.5)  # of the time, where no roofline is known
_LAUNCH_SAVING: Final = Estimate(0.95, 0.9, 0.7)
# of the products of a backward: it makes the scores again, a fifth one
_RECOMPUTE_FACTOR: Final = 1.25
_MASKED_SHARE: Final = 0.5  # of masked scores, what a kernel that knows the mask need not compute
_DROPOUTS: Final = ("dropout", "bernoulli")
# Measured with torch 2.13 on two processors, one and two threads, 64 to 1024 keys of 16 to 64
# numbers, forward and backward: with dropout 0.78 to 1.14 times what single operators took,
# without it 0.16 to 1.05, and mostly 0.44 to 0.75 of the speed of large products.
_STEPWISE: Final = Estimate(0.75, 0.93, 1.1)
_MIN_TIME_SHARE: Final = 0.01  # of the time: the speed of what takes less is not well known
_REACHED_SPEED: Final = Estimate(0.9, 0.5, 0.35)  # of the best products' speed
_MASKS: Final = ("masked_fill", "where", "add")
_FORMS: Final = {"fp32": "tf32"}
_SLOW_FP32: Final = 3.0  # products in fp32, each made of three in TF32

_Square = tuple[int, int, int]  # elements; queries and keys, the smaller first


class UnfusedAttention(Struct, frozen=True):
    """The rows of it, their time, and what the products compute."""

    rows: tuple[Work, ...]
    ns: int
    flops: float
    dtype: str | None
    launches: int
    calls: int  # of the softmax, forward and backward


def find_unfused(rows: Sequence[Work]) -> UnfusedAttention | None:
    """Find attention whose scores are written to memory; ``None`` where there is none."""
    scores = {
        _square(sizes)
        for work in rows
        if "softmax" in work.operator and "log_softmax" not in work.operator
        for sizes in sizes_of(work)[:1]
        if len(sizes) > 2 and sizes[-1] >= _MIN_KEYS and sizes[-2] >= _MIN_KEYS  # noqa: PLR2004 - scores
    }
    members = [
        work
        for work in rows
        if kind_of(work) != "convolution"
        and (
            any(_square(sizes) in scores for sizes in sizes_of(work)) or _makes_scores(work, scores)
        )
    ]
    if not scores or not members:
        return None
    products = [row for row in members if row.flops]
    heads = {_square(sizes) for row in products for sizes in sizes_of(row)[:2]}
    members += [row for row in rows if row not in members and _lays_out(row, heads)]
    return UnfusedAttention(
        rows=tuple(members),
        ns=sum(row.ns for row in members),
        flops=sum(row.flops or 0.0 for row in products),
        dtype=next((row.dtype for row in products if row.dtype), None),
        launches=sum(row.launches for row in members),
        calls=sum(row.calls for row in members if "softmax" in row.operator),
    )


def fusion_changes(
    rows: Sequence[Work], attention: UnfusedAttention, roof: Roof | None
) -> tuple[Change, ...]:
    """Return what a fused kernel in its place changes."""
    factor = _time_factor(attention, rows, roof)
    row_ids = set(map(id, attention.rows))
    return (
        *scale_changes(rows, lambda work: factor if id(work) in row_ids else NO_CHANGE),
        *remove_launches(rows, attention.rows, _LAUNCH_SAVING),
    )


def _time_factor(attention: UnfusedAttention, rows: Sequence[Work], roof: Roof | None) -> Estimate:
    form = _FORMS.get(attention.dtype or "", attention.dtype or "")
    if not attention.launches:
        return _processor_factor(attention, rows)
    peak = 0.0 if roof is None else roof.peaks.flops.get(form, 0.0)
    if not peak or not attention.flops:
        return _KEPT_TIME
    slower = _SLOW_FP32 if attention.dtype == "fp32" else 1.0
    needs = attention.flops * slower / peak * 1e9 / attention.ns
    fixed_share = 0.0 if roof is None else attention.calls * roof.peaks.kernel_ns / attention.ns
    return Estimate(
        min(0.9, needs / _EFFICIENCY.low + fixed_share),
        min(1.0, needs / _EFFICIENCY.mid + 2 * fixed_share),
        min(1.1, needs / _EFFICIENCY.high + 4 * fixed_share),
    )


def _processor_factor(attention: UnfusedAttention, rows: Sequence[Work]) -> Estimate:
    """Return what a fused kernel takes of the operators' time on processors.

    It computes the products block by block in their caches, in a backward those of a forward once
    more, and writes no scores: at about the speed of the run's best products. It is never slower
    than the products and the softmax are now. At best it leaves out the half of the scores that a
    causal mask hides. With dropout torch (2.13) has no such kernel for processors: it calls the
    same operators from C++.
    """
    if any(name in row.operator for row in attention.rows for name in _DROPOUTS):
        return _STEPWISE
    products = [row for row in attention.rows if row.flops]
    softmax_rows = [row for row in attention.rows if "softmax" in row.operator]
    extra = _RECOMPUTE_FACTOR - 1
    once_ns = _sum_ns(softmax_rows) + _sum_ns(products)
    backward_rows = [row for row in products if row.backward and not row.again]
    bound_ns = (
        once_ns
        + extra * _sum_ns(backward_rows)
        + _sum_ns(row for row in softmax_rows if not row.backward)
    )
    flops = attention.flops + extra * sum(row.flops or 0.0 for row in backward_rows)
    whole_ns = _sum_ns(attention.rows)
    limit_ns = min(bound_ns, 1.0 * whole_ns)
    best_speed = max(
        (row.flops or 0.0) / row.ns for row in rows if row.ns > _MIN_TIME_SHARE * whole_ns
    )
    needs = flops / best_speed if best_speed else limit_ns
    is_masked = any(name in row.operator for row in attention.rows for name in _MASKS)
    shares = (
        (_MASKED_SHARE if is_masked else 1.0) / _REACHED_SPEED.low,
        1 / _REACHED_SPEED.mid,
        1 / _REACHED_SPEED.high,
    )
    return Estimate(*(min(limit_ns, needs * share) / whole_ns for share in shares))


def _sum_ns(rows: Iterable[Work]) -> int:
    return sum(row.ns for row in rows)


def _makes_scores(work: Work, scores: set[_Square]) -> bool:
    """Return whether a product's result is shaped like scores."""
    pair = sizes_of(work)[:2]
    if not work.flops or len(pair) < 2 or min(map(len, pair)) < 3:  # noqa: PLR2004 - batches
        return False
    return _square((*pair[0][:-1], pair[1][-1])) in scores


def _lays_out(work: Work, heads: set[_Square]) -> bool:
    """Return whether a row copies queries, keys or values into the layout of batched products.

    A fused kernel reads them by their strides.
    """
    copies = work.operator == "aten::copy_" and work.leaf == "busy.layout"
    return copies and any(_square(sizes) in heads for sizes in sizes_of(work)[:1])


def _square(sizes: tuple[int, ...]) -> _Square:
    """Return a key for scores, independent of joined heads and batch and of their orientation."""
    low, high = sorted(sizes[-2:]) if len(sizes) > 2 else (0, 0)  # noqa: PLR2004 - heads
    return prod(sizes), low, high
