"""Gradients as large as tables of which few rows were looked up, and the gain of sparse ones.

A dense gradient is filled with zeros from end to end, and the optimizer reads and writes the whole
table, its moments too. A sparse gradient holds the rows that were looked up. Its own calls remain:
they were timed in torch 2.13 on one processor, in tables from 256 to 500,000 rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import NO_CHANGE, Roof

Size = tuple[int, ...]
# On devices torch looks rows up by one of the last two, seen in 2.11.
_LOOKUP: Final = re.compile(r"::_?embedding(_bag)?(_forward_only)?$|::(index_select|gather)$")
_BACKWARD: Final = re.compile(r"embedding.*backward")
_PRODUCT: Final = re.compile(r"::(addmm|mm|bmm|baddbmm|matmul|linear|_addmm_activation)$")
_OPTIMIZER: Final = "busy.optimizer"
_FUSED_ADAM: Final = "_fused_adam"
_MOMENTUM: Final = re.compile(r"mul_$|_fused_sgd")
_MAX_ROW_SHARE: Final = 0.25  # of the rows of a table: with more, sparse gradients hardly pay
# What sparse gradients take of a processor, in ns, of each table and step.
_GRADIENT: Final = Estimate(15_000.0, 50_000.0, 120_000.0)
_STEP: Final = Estimate(8_000.0, 20_000.0, 50_000.0)
_STEP_OF_ADAM: Final = Estimate(120_000.0, 200_000.0, 400_000.0)
# What a looked-up row takes, of what it takes in a dense pass over tables. SparseAdam allocates and
# passes over these rows some fifteen times, where one fused call reads and writes each number once:
# 9 to 25 times as long, timed in 1,000 to 100,000 rows.
_ROWS: Final = Estimate(0.5, 1.0, 2.0)
_ROWS_OF_ADAM: Final = Estimate(1.0, 2.5, 5.0)
_ROWS_OF_FUSED_ADAM: Final = Estimate(6.0, 12.0, 25.0)
# Kernels that sparse gradients take more than dense ones, of each table and step.
LAUNCHES: Final = Estimate(2.0, 5.0, 12.0)
LAUNCHES_OF_ADAM: Final = Estimate(12.0, 25.0, 45.0)


class EmbeddingTables(Struct, frozen=True):
    """Tables of which few rows are looked up, and what goes over all of their rows."""

    rows_by_size: Mapping[Size, int]  # by the size of the table: rows at most, of one call
    calls: int  # lookups of such tables
    share: float  # of the elements of all tables
    parameter_share: float = 0.0  # the share of all parameters that lies in such tables
    rows: tuple[Work, ...] = ()

    @property
    def largest(self) -> Size:
        """Return the size of the largest of them."""
        return max(self.rows_by_size, key=prod)

    @property
    def ns(self) -> float:
        """Return the time of passes over whole tables."""
        return sum(row.ns * self.table_share(row) for row in self.rows)

    def table_share(self, work: Work) -> float:
        """Return which part of a row of work goes over such tables from end to end."""
        if _LOOKUP.search(work.operator):
            return 0.0
        if _BACKWARD.search(work.operator):
            return (
                0.0 if work.launches else self.share
            )  # a device's zeros are a kernel of their own
        sizes = [size for size in sizes_of(work) if size]
        if not sizes and work.leaf == _OPTIMIZER:  # all parameters at once: no trace shows which
            return self.parameter_share
        table_elements = sum(prod(size) for size in sizes if size in self.rows_by_size)
        return table_elements / sum(map(prod, sizes)) if table_elements else 0.0

    @property
    def row_share(self) -> float:
        """Return which share of such tables' rows is looked up, at most."""
        total_rows = sum(size[0] for size in self.rows_by_size)
        return sum(self.rows_by_size.values()) / total_rows


