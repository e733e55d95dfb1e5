"""Collectives by name, type, size and group; bus bandwidth as nccl-tests define it.

The factors are those of ``doc/PERFORMANCE.md`` of nccl-tests: the time that the hardware's
slowest link would need is independent of the number of ranks if the size is multiplied by them.
The time is the kernel's, a rank's waiting for later ones included, so the figure is a lower bound
of what the links did.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from gapless.model.leaf import LEAVES
from gapless.model.tables import CollectiveRow
from gapless.model.trace import Collective, Int64
from gapless.study.columns import Groups, group
from gapless.study.view import View

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
_COMM: Final = [at for at, leaf in enumerate(LEAVES) if leaf.startswith("comm.")]


def collective_table(view: View) -> tuple[CollectiveRow, ...]:
    """Give the collectives, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    of = trace.gpu.collective[events.detail[view.acts.event[view.active]]]
    active, of = view.active[of >= 0], of[of >= 0]
    if not len(active):
        return ()
    kinds, alike = _kinds(trace.collectives)
    groups = group(alike[of])
    total = groups.total(view.lengths[active])
    exposed = _exposed(view, view.acts.event[active], groups)
    calls = groups.count()
    found = [
        _row(kinds[alike[of[first]]], int(calls[at]), int(total[at]), int(exposed[at]))
        for at, first in enumerate(groups.first)
    ]
    return tuple(sorted(found, key=lambda row: (-row.device_ns, row.name)))


_Kind = tuple[str, str | None, int | None, int | None]


def _kinds(collectives: tuple[Collective, ...]) -> tuple[list[_Kind], Int64]:
    """Tell the distinct (name, dtype, bytes, group size), and which each collective is of."""
    seen: dict[_Kind, int] = {}
    for one in collectives:
        key = (one.name or "unnamed", one.dtype, moved(one), one.group_size)
        seen.setdefault(key, len(seen))
    order = [
        seen[one.name or "unnamed", one.dtype, moved(one), one.group_size] for one in collectives
    ]
    return list(seen), np.array(order, np.int64)


def moved(one: Collective) -> int | None:
    """Give the bytes that nccl-tests call the size of a collective; ``None`` if not told."""
    size = _SIZES.get((one.dtype or "").lower())
    elements = max(one.in_elements or 0, one.out_elements or 0)
    return size * elements if size is not None and elements else None


def factor(name: str, ranks: int) -> float | None:
    """Give what nccl-tests multiply a bandwidth by; ``None`` for what they do not know."""
    plain = name.lower().replace("_", "").replace("-", "")
    return next((of(ranks) for key, of in _FACTORS if key in plain), None) if ranks > 0 else None


def _row(key: _Kind, calls: int, ns: int, exposed: int) -> CollectiveRow:
    name, dtype, size, ranks = key
    scale = factor(name, ranks) if ranks is not None else None
    bus = None if size is None or scale is None else size * calls * scale / ns * 1e9
    return CollectiveRow(name, dtype, ranks, calls, size, ns, bus, exposed, ns - exposed)


def _exposed(view: View, rows: Int64, groups: Groups) -> Int64:
    """Sum by group the time in which a collective alone owned its device."""
    ledger = view.ledger
    place = np.full(len(view.trace.events), -1, np.int64)
    place[rows] = groups.of
    pieces = view.charged_to(_COMM)
    of = place[ledger.culprit[pieces]]
    pieces, of = pieces[of >= 0], of[of >= 0]
    return Groups(of, groups.first).total(ledger.end[pieces] - ledger.start[pieces])
