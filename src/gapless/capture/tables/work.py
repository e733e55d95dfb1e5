"""What operators had to compute and to move, and the time that it took: what rooflines ask for."""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.accounting.device.activities import COMPUTE, Activities
from gapless.accounting.device.facets import find_phases, recompute_flags
from gapless.accounting.host.host_row import find_roots
from gapless.capture.columns import Groups, group_rows, heaviest_labels
from gapless.capture.tables.operators import describe_shape
from gapless.capture.view import CaptureView
from gapless.model.leaf import LEAVES
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64, Shape, Trace
from gapless.model.work import Work
from gapless.roofline.formulas import channels_first, dtype_of, operator_demand

_MAX_ROWS: Final = 400  # rows: beyond them lie thousandths of the time
_MATH: Final = ("busy.tc_math", "busy.tc_eligible_not_used", "busy.math")
_IMAGES: Final = re.compile(r"conv|batch_norm|group_norm|pool|upsample|interpolate")
# no work
EXCLUDED_RANGES: Final = re.compile(
    r"^enumerate\(DataLoader\)|^gapless:(iter|look|save|logging|eval)$"
)
_NO_SHAPE: Final = Shape()
_PAUSE: Final = 1_000_000  # ns: a host that takes longer to its next launch waits for something
Float = npt.NDArray[np.float64]


class _WorkGroup(Struct, frozen=True):
    """A group: its operator, inputs and class; its calls, launches, time, share of the work."""

    name: int
    inputs: int
    leaf: int
    calls: int
    launches: int
    ns: int
    share: float
    kernel: int = -1
    backward: bool = False
    recomputed: bool = False
    host_ns: int = 0


def work_table(view: CaptureView) -> tuple[Work, ...]:
    """Return kernels by operator, inputs and class; without a device operators. Most time first."""
    rows = list(_on_device(view) if len(view.acts) else _on_host(view))
    rows.sort(key=lambda work: (-work.ns, work.operator, work.inputs or "", work.leaf))
    return tuple(rows[:_MAX_ROWS])


def _on_device(view: CaptureView) -> Iterator[Work]:
    acts, trace = view.acts, view.trace
    active = view.active[acts.kind[view.active] == COMPUTE]
    operator, thread, call_start = (
        acts.operator[active],
        acts.thread[active],
        acts.call_start[active],
    )
    has_operator = operator >= 0
    name = np.where(has_operator, trace.events.name[operator], -1).astype(np.int64)
    inputs = np.where(has_operator, trace.events.detail[operator], -1).astype(np.int64)
    is_backward = find_phases(view.side, thread, call_start, operator) == PHASES.index("backward")
    is_recompute = recompute_flags(view.side, thread, call_start)
    leaf = view.classes[active]
    groups = group_rows(name, inputs, leaf, is_backward.astype(np.int64), is_recompute)
    ns, launches = groups.total(view.lengths[active]), groups.count()
    calls, host_ns = _count_operators(groups, operator), groups.total(_launch_host_ns(acts)[active])
    kernels = heaviest_labels(
        groups, trace.events.name[acts.event[active]].astype(np.int64), view.lengths[active]
    )
    shares = _work_shares(
        group_rows(name, inputs, is_backward.astype(np.int64), is_recompute), groups, leaf, ns
    )
    for index, row_index in enumerate(groups.first_rows.tolist()):
        if name[row_index] >= 0:
            work_group = _WorkGroup(
                name=int(name[row_index]),
                inputs=int(inputs[row_index]),
                leaf=int(leaf[row_index]),
                calls=int(calls[index]),
                launches=int(launches[index]),
                ns=int(ns[index]),
                share=float(shares[index]),
                kernel=int(kernels[index]),
                backward=bool(is_backward[row_index]),
                recomputed=bool(is_recompute[row_index]),
                host_ns=int(host_ns[index]),
            )
            yield _build_work(trace, work_group)


