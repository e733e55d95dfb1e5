"""Which function of the user's caused what: idle time by leaf, and calls by name.

Beside operators, calls are told of Python's own and others' functions that no step needs to train
("copy.deepcopy") and of files ("file.write"), where no loader, evaluation, checkpoint or logger
called them; and of what keeps no activations.

Only of captures with stacks, and of those only where they are small enough: in a long trace with
stacks every event would be looked around.
"""

import re
from typing import Final

import numpy as np

from gapless.accounting.nesting import parents
from gapless.accounting.threads import Bool
from gapless.model import category
from gapless.model.leaf import LEAVES
from gapless.model.study import EVALUATES, FILES, IN_LOADING, Site
from gapless.model.trace import Int64
from gapless.study.columns import group
from gapless.study.source import Stacks, is_recorder, stacks
from gapless.study.view import View

MOST_EVENTS: Final = 1_000_000  # of a capture whose calls are looked around
_MOST: Final = 200  # rows, of leaves and of calls each
_IDLE: Final = [at for at, leaf in enumerate(LEAVES) if leaf.startswith("idle.")]
# Packages whose functions copy, write down, measure or draw what was trained.
CHORES: Final = frozenset(
    {"copy", "csv", "json", "matplotlib", "pprint", "seaborn", "sklearn", "statistics"}
    | {"torchmetrics", "yaml"}
)
_PRINTED: Final = re.compile(r"(^|[/\\])torch[/\\]_tensor_str\.py$")  # tensors, digit by digit
_MODULES: Final = re.compile(r"(^|[/\\])torch[/\\]nn[/\\]modules[/\\]module\.py$")
_CHECKPOINTS: Final = re.compile(r"(^|[/\\])torch[/\\]utils[/\\]checkpoint\.py$")
_BESIDE: Final = re.compile(
    r"^enumerate\(DataLoader\)|^gapless:(iter|look|save|logging|eval)$"
)  # told of elsewhere
_LOADING: Final = re.compile(r"^enumerate\(DataLoader\)")
# As the profiler names what is called in C: "<built-in method flush of _io.TextIOWrapper object>".
_FILES: Final = re.compile(
    r"^<built-in (?:method|function) (?:"
    r"(?P<plain>print|open|fsync|fdatasync)"
    r"|(?P<file>write|writelines|flush|truncate|close|read|readline|readlines|readinto) of _io\..*"
    r"|(?P<csv>writerows?) of _csv\..*"
    r")>$"
)


def site_table(view: View) -> tuple[Site, ...]:
    """Give the user's own functions with the leaves and the calls that they caused."""
    if len(view.trace.events) > MOST_EVENTS:
        return ()
    known = stacks(view.trace)
    if not known.own:
        return ()
    return (
        *_of_leaves(view, known),
        *_of_calls(view, known),
        *_of_chores(view, known),
        *_of_files(view, known),
        *_of_loading(view, known),
    )


def _of_leaves(view: View, known: Stacks) -> tuple[Site, ...]:
    ledger = view.ledger
    pieces = view.charged_to(_IDLE)
    pieces = pieces[ledger.culprit[pieces] >= 0]
    functions = _functions(view, known, ledger.culprit[pieces].astype(np.int64))
    length = ledger.end[pieces] - ledger.start[pieces]
    leaves = ledger.group_leaf()[pieces].astype(np.int64)
    return _sites(known, functions, (leaves, LEAVES), length)


def _of_calls(view: View, known: Stacks) -> tuple[Site, ...]:
    events = view.trace.events
    rows = view.counted(category.CPU_OP, *category.CALLS)
    functions = _functions(view, known, rows)
    length = events.end[rows] - events.start[rows]
    names = events.name[rows].astype(np.int64)
    return _sites(known, functions, (names, view.trace.names), length)


def _of_chores(view: View, known: Stacks) -> tuple[Site, ...]:
    """Give the outermost calls of functions that no step needs to train."""
    events, names = view.trace.events, list(view.trace.names)
    called = {name: _chore(file, function) for name, (file, _, function) in known.places.items()}
    meant = {name for name, told in called.items() if told is not None}
    rows = known.frames[np.isin(events.name[known.frames], list(meant))]
    rows = _of_steps(view, rows)
    rows = rows[_outermost(view, rows)]
    rows = rows[~_by_recorder(view, known, rows)]
    for name in meant:
        names[name] = called[name] or ""
    named = events.name[rows].astype(np.int64), tuple(names)
    return _sites(
        known, _functions(view, known, rows), named, events.end[rows] - events.start[rows]
    )


