"""Forward passes that nothing uses: a row among the operators, and the functions that call them."""

import numpy as np
from msgspec.structs import replace

from gapless.accounting.host.unused_forwards import UnusedPasses, find_unused_passes
from gapless.capture.source_lines import Stacks, stacks
from gapless.capture.view import CaptureView
from gapless.model.study import UNUSED, UNUSED_FIRST, UNUSED_LATER, Site
from gapless.model.tables import Operator, Tables

_MODULE_CALLER = "torch/nn/modules/module.py"  # what calls a module's forward


def add_passes(tables: Tables, view: CaptureView) -> Tables:
    """Return tables with a row of these passes, if there are any."""
    unused_passes = find_unused_passes(view.side)
    is_counted = view.is_inside(unused_passes.start)
    if not is_counted.any():
        return tables
    launched = view.launches_of(view.side.main).within(
        unused_passes.start[is_counted], unused_passes.end[is_counted]
    )
    device = int(launched.sum()) if len(view.acts) else None
    row = Operator(
        name=UNUSED,
        shapes=None,
        calls=int(is_counted.sum()),
        host_self_ns=0,  # all of it is that of the operators, and of Python
        host_total_ns=int((unused_passes.end - unused_passes.start)[is_counted].sum()),
        device_self_ns=None if device is None else 0,
        device_total_ns=device,
    )
    return replace(tables, operators=(*tables.operators, row))


def pass_sites(view: CaptureView) -> tuple[Site, ...]:
    """Return the functions that call such passes, and what they call; none without stacks."""
    trace_stacks = stacks(view.trace)
    unused_passes = find_unused_passes(view.side, alone=True) if len(trace_stacks.frames) else None
    if unused_passes is None or not len(unused_passes):
        return ()
    rows: dict[tuple[str, int], list[int]] = {}
    for index in range(len(unused_passes)):
        caller, callee = _find_caller(view, trace_stacks, unused_passes, index)
        is_first = bool(unused_passes.start[index] < unused_passes.twin_start[index])
        for name, frame in ((UNUSED, caller), (UNUSED_FIRST if is_first else UNUSED_LATER, callee)):
            if frame is not None:
                rows.setdefault((name, frame), []).append(
                    int(unused_passes.end[index] - unused_passes.start[index])
                )
    return tuple(
        Site(name, *trace_stacks.locations[frame], ns=sum(lengths_ns), calls=len(lengths_ns))
        for (name, frame), lengths_ns in rows.items()
    )


def _find_caller(
    view: CaptureView, trace_stacks: Stacks, unused_passes: UnusedPasses, index: int
) -> tuple[int | None, int | None]:
    """Return the user's innermost function around both passes, and what it calls for this one.

    By their names. Of a module that is its own forward, not what calls that.
    """
    events = view.trace.events
    main_frames = trace_stacks.frames[events.track[trace_stacks.frames] == view.side.main]
    lo = min(int(unused_passes.start[index]), int(unused_passes.twin_start[index]))
    hi = max(int(unused_passes.end[index]), int(unused_passes.twin_end[index]))
    user_frames = main_frames[np.isin(events.name[main_frames], list(trace_stacks.user_names))]
    callers = user_frames[(events.start[user_frames] <= lo) & (events.end[user_frames] >= hi)]
    if not len(callers):
        return None, None
    caller = callers[np.argmax(events.start[callers])]
    begins_inside, outlasts = (
        events.start[main_frames] > events.start[caller],
        events.end[main_frames] >= unused_passes.end[index],
    )
    inner_frames = main_frames[
        begins_inside & (events.start[main_frames] <= unused_passes.start[index]) & outlasts
    ]
    inner_frames = inner_frames[np.argsort(events.start[inner_frames], kind="stable")]
    names = [int(name) for name in events.name[inner_frames]]
    callees = (
        name for name in names if not trace_stacks.locations[name][0].endswith(_MODULE_CALLER)
    )
    return int(events.name[caller]), next(callees, None)
