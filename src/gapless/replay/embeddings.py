"""Gradients as large as tables of which few rows were looked up, and what sparse ones leave of it.

A dense gradient is filled with zeros from end to end, and the optimizer reads and writes the whole
table, its moments too. A sparse gradient holds the rows that were looked up. Its own calls remain:
they were timed in torch 2.13 on one processor, in tables from 256 to 500,000 rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.roofline import SAME, Roof
from gapless.replay.shorter import sizes_of

Size = tuple[int, ...]
# On devices torch looks rows up by one of the last two, seen in 2.11.
_LOOKUP: Final = re.compile(r"::_?embedding(_bag)?(_forward_only)?$|::(index_select|gather)$")
_BACKWARD: Final = re.compile(r"embedding.*backward")
_PRODUCT: Final = re.compile(r"::(addmm|mm|bmm|baddbmm|matmul|linear|_addmm_activation)$")
_OPTIMIZER: Final = "busy.optimizer"
_MOMENTUM: Final = re.compile(r"mul_$|_fused_sgd")
_FEW: Final = 0.25  # of the rows of a table: with more, sparse gradients hardly pay
# What sparse gradients take of a processor, in ns, of each table and step.
_GRADIENT: Final = Interval(15_000.0, 50_000.0, 120_000.0)
_STEP: Final = Interval(8_000.0, 20_000.0, 50_000.0)
_STEP_OF_ADAM: Final = Interval(120_000.0, 200_000.0, 400_000.0)
# Kernels that sparse gradients take more than dense ones, of each table and step.
LAUNCHES: Final = Interval(2.0, 5.0, 12.0)
LAUNCHES_OF_ADAM: Final = Interval(12.0, 25.0, 45.0)


@dataclass(frozen=True)
class Tables:
    """Tables of which few rows are looked up, and what goes over all of their rows."""

    looked_up: Mapping[Size, int]  # by the size of the table: rows at most, of one call
    calls: int  # lookups of such tables
    share: float  # of the elements of all tables
    of_parameters: float = 0.0  # the share of all parameters that lies in such tables
    rows: tuple[Work, ...] = ()

    @property
    def largest(self) -> Size:
        """Give the size of the largest of them."""
        return max(self.looked_up, key=prod)

    @property
    def ns(self) -> float:
        """Give the time in which whole tables are gone over."""
        return sum(one.ns * self.part(one) for one in self.rows)

    def part(self, work: Work) -> float:
        """Give which part of a row of work goes over such tables from end to end."""
        if _LOOKUP.search(work.operator):
            return 0.0
        if _BACKWARD.search(work.operator):
            return (
                0.0 if work.launches else self.share
            )  # a device's zeros are a kernel of their own
        sizes = [one for one in sizes_of(work) if one]
        if not sizes and work.leaf == _OPTIMIZER:  # all parameters at once: no trace tells which
            return self.of_parameters
        mine = sum(prod(one) for one in sizes if one in self.looked_up)
        return mine / sum(map(prod, sizes)) if mine else 0.0

    @property
    def touched(self) -> float:
        """Give which share of such tables' rows is looked up, at most."""
        whole = sum(one[0] for one in self.looked_up)
        return sum(self.looked_up.values()) / whole


def dense_tables(rows: Sequence[Work], parameters: float = 0.0) -> Tables | None:
    """Find tables with dense gradients of which few rows are looked up.

    ``parameters``: of the model, times the forward passes that the rows are of; 0: not known.

    A matrix of that size in a product may be the table itself (tied to the output layer): its
    gradient is dense in any case, and so such tables are left out.
    """
    looked = [one for one in rows if not one.backward and _table(one) is not None]
    multiplied = {
        size for one in rows if _PRODUCT.search(one.operator) for size in sizes_of(one)[:3]
    }
    found: dict[Size, int] = {}
    for one in looked:
        size = _table(one) or ()
        found[size] = max(found.get(size, 0), _indices(one))
    few = {
        size: many
        for size, many in found.items()
        if many <= _FEW * size[0] and size not in multiplied and size[::-1] not in multiplied
    }
    if not few or not any(_BACKWARD.search(one.operator) for one in rows):
        return None
    mine = [one for one in looked if _table(one) in few]
    elements = sum(prod(_table(one) or ()) * one.calls for one in mine)
    whole = sum(prod(_table(one) or ()) * one.calls for one in looked)
    of_all = min(1.0, elements / parameters) if parameters else 0.0
    tables = Tables(few, sum(one.calls for one in mine), elements / whole, of_all)
    return replace(tables, rows=tuple(one for one in rows if tables.part(one)))


def sparsely(
    tables: Tables, roof: Roof | None, *, on_device: bool, adam: bool
) -> Callable[[Work], Interval]:
    """Give the factor by which rows of work take another time with sparse gradients."""
    mine = set(map(id, tables.rows))
    stepped = [one for one in tables.rows if one.leaf == _OPTIMIZER]
    stepping = sum(one.ns * tables.part(one) for one in stepped)
    whole = not adam and any(_MOMENTUM.search(one.operator) for one in stepped)

    def factor(work: Work) -> Interval:
        if id(work) not in mine:
            return SAME
        backward = _BACKWARD.search(work.operator) is not None
        if on_device:
            least = 0.0 if roof is None else work.launches * roof.peaks.kernel_ns / work.ns
            fixed = Interval(0.0, 0.0, min(1.0, least))
        elif work.leaf == _OPTIMIZER:
            fixed = _over(_STEP_OF_ADAM if adam else _STEP, tables.calls, stepping)
        else:
            fixed = _over(_GRADIENT, work.calls, work.ns) if backward else _over(_STEP, 0, 1)
        left = _left(tables.touched, fixed, tables.part(work))
        if whole and work.leaf == _OPTIMIZER:  # a momentum is moved in all rows, as before
            return Interval(left.low, left.mid, max(1.0, left.high))
        return left

    return factor


def _over(each: Interval, many: int, ns: float) -> Interval:
    """Give so many fixed costs as a share of a time."""
    return Interval(*(one * many / max(ns, 1.0) for one in (each.low, each.mid, each.high)))


def _left(touched: float, fixed: Interval, part: float) -> Interval:
    """Give what is left of a row: of the part that walks over tables, the rest as it is.

    At the low end half of the rows that are looked up are the same.
    """
    ends = (touched / 2 + fixed.low, touched + fixed.mid, 2 * touched + fixed.high)
    return Interval(*(1 - part * (1 - one) for one in ends))


def _table(work: Work) -> Size | None:
    """Give the size of the table that a row looks up, ``None`` if it looks none up."""
    sizes = sizes_of(work)
    if not _LOOKUP.search(work.operator) or len(sizes) < 2 or len(sizes[0]) != 2:  # noqa: PLR2004
        return None
    whole_rows = len(sizes[1]) == 2 and sizes[1][1] == sizes[0][1]  # noqa: PLR2004
    return None if _by_gather(work) and not whole_rows else sizes[0]


def _indices(work: Work) -> int:
    """Count the rows that a call looks up."""
    indices = sizes_of(work)[1]
    return indices[0] if _by_gather(work) else prod(indices)


def _by_gather(work: Work) -> bool:
    """Tell whether there is an index for each number and not for each row."""
    return work.operator.endswith("::gather")