def _on_host(view: CaptureView) -> Iterator[Work]:
    trace = view.trace
    rows, leaf = find_roots(view.side)
    track, starts = trace.events.track[rows].astype(np.int64), trace.events.start[rows]
    counted = view.is_inside(starts) & ~view.side.is_within(EXCLUDED_RANGES, track, starts)
    rows, leaf = rows[counted], leaf[counted]
    name = trace.events.name[rows].astype(np.int64)
    inputs = trace.events.detail[rows].astype(np.int64)
    thread, start = trace.events.track[rows].astype(np.int64), trace.events.start[rows]
    is_backward = find_phases(view.side, thread, start, rows) == PHASES.index("backward")
    is_gradient = np.array(["_backward" in name for name in trace.names], bool)
    is_recompute = recompute_flags(view.side, thread, start) * ~is_gradient[name]
    groups = group_rows(name, inputs, leaf, is_backward.astype(np.int64), is_recompute)
    ns, calls = groups.total(trace.events.end[rows] - start), groups.count()
    for index, row_index in enumerate(groups.first_rows.tolist()):
        work_group = _WorkGroup(
            name=int(name[row_index]),
            inputs=int(inputs[row_index]),
            leaf=int(leaf[row_index]),
            calls=int(calls[index]),
            launches=0,
            ns=int(ns[index]),
            share=1.0,
            backward=bool(is_backward[row_index]),
            recomputed=bool(is_recompute[row_index]),
        )
        yield _build_work(trace, work_group)


def _build_work(trace: Trace, work_group: _WorkGroup) -> Work:
    name = trace.names[work_group.name]
    shape = trace.shapes[work_group.inputs] if work_group.inputs >= 0 else _NO_SHAPE
    needs = operator_demand(name, shape)
    n_calls = work_group.calls * work_group.share
    moved_bytes = None if needs is None else needs.bytes
    return Work(
        operator=name,
        inputs=describe_shape(shape) or None,
        dtype=dtype_of(shape),
        leaf=LEAVES[work_group.leaf],
        kernel=trace.names[work_group.kernel] if work_group.kernel >= 0 else None,
        calls=work_group.calls,
        launches=work_group.launches,
        ns=work_group.ns,
        flops=None if needs is None else needs.flops * n_calls,
        bytes=None if moved_bytes is None else moved_bytes * n_calls,
        channels_first=channels_first(shape) if _IMAGES.search(name) else None,
        backward=work_group.backward,
        again=work_group.recomputed,
        host_ns=work_group.host_ns,
    )


def _launch_host_ns(acts: Activities) -> Int64:
    """Return how long the host took to come to each launch from the one before, on any thread.

    A forward and its backward take turns; what takes longer than a pause is a wait, and not
    counted.
    """
    host_ns = np.zeros(len(acts), np.int64)
    order = np.lexsort((acts.call_end, acts.call_start))
    order = order[acts.call[order] >= 0]
    reach = np.maximum.accumulate(acts.call_end[order])
    gaps = np.maximum(acts.call_start[order[1:]] - reach[:-1], 0)
    host_ns[order[1:]] = np.where(gaps <= _PAUSE, gaps, 0)
    return host_ns


def _count_operators(groups: Groups, operator: Int64) -> Int64:
    """Count the distinct operators of each group."""
    pairs = group_rows(groups.group_ids, operator)
    return np.bincount(groups.group_ids[pairs.first_rows], minlength=len(groups)).astype(np.int64)


def _work_shares(calls: Groups, groups: Groups, leaf: Int64, ns: Int64) -> Float:
    """Return each group's share of what its operator computes.

    An operator launches kernels of several classes: casts, other layouts, the product itself. It is
    the product's kernels that compute, by their time; where there are none, all do.
    """
    operator_of = calls.group_ids[groups.first_rows]
    is_math = np.isin(leaf[groups.first_rows], [LEAVES.index(leaf_name) for leaf_name in _MATH])
    weight = np.zeros(len(calls))
    np.add.at(weight, operator_of, np.where(is_math, ns, 0))
    total_ns = np.zeros(len(calls))
    np.add.at(total_ns, operator_of, ns)
    computes = weight[operator_of] > 0
    return np.where(
        computes,
        np.where(is_math, ns, 0) / np.maximum(weight[operator_of], 1),
        ns / total_ns[operator_of],
    )