def _of_files(view: View, known: Stacks) -> tuple[Site, ...]:
    """Give the calls that open, write and read files, but of functions that are told of as chores.

    A call that prints what such a function writes down is that function's.
    """
    events, names = view.trace.events, list(view.trace.names)
    called = {at: told for at, name in enumerate(names) if (told := _FILES.match(name)) is not None}
    rows = np.flatnonzero(events.category == category.PYTHON_FUNCTION)
    rows = _of_steps(view, rows[np.isin(events.name[rows], list(called))])
    chores = [at for at, (file, _, function) in known.places.items() if _chore(file, function)]
    told = known.frames[np.isin(events.name[known.frames], chores)]
    both = np.concatenate((rows, told))
    roots = _roots(view, both)
    alone = ~np.isin(roots, np.unique(roots[len(rows) :])) & (roots == np.arange(len(both)))
    rows = rows[alone[: len(rows)]]
    rows = rows[~_by_recorder(view, known, rows)]
    for name, match in called.items():
        names[name] = f"{FILES}{match[match.lastgroup or 0]}"
    named = events.name[rows].astype(np.int64), tuple(names)
    return _sites(
        known, _functions(view, known, rows), named, events.end[rows] - events.start[rows]
    )


def _of_steps(view: View, rows: Int64) -> Int64:
    """Give the calls of counted steps that no loader, evaluation, checkpoint or logger makes."""
    events = view.trace.events
    track, begun = events.track[rows].astype(np.int64), events.start[rows]
    return rows[view.inside(begun) & ~view.side.within(_BESIDE, track, begun)]


def _callers(view: View, rows: Int64) -> Int64:
    """Give for each call the position of the innermost among them that made it, −1 for none."""
    events = view.trace.events
    found = np.full(len(rows), -1, np.int64)
    for track in np.unique(events.track[rows]).tolist():
        mine = np.flatnonzero(events.track[rows] == track)
        above = parents(events.start[rows[mine]], events.end[rows[mine]])
        found[mine] = np.where(above >= 0, mine[above], -1)
    return found


def _outermost(view: View, rows: Int64) -> Bool:
    """Tell which calls none of the others made."""
    return _callers(view, rows) < 0


def _roots(view: View, rows: Int64) -> Int64:
    """Give for each call the position of the outermost among them that it lies in: itself, too."""
    above = _callers(view, rows)
    root = np.where(above >= 0, above, np.arange(len(rows)))
    while not np.array_equal(root, root[root]):
        root = root[root]
    return root


def _by_recorder(view: View, known: Stacks, rows: Int64) -> Bool:
    """Tell which calls the recorder made, for itself."""
    if not len(rows):  # as nearly always: then frames need not be nested
        return np.zeros(0, bool)
    events = view.trace.events
    own = [name for name, (file, _, _) in known.places.items() if is_recorder(file)]
    every = np.union1d(known.frames, rows)
    above = _callers(view, every)[np.searchsorted(every, rows)]
    return (above >= 0) & np.isin(events.name[every[above]], own)


def _of_loading(view: View, known: Stacks) -> tuple[Site, ...]:
    """Give the user's functions that made batches in the thread which asked for them."""
    events = view.trace.events
    rows = known.frames[np.isin(events.name[known.frames], list(known.own))]
    track, begun = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[view.inside(begun) & view.side.within(_LOADING, track, begun)]
    named = events.name[rows].astype(np.int64)
    length = events.end[rows] - events.start[rows]
    return _sites(known, named, (np.zeros(len(rows), np.int64), (IN_LOADING,)), length)


def _chore(file: str, function: str) -> str | None:
    """Name a function that no step needs to train, or that keeps no activations; ``None``: none."""
    package = re.split(r"[/\\]", file)[0].removesuffix(".py")
    if package in CHORES:
        return f"{package}.{function}"
    if _CHECKPOINTS.search(file) and function == "checkpoint":
        return "torch.utils.checkpoint.checkpoint"
    if _MODULES.search(file) and function == "eval":
        return EVALUATES
    return "torch.Tensor.__repr__" if _PRINTED.search(file) else None


def _functions(view: View, known: Stacks, rows: Int64) -> Int64:
    """Give for each event the name of the user's innermost function around it, −1 without one."""
    frame = known.around(view.trace, rows)
    names = view.trace.events.name[known.frames].astype(np.int64)
    found = np.where(frame >= 0, names[frame], -1)
    return np.where(np.isin(found, list(known.own)), found, -1)


def _sites(
    known: Stacks, functions: Int64, named: tuple[Int64, tuple[str, ...]], length: Int64
) -> tuple[Site, ...]:
    has = functions >= 0
    codes, names = named[0][has], named[1]
    groups = group(codes, functions[has])
    totals, counts = groups.total(length[has]), groups.count()
    order = np.argsort(-totals, kind="stable")[:_MOST].tolist()
    return tuple(
        Site(
            names[int(codes[groups.first[at]])],
            *known.places[int(functions[has][groups.first[at]])],
            ns=int(totals[at]),
            calls=int(counts[at]),
        )
        for at in order
    )
