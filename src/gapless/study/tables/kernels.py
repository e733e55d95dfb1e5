"""Kernels by name and launch geometry: time, calls, tensor cores, operator."""

from typing import Final

import numpy as np

from gapless.accounting.activities import COMM
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.tables import Kernel
from gapless.model.trace import Int64
from gapless.study.columns import Groups, group, heaviest
from gapless.study.view import View

_TENSOR_CORES: Final = {"busy.tc_math": "used", "busy.tc_eligible_not_used": "eligible"}


def kernel_table(view: View) -> tuple[Kernel, ...]:
    """Give the kernels, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    kernels = events.category[view.acts.event[view.active]] == category.KERNEL
    active = view.active[kernels]
    rows = view.acts.event[active]
    geometry = trace.gpu.geometry[events.detail[rows]]
    groups = group(events.name[rows], geometry)
    total, calls = groups.total(view.lengths[active]), groups.count()
    leaves, operators = _leaves(view, active, groups), _operators(view, active, groups)
    found = [
        Kernel(
            name=trace.names[events.name[rows[first]]],
            device_ns=int(total[at]),
            calls=int(calls[at]),
            mean_ns=float(total[at] / calls[at]),
            geometry=trace.geometries[geometry[first]] if geometry[first] >= 0 else None,
            tensor_cores=_TENSOR_CORES.get(leaves[at]),
            leaf=leaves[at],
            operator=operators[at],
        )
        for at, first in enumerate(groups.first)
    ]
    return tuple(sorted(found, key=lambda row: (-row.device_ns, row.name)))


def _leaves(view: View, active: Int64, groups: Groups) -> list[str]:
    """Give the leaf of most of each group's time: that of where it owns its device."""
    comm = view.acts.kind[active] == COMM
    leaf = np.where(comm, LEAF["comm.exposed"], view.classes[active])
    return [LEAVES[one] for one in heaviest(groups, leaf, view.lengths[active]).tolist()]


def _operators(view: View, active: Int64, groups: Groups) -> list[str | None]:
    """Give the name of the operator that launched most of each group's time."""
    trace = view.trace
    operator = view.acts.operator[active]
    name = np.where(operator >= 0, trace.events.name[operator], -1).astype(np.int64)
    found = heaviest(groups, name, view.lengths[active])
    return [trace.names[at] if at >= 0 else None for at in found.tolist()]
