"""Attention that is not fused: its products and the softmax between them, found by their sizes.

Scores are a square of queries and keys for each head; what reads or writes a tensor of that shape
belongs to it. A fused kernel computes the same products and never writes the scores.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from gapless.model.change import Change
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.roofline import SAME, Roof, fewer_launches, kind_of, scales

FUSED: Final = re.compile(r"flash|fmha|efficient_attention|cudnn_attention|sdpa", re.IGNORECASE)
_LEAST: Final = 64  # keys: of fewer, scores are no matter
_EFFICIENCY: Final = Interval(0.6, 0.35, 0.15)  # of the peak, of fused kernels
_KEPT: Final = Interval(0.05, 0.2, 0.5)  # of the time, where no roofline is known
_LAUNCHES_GONE: Final = Interval(0.95, 0.9, 0.7)
_ONCE_MORE: Final = 1.25  # of the products of a backward: it makes the scores again, a fifth one
_SKIPPED: Final = 0.5  # of masked scores, what a kernel that knows the mask need not compute
_DROPPED: Final = ("dropout", "bernoulli")
# Measured with torch 2.13 on two processors, one and two threads, 64 to 1024 keys of 16 to 64
# numbers, forward and backward: with dropout 0.78 to 1.14 times what single operators took,
# without it 0.16 to 1.05, and mostly 0.44 to 0.75 of the speed of large products.
_STEPWISE: Final = Interval(0.75, 0.93, 1.1)
_SEEN: Final = 0.01  # of the time: the speed of what takes less is not well known
_REACHED: Final = Interval(0.9, 0.5, 0.35)  # of the best products' speed
_MASKS: Final = ("masked_fill", "where", "add")
_FORMS: Final = {"fp32": "tf32"}
_SLOW_FP32: Final = 3.0  # products in fp32, each made of three in TF32

_Square = tuple[int, int, int]  # elements; queries and keys, the smaller first


@dataclass(frozen=True)
class Unfused:
    """The rows of it, their time, and what the products compute."""

    rows: tuple[Work, ...]
    ns: int
    flops: float
    dtype: str | None
    launches: int
    calls: int  # of the softmax, forward and backward


def unfused(rows: Sequence[Work]) -> Unfused | None:
    """Find attention whose scores are written to memory; ``None`` where there is none."""
    scores = {
        _square(one)
        for work in rows
        if "softmax" in work.operator and "log_softmax" not in work.operator
        for one in _sizes(work)[:1]
        if len(one) > 2 and one[-1] >= _LEAST and one[-2] >= _LEAST  # noqa: PLR2004 - scores
    }
    found = [
        work
        for work in rows
        if kind_of(work) != "convolution"
        and (any(_square(one) in scores for one in _sizes(work)) or _makes(work, scores))
    ]
    if not scores or not found:
        return None
    products = [one for one in found if one.flops]
    heads = {_square(sizes) for one in products for sizes in _sizes(one)[:2]}
    found += [one for one in rows if one not in found and _lays_out(one, heads)]
    return Unfused(
        rows=tuple(found),
        ns=sum(one.ns for one in found),
        flops=sum(one.flops or 0.0 for one in products),
        dtype=next((one.dtype for one in products if one.dtype), None),
        launches=sum(one.launches for one in found),
        calls=sum(one.calls for one in found if "softmax" in one.operator),
    )


def fused(rows: Sequence[Work], found: Unfused, roof: Roof | None) -> tuple[Change, ...]:
    """Give what a fused kernel in its place changes."""
    factor = _factor(found, rows, roof)
    mine = set(map(id, found.rows))
    return (
        *scales(rows, lambda work: factor if id(work) in mine else SAME),
        *fewer_launches(rows, found.rows, _LAUNCHES_GONE),
    )


def _factor(found: Unfused, rows: Sequence[Work], roof: Roof | None) -> Interval:
    form = _FORMS.get(found.dtype or "", found.dtype or "")
    if not found.launches:
        return _on_processors(found, rows)
    peak = 0.0 if roof is None else roof.peaks.flops.get(form, 0.0)
    if not peak or not found.flops:
        return _KEPT
    slower = _SLOW_FP32 if found.dtype == "fp32" else 1.0
    needs = found.flops * slower / peak * 1e9 / found.ns
    fixed = 0.0 if roof is None else found.calls * roof.peaks.kernel_ns / found.ns
    return Interval(
        min(0.9, needs / _EFFICIENCY.low + fixed),
        min(1.0, needs / _EFFICIENCY.mid + 2 * fixed),
        min(1.1, needs / _EFFICIENCY.high + 4 * fixed),
    )


def _on_processors(found: Unfused, rows: Sequence[Work]) -> Interval:
    """Give what a fused kernel takes of the operators' time on processors.

    It computes the products block by block in their caches, in a backward those of a forward once
    more, and writes no scores: at the speed that the run's best products have, about. Never is it
    slower than the products and the softmax are now. At best it leaves out the half of the scores
    that a causal mask hides. With dropout torch (2.13) has no such kernel for processors: it calls
    the same operators from C++.
    """
    if any(name in one.operator for one in found.rows for name in _DROPPED):
        return _STEPWISE
    products = [one for one in found.rows if one.flops]
    soft = [one for one in found.rows if "softmax" in one.operator]
    again = _ONCE_MORE - 1
    once = _ns(soft) + _ns(products)
    back = [one for one in products if one.backward and not one.again]
    whole = once + again * _ns(back) + _ns(one for one in soft if not one.backward)
    flops = found.flops + again * sum(one.flops or 0.0 for one in back)
    whole_ns = _ns(found.rows)
    most = min(whole, 1.0 * whole_ns)
    best = max((one.flops or 0.0) / one.ns for one in rows if one.ns > _SEEN * whole_ns)
    needs = flops / best if best else most
    masked = any(name in one.operator for one in found.rows for name in _MASKS)
    shares = (_SKIPPED if masked else 1.0) / _REACHED.low, 1 / _REACHED.mid, 1 / _REACHED.high
    return Interval(*(min(most, needs * share) / whole_ns for share in shares))


def _ns(rows: Iterable[Work]) -> int:
    return sum(one.ns for one in rows)


def _makes(work: Work, scores: set[_Square]) -> bool:
    """Tell whether a product's result is shaped like scores."""
    pair = _sizes(work)[:2]
    if not work.flops or len(pair) < 2 or min(map(len, pair)) < 3:  # noqa: PLR2004 - batches
        return False
    return _square((*pair[0][:-1], pair[1][-1])) in scores


def _lays_out(work: Work, heads: set[_Square]) -> bool:
    """Tell whether a row copies queries, keys or values, as batches of products want them to lie.

    A fused kernel reads them by their strides.
    """
    copies = work.operator == "aten::copy_" and work.leaf == "busy.layout"
    return copies and any(_square(one) in heads for one in _sizes(work)[:1])


def _square(sizes: tuple[int, ...]) -> _Square:
    """Give what scores are known by, whatever heads and batch are joined and which way they lie."""
    low, high = sorted(sizes[-2:]) if len(sizes) > 2 else (0, 0)  # noqa: PLR2004 - heads
    return prod(sizes), low, high


def _sizes(work: Work) -> list[tuple[int, ...]]:
    """Read sizes as they are told: "[96, 1024, 64] [96, 64, 1024]"."""
    found = re.findall(r"\[([\d, ]*)\]", work.inputs or "")
    return [tuple(int(one) for one in text.split(",") if one.strip()) for text in found]
