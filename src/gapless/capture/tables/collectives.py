"""Collectives by name, type, size and group; bus bandwidth as nccl-tests define it.

The factors are those of ``doc/PERFORMANCE.md`` of nccl-tests: the time that the hardware's
slowest link would need is independent of the number of ranks if the size is multiplied by them.
The time is the kernel's, a rank's waiting for later ones included, so the figure is a lower bound
of what the links did.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.capture.columns import Groups, group_rows
from gapless.capture.tables.kind import TableKind, add_fields
from gapless.capture.view import CaptureView
from gapless.model.leaf import LEAVES
from gapless.model.tables import CollectiveRow
from gapless.model.trace import Collective, Int64

_SIZES: Final = {
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2,
    "float": 4, "float32": 4, "int": 4, "int32": 4,
    "double": 8, "float64": 8, "long": 8, "int64": 8,
}  # fmt: skip
_FACTORS: Final[tuple[tuple[str, Callable[[int], float]], ...]] = (
    ("allreduce", lambda n: 2 * (n - 1) / n),
    ("reducescatter", lambda n: (n - 1) / n),
    ("allgather", lambda n: (n - 1) / n),
    ("alltoall", lambda n: (n - 1) / n),
    ("broadcast", lambda _: 1.0),
    ("reduce", lambda _: 1.0),
    ("send", lambda _: 1.0),
    ("recv", lambda _: 1.0),
    ("gather", lambda n: (n - 1) / n),
    ("scatter", lambda n: (n - 1) / n),
)
_COMM: Final = [code for code, leaf in enumerate(LEAVES) if leaf.startswith("comm.")]


def collective_table(view: CaptureView) -> tuple[CollectiveRow, ...]:
    """Return the collectives, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    collective = trace.gpu.collective[events.detail[view.acts.event[view.active]]]
    active, collective = view.active[collective >= 0], collective[collective >= 0]
    if not len(active):
        return ()
    kinds, kind_codes = _collective_kinds(trace.collectives)
    groups = group_rows(kind_codes[collective])
    total = groups.total(view.lengths[active])
    exposed = _exposed_ns(view, view.acts.event[active], groups)
    calls = groups.count()
    rows = [
        _build_row(
            kinds[kind_codes[collective[row]]],
            int(calls[index]),
            int(total[index]),
            int(exposed[index]),
        )
        for index, row in enumerate(groups.first_rows)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.device_ns, row.name)))


_Kind = tuple[str, str | None, int | None, int | None]


def _collective_kinds(collectives: tuple[Collective, ...]) -> tuple[list[_Kind], Int64]:
    """Return the distinct (name, dtype, bytes, group size), and which each collective is of."""
    codes: dict[_Kind, int] = {}
    for collective in collectives:
        key = (
            collective.name or "unnamed",
            collective.dtype,
            collective_bytes(collective),
            collective.group_size,
        )
        codes.setdefault(key, len(codes))
    order = [
        codes[
            collective.name or "unnamed",
            collective.dtype,
            collective_bytes(collective),
            collective.group_size,
        ]
        for collective in collectives
    ]
    return list(codes), np.array(order, np.int64)


def collective_bytes(collective: Collective) -> int | None:
    """Return the bytes that nccl-tests call the size of a collective; ``None`` if not known."""
    size = _SIZES.get((collective.dtype or "").lower())
    elements = max(collective.in_elements or 0, collective.out_elements or 0)
    return size * elements if size is not None and elements else None


def bandwidth_factor(name: str, ranks: int) -> float | None:
    """Return what nccl-tests multiply a bandwidth by; ``None`` for what they do not know."""
    plain_name = name.lower().replace("_", "").replace("-", "")
    return (
        next((formula(ranks) for key, formula in _FACTORS if key in plain_name), None)
        if ranks > 0
        else None
    )


def _build_row(key: _Kind, calls: int, ns: int, exposed: int) -> CollectiveRow:
    name, dtype, size, ranks = key
    scale = bandwidth_factor(name, ranks) if ranks is not None else None
    bandwidth = None if size is None or scale is None else size * calls * scale / ns * 1e9
    return CollectiveRow(name, dtype, ranks, calls, size, ns, bandwidth, exposed, ns - exposed)


def _exposed_ns(view: CaptureView, rows: Int64, groups: Groups) -> Int64:
    """Sum by group the time in which a collective alone owned its device."""
    ledger = view.ledger
    event_groups = np.full(len(view.trace.events), -1, np.int64)
    event_groups[rows] = groups.group_ids
    pieces = view.charged_to(_COMM)
    piece_groups = event_groups[ledger.culprit[pieces]]
    pieces, piece_groups = pieces[piece_groups >= 0], piece_groups[piece_groups >= 0]
    return Groups(piece_groups, groups.first_rows).total(ledger.end[pieces] - ledger.start[pieces])


def _add_collectives(collective: CollectiveRow, addend: CollectiveRow) -> CollectiveRow:
    sums = add_fields(collective, addend, "calls", "device_ns", "exposed_ns", "hidden_ns")
    rates = (collective.bus_bytes_per_s, addend.bus_bytes_per_s)
    if rates[0] is None or rates[1] is None:
        return replace(sums, bus_bytes_per_s=None)
    n_bytes = rates[0] * collective.device_ns + rates[1] * addend.device_ns
    return replace(sums, bus_bytes_per_s=n_bytes / sums.device_ns)


TABLE: Final = TableKind(
    lambda view, _: collective_table(view),
    lambda row: (row.name, row.dtype, row.group_size, row.bytes),
    _add_collectives,
    lambda row: (-row.device_ns, row.name),
)
