"""Which function of the user's caused what: idle time by leaf, and calls by name.

Beside operators, calls are listed of Python's own and others' functions that no step needs
to train ("copy.deepcopy") and of files ("file.write"), where no loader, evaluation, checkpoint
or logger called them; and of what keeps no activations.

Only of captures with stacks, and of those only where they are small enough: in a long trace with
stacks every event would be looked around.
"""

import re
from typing import Final

import numpy as np

from gapless.accounting.host.nesting import find_parents
from gapless.accounting.host.threads import Bool
from gapless.capture.columns import group_rows
from gapless.capture.source_lines import Stacks, is_recorder, stacks
from gapless.capture.tables.graph_sites import find_device_calls, find_graph_calls
from gapless.capture.tables.loop_sites import find_loop_calls
from gapless.capture.tables.work import EXCLUDED_RANGES
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.leaf import LEAVES
from gapless.model.study import (
    EVALUATES,
    FILES,
    GRAPH_MADE,
    GRAPH_PASSED,
    IN_LOADING,
    LOOPED,
    ON_DEVICE,
    Site,
)
from gapless.model.trace import Int64

MAX_EVENTS: Final = 1_000_000  # of a capture whose calls are looked around
_MAX_ROWS: Final = 200  # rows, of leaves and of calls each
_IDLE: Final = [code for code, leaf in enumerate(LEAVES) if leaf.startswith("idle.")]
# Packages whose functions copy, write down, measure or draw what was trained.
CHORES: Final = frozenset(
    {"copy", "csv", "json", "matplotlib", "pprint", "seaborn", "sklearn", "statistics"}
    | {"torchmetrics", "yaml"}
)
_PRINTED: Final = re.compile(r"(^|[/\\])torch[/\\]_tensor_str\.py$")  # tensors, digit by digit
_MODULES: Final = re.compile(r"(^|[/\\])torch[/\\]nn[/\\]modules[/\\]module\.py$")
_CHECKPOINTS: Final = re.compile(r"(^|[/\\])torch[/\\]utils[/\\]checkpoint\.py$")
_LOADING: Final = re.compile(r"^enumerate\(DataLoader\)")
# As the profiler names what is called in C: "<built-in method flush of _io.TextIOWrapper object>".
_FILES: Final = re.compile(
    r"^<built-in (?:method|function) (?:"
    r"(?P<plain>print|open|fsync|fdatasync)"
    r"|(?P<file>write|writelines|flush|truncate|close|read|readline|readlines|readinto) of _io\..*"
    r"|(?P<csv>writerows?) of _csv\..*"
    r")>$"
)


def site_table(view: CaptureView) -> tuple[Site, ...]:
    """Return the user's own functions with the leaves and the calls that they caused."""
    if len(view.trace.events) > MAX_EVENTS:
        return ()
    trace_stacks = stacks(view.trace)
    if not trace_stacks.user_names:
        return ()
    return (
        *_leaf_sites(view, trace_stacks),
        *_call_sites(view, trace_stacks),
        *_graph_sites(view, trace_stacks),
        *_device_sites(view, trace_stacks),
        *_loop_sites(view, trace_stacks),
        *_chore_sites(view, trace_stacks),
        *_file_sites(view, trace_stacks),
        *_loading_sites(view, trace_stacks),
    )


def _leaf_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    ledger = view.ledger
    pieces = view.charged_to(_IDLE)
    pieces = pieces[ledger.culprit[pieces] >= 0]
    functions = _user_functions(view, trace_stacks, ledger.culprit[pieces].astype(np.int64))
    length = ledger.end[pieces] - ledger.start[pieces]
    leaves = ledger.group_leaf()[pieces].astype(np.int64)
    return _build_sites(trace_stacks, functions, (leaves, LEAVES), length)


def _call_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    events = view.trace.events
    rows = view.counted_events(category.CPU_OP, *category.CALLS)
    labels = events.name[rows].astype(np.int64), view.trace.names
    return _sites_of_calls(view, trace_stacks, rows, labels)


