"""Kernels by name and launch geometry: time, calls, tensor cores, operator."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.accounting.device.activities import COMM
from gapless.capture.columns import Groups, group_rows, heaviest_labels
from gapless.capture.tables.kind import TableKind
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.tables import Kernel
from gapless.model.trace import Int64

_TENSOR_CORES: Final = {"busy.tc_math": "used", "busy.tc_eligible_not_used": "eligible"}


def kernel_table(view: CaptureView) -> tuple[Kernel, ...]:
    """Return the kernels, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    is_kernel = events.category[view.acts.event[view.active]] == category.KERNEL
    active = view.active[is_kernel]
    rows = view.acts.event[active]
    geometry = trace.gpu.geometry[events.detail[rows]]
    groups = group_rows(events.name[rows], geometry)
    total, calls = groups.total(view.lengths[active]), groups.count()
    leaves, operators = _group_leaves(view, active, groups), _group_operators(view, active, groups)
    kernels = [
        Kernel(
            name=trace.names[events.name[rows[row]]],
            device_ns=int(total[index]),
            calls=int(calls[index]),
            mean_ns=float(total[index] / calls[index]),
            geometry=trace.geometries[geometry[row]] if geometry[row] >= 0 else None,
            tensor_cores=_TENSOR_CORES.get(leaves[index]),
            leaf=leaves[index],
            operator=operators[index],
        )
        for index, row in enumerate(groups.first_rows)
    ]
    return tuple(sorted(kernels, key=lambda row: (-row.device_ns, row.name)))


def _group_leaves(view: CaptureView, active: Int64, groups: Groups) -> list[str]:
    """Return the leaf of most of each group's time: that of where it owns its device."""
    is_comm = view.acts.kind[active] == COMM
    leaf = np.where(is_comm, LEAF["comm.exposed"], view.classes[active])
    return [LEAVES[code] for code in heaviest_labels(groups, leaf, view.lengths[active]).tolist()]


def _group_operators(view: CaptureView, active: Int64, groups: Groups) -> list[str | None]:
    """Return the name of the operator that launched most of each group's time."""
    trace = view.trace
    operator = view.acts.operator[active]
    name = np.where(operator >= 0, trace.events.name[operator], -1).astype(np.int64)
    names = heaviest_labels(groups, name, view.lengths[active])
    return [trace.names[name_code] if name_code >= 0 else None for name_code in names.tolist()]


def _add_kernels(kernel: Kernel, addend: Kernel) -> Kernel:
    """Add two ranks' kernels; leaf and operator are those of the one with more time."""
    longer = kernel if kernel.device_ns >= addend.device_ns else addend
    calls, ns = kernel.calls + addend.calls, kernel.device_ns + addend.device_ns
    return replace(longer, calls=calls, device_ns=ns, mean_ns=ns / calls)


TABLE: Final = TableKind(
    lambda view, _: kernel_table(view),
    lambda row: (row.name, row.geometry),
    _add_kernels,
    lambda row: (-row.device_ns, row.name),
)
