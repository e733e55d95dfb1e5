"""Forward passes that nothing uses: a row among the operators, and the functions that call them."""

from dataclasses import replace

import numpy as np

from gapless.accounting.unused import Passes, unused
from gapless.model.study import UNUSED, UNUSED_FIRST, UNUSED_LATER, Site
from gapless.model.tables import Operator, Tables
from gapless.study.source import Stacks, stacks
from gapless.study.view import View

_WRAPPERS = "torch/nn/modules/module.py"  # what calls a module's forward


def with_passes(tables: Tables, view: View) -> Tables:
    """Give tables with a row of these passes, if there are any."""
    found = unused(view.side)
    kept = view.inside(found.start)
    if not kept.any():
        return tables
    launched = view.launched(view.side.main).within(found.start[kept], found.end[kept])
    device = int(launched.sum()) if len(view.acts) else None
    row = Operator(
        name=UNUSED,
        shapes=None,
        calls=int(kept.sum()),
        host_self_ns=0,  # all of it is that of the operators, and of Python
        host_total_ns=int((found.end - found.start)[kept].sum()),
        device_self_ns=None if device is None else 0,
        device_total_ns=device,
    )
    return replace(tables, operators=(*tables.operators, row))


def pass_sites(view: View) -> tuple[Site, ...]:
    """Give the functions that call such passes, and what they call for it; none without stacks."""
    known = stacks(view.trace)
    found = unused(view.side, alone=True) if len(known.frames) else None
    if found is None or not len(found):
        return ()
    rows: dict[tuple[str, int], list[int]] = {}
    for at in range(len(found)):
        caller, called = _around(view, known, found, at)
        first = bool(found.start[at] < found.twin_start[at])
        for name, frame in ((UNUSED, caller), (UNUSED_FIRST if first else UNUSED_LATER, called)):
            if frame is not None:
                rows.setdefault((name, frame), []).append(int(found.end[at] - found.start[at]))
    return tuple(
        Site(name, *known.places[frame], ns=sum(spent), calls=len(spent))
        for (name, frame), spent in rows.items()
    )


def _around(view: View, known: Stacks, found: Passes, at: int) -> tuple[int | None, int | None]:
    """Give the innermost function of the user's around both passes, and what it calls for this one.

    By their names. Of a module that is its own forward, not what calls that.
    """
    events = view.trace.events
    mine = known.frames[events.track[known.frames] == view.side.main]
    lo = min(int(found.start[at]), int(found.twin_start[at]))
    hi = max(int(found.end[at]), int(found.twin_end[at]))
    own = mine[np.isin(events.name[mine], list(known.own))]
    callers = own[(events.start[own] <= lo) & (events.end[own] >= hi)]
    if not len(callers):
        return None, None
    caller = callers[np.argmax(events.start[callers])]
    begun, ended = events.start[mine] > events.start[caller], events.end[mine] >= found.end[at]
    inside = mine[begun & (events.start[mine] <= found.start[at]) & ended]
    inside = inside[np.argsort(events.start[inside], kind="stable")]
    names = [int(one) for one in events.name[inside]]
    called = (one for one in names if not known.places[one][0].endswith(_WRAPPERS))
    return int(events.name[caller]), next(called, None)