def dense_tables(rows: Sequence[Work], parameters: float = 0.0) -> EmbeddingTables | None:
    """Find tables with dense gradients of which few rows are looked up.

    ``parameters``: of the model, times the forward passes that the rows are of; 0: not known.

    A matrix of that size in a product may be the table itself (tied to the output layer): its
    gradient is dense in any case, and so such tables are left out.
    """
    lookups = [row for row in rows if not row.backward and _table_size(row) is not None]
    product_sizes = {
        size for row in rows if _PRODUCT.search(row.operator) for size in sizes_of(row)[:3]
    }
    rows_by_size: dict[Size, int] = {}
    for row in lookups:
        size = _table_size(row) or ()
        rows_by_size[size] = max(rows_by_size.get(size, 0), _count_rows(row))
    few_rows = {
        size: count
        for size, count in rows_by_size.items()
        if count <= _MAX_ROW_SHARE * size[0]
        and size not in product_sizes
        and size[::-1] not in product_sizes
    }
    if not few_rows or not any(_BACKWARD.search(row.operator) for row in rows):
        return None
    few_lookups = [row for row in lookups if _table_size(row) in few_rows]
    elements = sum(prod(_table_size(row) or ()) * row.calls for row in few_lookups)
    all_elements = sum(prod(_table_size(row) or ()) * row.calls for row in lookups)
    parameter_share = min(1.0, elements / parameters) if parameters else 0.0
    tables = EmbeddingTables(
        few_rows, sum(row.calls for row in few_lookups), elements / all_elements, parameter_share
    )
    return replace(tables, rows=tuple(row for row in rows if tables.table_share(row)))


def sparse_factor(
    tables: EmbeddingTables, roof: Roof | None, *, on_device: bool, adam: bool
) -> Callable[[Work], Estimate]:
    """Return the factor by which rows of work take another time with sparse gradients."""
    row_ids = set(map(id, tables.rows))
    optimizer_rows = [row for row in tables.rows if row.leaf == _OPTIMIZER]
    optimizer_ns = sum(row.ns * tables.table_share(row) for row in optimizer_rows)
    is_fused = any(_FUSED_ADAM in row.operator for row in optimizer_rows)
    adam_rows = _ROWS_OF_FUSED_ADAM if is_fused else _ROWS_OF_ADAM
    has_momentum = not adam and any(_MOMENTUM.search(row.operator) for row in optimizer_rows)

    def factor(work: Work) -> Estimate:
        if id(work) not in row_ids:
            return NO_CHANGE
        backward = _BACKWARD.search(work.operator) is not None
        if on_device:
            launch_share = 0.0 if roof is None else work.launches * roof.peaks.kernel_ns / work.ns
            fixed = Estimate(0.0, 0.0, min(1.0, launch_share))
        elif work.leaf == _OPTIMIZER:
            fixed = _cost_share(_STEP_OF_ADAM if adam else _STEP, tables.calls, optimizer_ns)
        else:
            fixed = (
                _cost_share(_GRADIENT, work.calls, work.ns)
                if backward
                else _cost_share(_STEP, 0, 1)
            )
        is_adam_step = adam and work.leaf == _OPTIMIZER and not on_device
        rows = _scale(adam_rows if is_adam_step else _ROWS, tables.row_share)
        remaining = _remaining_share(rows, fixed, tables.table_share(work))
        if has_momentum and work.leaf == _OPTIMIZER:  # a momentum is moved in all rows, as before
            return Estimate(remaining.low, remaining.mid, max(1.0, remaining.high))
        return remaining

    return factor


def _cost_share(cost: Estimate, count: int, ns: float) -> Estimate:
    """Return a number of fixed costs as a share of a time."""
    return _scale(cost, count / max(ns, 1.0))


def _scale(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(*(end * factor for end in (estimate.low, estimate.mid, estimate.high)))


def _remaining_share(rows: Estimate, fixed: Estimate, table_share: float) -> Estimate:
    """Return what remains of a row: of the part that passes over tables; the rest is unchanged.

    At the low end half of the rows that are looked up are the same.
    """
    ends = (rows.low + fixed.low, rows.mid + fixed.mid, rows.high + fixed.high)
    return Estimate(*(1 - table_share * (1 - end) for end in ends))


def _table_size(work: Work) -> Size | None:
    """Return the size of the table that a row looks up, ``None`` if it looks none up."""
    sizes = sizes_of(work)
    if not _LOOKUP.search(work.operator) or len(sizes) < 2 or len(sizes[0]) != 2:  # noqa: PLR2004
        return None
    is_row_index = len(sizes[1]) == 2 and sizes[1][1] == sizes[0][1]  # noqa: PLR2004
    return None if _is_gather(work) and not is_row_index else sizes[0]


def _count_rows(work: Work) -> int:
    """Count the rows that a call looks up."""
    indices = sizes_of(work)[1]
    return indices[0] if _is_gather(work) else prod(indices)


def _is_gather(work: Work) -> bool:
    """Return whether there is an index for each number instead of each row."""
    return work.operator.endswith("::gather")
