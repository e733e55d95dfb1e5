"""Which function of the user's caused what: idle time by leaf, and calls by name.

Beside operators, calls are told of Python's own and others' functions that no step needs to train
("copy.deepcopy"), where no loader, evaluation, checkpoint or logger called them; and of what keeps
no activations.

Only of captures with stacks, and of those only where they are small enough: in a long trace with
stacks every event would be looked around.
"""

import re
from typing import Final

import numpy as np

from gapless.accounting.nesting import parents
from gapless.model import category
from gapless.model.leaf import LEAVES
from gapless.model.study import Site
from gapless.model.trace import Int64
from gapless.study.columns import group
from gapless.study.source import Stacks, stacks
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
_CHECKPOINTS: Final = re.compile(r"(^|[/\\])torch[/\\]utils[/\\]checkpoint\.py$")
_BESIDE: Final = re.compile(
    r"^enumerate\(DataLoader\)|^gapless:(iter|look|save|logging|eval)$"
)  # told of elsewhere


def site_table(view: View) -> tuple[Site, ...]:
    """Give the user's own functions with the leaves and the calls that they caused."""
    if len(view.trace.events) > MOST_EVENTS:
        return ()
    known = stacks(view.trace)
    if not known.own:
        return ()
    return (*_of_leaves(view, known), *_of_calls(view, known), *_of_chores(view, known))


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
    track, begun = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[view.inside(begun) & ~view.side.within(_BESIDE, track, begun)]
    outer = np.zeros(len(rows), bool)
    for one in np.unique(events.track[rows]).tolist():
        mine = np.flatnonzero(events.track[rows] == one)
        outer[mine] = parents(events.start[rows[mine]], events.end[rows[mine]]) < 0
    rows = rows[outer]
    for name in meant:
        names[name] = called[name] or ""
    named = events.name[rows].astype(np.int64), tuple(names)
    return _sites(
        known, _functions(view, known, rows), named, events.end[rows] - events.start[rows]
    )


def _chore(file: str, function: str) -> str | None:
    """Name a function that no step needs to train, or that keeps no activations; ``None``: none."""
    package = re.split(r"[/\\]", file)[0].removesuffix(".py")
    if package in CHORES:
        return f"{package}.{function}"
    if _CHECKPOINTS.search(file) and function == "checkpoint":
        return "torch.utils.checkpoint.checkpoint"
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