def _graph_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the functions that call operators which make a graph, and what its nodes take."""
    names = (GRAPH_MADE, GRAPH_PASSED)
    return tuple(
        site
        for name, calls in zip(names, find_graph_calls(view, trace_stacks), strict=True)
        for site in _build_sites(
            trace_stacks,
            _user_functions(view, trace_stacks, calls.rows),
            (np.zeros(len(calls.rows), np.int64), (name,)),
            calls.length,
        )
    )


def _device_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the functions that call operators without a graph, which a device carries out."""
    calls = find_device_calls(view, trace_stacks)
    codes = view.trace.events.name[calls.rows].astype(np.int64)
    names = tuple(f"{ON_DEVICE}{name}" for name in view.trace.names)
    functions = _user_functions(view, trace_stacks, calls.rows)
    sites = _build_sites(trace_stacks, functions, (codes, names), calls.length)
    return tuple(site for site in sites if site.ns)


def _loop_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the functions that hold loops over operators, without a device."""
    if len(view.acts):
        return ()
    events, calls = view.trace.events, find_loop_calls(view, trace_stacks)
    names = tuple(f"{LOOPED}{name}" for name in view.trace.names)
    labels = events.name[calls.rows].astype(np.int64), names
    functions = events.name[calls.frames].astype(np.int64)
    length = events.end[calls.rows] - events.start[calls.rows]
    return _build_sites(trace_stacks, functions, labels, length)


def _chore_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the outermost calls of functions that no step needs to train."""
    events, names = view.trace.events, list(view.trace.names)
    chores = {
        name: _chore_name(file, function)
        for name, (file, _, function) in trace_stacks.locations.items()
    }
    chore_names = {name for name, chore in chores.items() if chore is not None}
    rows = trace_stacks.frames[np.isin(events.name[trace_stacks.frames], list(chore_names))]
    rows = _counted_calls(view, rows)
    rows = rows[_is_outermost(view, rows)]
    rows = rows[~_is_by_recorder(view, trace_stacks, rows)]
    for name in chore_names:
        names[name] = chores[name] or ""
    labels = events.name[rows].astype(np.int64), tuple(names)
    return _sites_of_calls(view, trace_stacks, rows, labels)


