"""What operators had to compute and to move, and the time that it took: what rooflines ask for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.accounting.activities import COMPUTE, Activities
from gapless.accounting.facets import phases, recomputes
from gapless.accounting.hostrow import roots
from gapless.model.leaf import LEAVES
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64, Shape, Trace
from gapless.model.work import Work
from gapless.replay.formulas import channels_first, demand, dtype_of
from gapless.study.columns import Groups, group, heaviest
from gapless.study.tables.operators import describe
from gapless.study.view import View

_MOST: Final = 400  # rows: beyond them lie thousandths of the time
_MATH: Final = ("busy.tc_math", "busy.tc_eligible_not_used", "busy.math")
_IMAGES: Final = re.compile(r"conv|batch_norm|group_norm|pool|upsample|interpolate")
_BESIDE: Final = re.compile(
    r"^enumerate\(DataLoader\)|^gapless:(iter|look|save|logging|eval)$"
)  # no work
_NOTHING: Final = Shape()
_PAUSE: Final = 1_000_000  # ns: a host that takes longer to its next launch waits for something
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Row:
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
    again: bool = False
    host_ns: int = 0


def work_table(view: View) -> tuple[Work, ...]:
    """Give kernels by operator, inputs and class; without a device operators. Most time first."""
    rows = list(_on_device(view) if len(view.acts) else _on_host(view))
    rows.sort(key=lambda one: (-one.ns, one.operator, one.inputs or "", one.leaf))
    return tuple(rows[:_MOST])


def _on_device(view: View) -> Iterator[Work]:
    acts, trace = view.acts, view.trace
    active = view.active[acts.kind[view.active] == COMPUTE]
    operator, thread, at = acts.operator[active], acts.thread[active], acts.call_start[active]
    has = operator >= 0
    name = np.where(has, trace.events.name[operator], -1).astype(np.int64)
    inputs = np.where(has, trace.events.detail[operator], -1).astype(np.int64)
    back = phases(view.side, thread, at, operator) == PHASES.index("backward")
    again = recomputes(view.side, thread, at)
    leaf = view.classes[active]
    groups = group(name, inputs, leaf, back.astype(np.int64), again)
    ns, launches = groups.total(view.lengths[active]), groups.count()
    calls, host = _distinct(groups, operator), groups.total(_led_to(acts)[active])
    kernels = heaviest(
        groups, trace.events.name[acts.event[active]].astype(np.int64), view.lengths[active]
    )
    shares = _shares(group(name, inputs, back.astype(np.int64), again), groups, leaf, ns)
    for one, first in enumerate(groups.first.tolist()):
        if name[first] >= 0:
            row = _Row(
                name=int(name[first]),
                inputs=int(inputs[first]),
                leaf=int(leaf[first]),
                calls=int(calls[one]),
                launches=int(launches[one]),
                ns=int(ns[one]),
                share=float(shares[one]),
                kernel=int(kernels[one]),
                backward=bool(back[first]),
                again=bool(again[first]),
                host_ns=int(host[one]),
            )
            yield _work(trace, row)


def _on_host(view: View) -> Iterator[Work]:
    trace = view.trace
    rows, leaf = roots(view.side)
    track, begun = trace.events.track[rows].astype(np.int64), trace.events.start[rows]
    counted = view.inside(begun) & ~view.side.within(_BESIDE, track, begun)
    rows, leaf = rows[counted], leaf[counted]
    name = trace.events.name[rows].astype(np.int64)
    inputs = trace.events.detail[rows].astype(np.int64)
    thread, at = trace.events.track[rows].astype(np.int64), trace.events.start[rows]
    back = phases(view.side, thread, at, rows) == PHASES.index("backward")
    gradients = np.array(["_backward" in one for one in trace.names], bool)
    again = recomputes(view.side, thread, at) * ~gradients[name]
    groups = group(name, inputs, leaf, back.astype(np.int64), again)
    ns, calls = groups.total(trace.events.end[rows] - at), groups.count()
    for one, first in enumerate(groups.first.tolist()):
        row = _Row(
            name=int(name[first]),
            inputs=int(inputs[first]),
            leaf=int(leaf[first]),
            calls=int(calls[one]),
            launches=0,
            ns=int(ns[one]),
            share=1.0,
            backward=bool(back[first]),
            again=bool(again[first]),
        )
        yield _work(trace, row)


def _work(trace: Trace, row: _Row) -> Work:
    name = trace.names[row.name]
    shape = trace.shapes[row.inputs] if row.inputs >= 0 else _NOTHING
    needs = demand(name, shape)
    many = row.calls * row.share
    moved = None if needs is None else needs.bytes
    return Work(
        operator=name,
        inputs=describe(shape) or None,
        dtype=dtype_of(shape),
        leaf=LEAVES[row.leaf],
        kernel=trace.names[row.kernel] if row.kernel >= 0 else None,
        calls=row.calls,
        launches=row.launches,
        ns=row.ns,
        flops=None if needs is None else needs.flops * many,
        bytes=None if moved is None else moved * many,
        channels_first=channels_first(shape) if _IMAGES.search(name) else None,
        backward=row.backward,
        again=row.again,
        host_ns=row.host_ns,
    )


def _led_to(acts: Activities) -> Int64:
    """Give how long the host took to come to each launch from the one before, on any thread.

    A forward and its backward take turns; what takes longer than a pause is a wait, and not told.
    """
    found = np.zeros(len(acts), np.int64)
    order = np.lexsort((acts.call_end, acts.call_start))
    order = order[acts.call[order] >= 0]
    reach = np.maximum.accumulate(acts.call_end[order])
    since = np.maximum(acts.call_start[order[1:]] - reach[:-1], 0)
    found[order[1:]] = np.where(since <= _PAUSE, since, 0)
    return found


def _distinct(groups: Groups, operator: Int64) -> Int64:
    """Count the distinct operators of each group."""
    pairs = group(groups.of, operator)
    return np.bincount(groups.of[pairs.first], minlength=len(groups)).astype(np.int64)


def _shares(calls: Groups, groups: Groups, leaf: Int64, ns: Int64) -> Float:
    """Give each group's share of what its operator computes.

    An operator launches kernels of several classes: casts, other layouts, the product itself. It is
    the product's kernels that compute, by their time; where there are none, all do.
    """
    of = calls.of[groups.first]
    math = np.isin(leaf[groups.first], [LEAVES.index(one) for one in _MATH])
    weight = np.zeros(len(calls))
    np.add.at(weight, of, np.where(math, ns, 0))
    whole = np.zeros(len(calls))
    np.add.at(whole, of, ns)
    computes = weight[of] > 0
    return np.where(computes, np.where(math, ns, 0) / np.maximum(weight[of], 1), ns / whole[of])