def _file_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the calls that open, write and read files, except those listed as chores.

    A call that prints what such a function writes down is that function's.
    """
    events, names = view.trace.events, list(view.trace.names)
    matches = {
        name_code: matched
        for name_code, name in enumerate(names)
        if (matched := _FILES.match(name)) is not None
    }
    rows = np.flatnonzero(events.category == category.PYTHON_FUNCTION)
    rows = _counted_calls(view, rows[np.isin(events.name[rows], list(matches))])
    chore_codes = [
        name_code
        for name_code, (file, _, function) in trace_stacks.locations.items()
        if _chore_name(file, function)
    ]
    matched = trace_stacks.frames[np.isin(events.name[trace_stacks.frames], chore_codes)]
    calls = np.concatenate((rows, matched))
    roots = _find_roots(view, calls)
    is_alone = ~np.isin(roots, np.unique(roots[len(rows) :])) & (roots == np.arange(len(calls)))
    rows = rows[is_alone[: len(rows)]]
    rows = rows[~_is_by_recorder(view, trace_stacks, rows)]
    for name, match in matches.items():
        names[name] = f"{FILES}{match[match.lastgroup or 0]}"
    labels = events.name[rows].astype(np.int64), tuple(names)
    return _sites_of_calls(view, trace_stacks, rows, labels)


def _counted_calls(view: CaptureView, rows: Int64) -> Int64:
    """Return the calls of counted steps that no loader, evaluation, checkpoint or logger makes."""
    events = view.trace.events
    track, starts = events.track[rows].astype(np.int64), events.start[rows]
    return rows[view.is_inside(starts) & ~view.side.is_within(EXCLUDED_RANGES, track, starts)]


def _caller_positions(view: CaptureView, rows: Int64) -> Int64:
    """Return for each call the position of the innermost among them that made it, −1 for none."""
    events = view.trace.events
    callers = np.full(len(rows), -1, np.int64)
    for track in np.unique(events.track[rows]).tolist():
        track_rows = np.flatnonzero(events.track[rows] == track)
        parent = find_parents(events.start[rows[track_rows]], events.end[rows[track_rows]])
        callers[track_rows] = np.where(parent >= 0, track_rows[parent], -1)
    return callers


def _is_outermost(view: CaptureView, rows: Int64) -> Bool:
    """Flag the calls that none of the others made."""
    return _caller_positions(view, rows) < 0


def _find_roots(view: CaptureView, rows: Int64) -> Int64:
    """Return for each call the position of the outermost that it lies in, itself included."""
    callers = _caller_positions(view, rows)
    root = np.where(callers >= 0, callers, np.arange(len(rows)))
    while not np.array_equal(root, root[root]):
        root = root[root]
    return root


def _is_by_recorder(view: CaptureView, trace_stacks: Stacks, rows: Int64) -> Bool:
    """Flag the calls that the recorder made for itself."""
    if not len(rows):  # as nearly always: then frames need not be nested
        return np.zeros(0, bool)
    events = view.trace.events
    recorder_names = [
        name for name, (file, _, _) in trace_stacks.locations.items() if is_recorder(file)
    ]
    all_frames = np.union1d(trace_stacks.frames, rows)
    callers = _caller_positions(view, all_frames)[np.searchsorted(all_frames, rows)]
    return (callers >= 0) & np.isin(events.name[all_frames[callers]], recorder_names)


def _loading_sites(view: CaptureView, trace_stacks: Stacks) -> tuple[Site, ...]:
    """Return the user's functions that made batches in the thread that asked for them."""
    events = view.trace.events
    rows = trace_stacks.frames[
        np.isin(events.name[trace_stacks.frames], list(trace_stacks.user_names))
    ]
    track, starts = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[view.is_inside(starts) & view.side.is_within(_LOADING, track, starts)]
    functions = events.name[rows].astype(np.int64)
    length = events.end[rows] - events.start[rows]
    return _build_sites(
        trace_stacks, functions, (np.zeros(len(rows), np.int64), (IN_LOADING,)), length
    )


def _chore_name(file: str, function: str) -> str | None:
    """Return the name of a function that no step needs, or that keeps no activations; else None."""
    package = re.split(r"[/\\]", file)[0].removesuffix(".py")
    if package in CHORES:
        return f"{package}.{function}"
    if _CHECKPOINTS.search(file) and function == "checkpoint":
        return "torch.utils.checkpoint.checkpoint"
    if _MODULES.search(file) and function == "eval":
        return EVALUATES
    return "torch.Tensor.__repr__" if _PRINTED.search(file) else None


def _user_functions(view: CaptureView, trace_stacks: Stacks, rows: Int64) -> Int64:
    """Return for each event the name of the user's innermost function around it, −1 without one."""
    frame = trace_stacks.frames_around(view.trace, rows)
    names = view.trace.events.name[trace_stacks.frames].astype(np.int64)
    functions = np.where(frame >= 0, names[frame], -1)
    return np.where(np.isin(functions, list(trace_stacks.user_names)), functions, -1)


def _sites_of_calls(
    view: CaptureView, trace_stacks: Stacks, rows: Int64, labels: tuple[Int64, tuple[str, ...]]
) -> tuple[Site, ...]:
    events = view.trace.events
    functions = _user_functions(view, trace_stacks, rows)
    return _build_sites(trace_stacks, functions, labels, events.end[rows] - events.start[rows])


def _build_sites(
    trace_stacks: Stacks, functions: Int64, labels: tuple[Int64, tuple[str, ...]], length: Int64
) -> tuple[Site, ...]:
    has_function = functions >= 0
    codes, names = labels[0][has_function], labels[1]
    groups = group_rows(codes, functions[has_function])
    totals, counts = groups.total(length[has_function]), groups.count()
    order = np.argsort(-totals, kind="stable")[:_MAX_ROWS].tolist()
    return tuple(
        Site(
            names[int(codes[groups.first_rows[index]])],
            *trace_stacks.locations[int(functions[has_function][groups.first_rows[index]])],
            ns=int(totals[index]),
            calls=int(counts[index]),
        )
        for index in order
    )
