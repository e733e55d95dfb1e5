"""Calls of the whole program: as bars that the flame view draws, and as a tree that opens."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from gapless.model.calls import CallTree
from gapless.model.study import Study
from gapless.report.sections.calls import (
    CallBranch,
    call_branches,
    call_name,
    call_place,
    seen_text,
)
from gapless.report.text.text import clean

_MIN_SHARE: Final = 0.005  # of what was seen: a call of less is not in the tree that opens
_MIN_BAR_SHARE: Final = 0.0001  # likewise in the flame view: no zoom is of use there
_KINDS: Final = ("own", "torch", "library", "recorder")


class CallSheet(Struct, frozen=True):
    """The calls of one thread, pruned, and what was seen of it."""

    title: str
    sentence: str
    branches: tuple[CallBranch, ...]


def call_sheets(study: Study) -> tuple[CallSheet, ...]:
    """Return the trees that open; none where no stacks were sampled."""
    trees = () if study.recorded is None else study.recorded.calls
    return tuple(
        CallSheet(tree.title, seen_text(tree), call_branches(tree, _MIN_SHARE)) for tree in trees
    )


def flame_columns(trees: Sequence[CallTree]) -> list[dict[str, Any]]:
    """Return the bars of each tree, an outer one before those in it, the longest first."""
    return [_flame(tree) for tree in trees]


def _flame(tree: CallTree) -> dict[str, Any]:
    least_ns = _MIN_BAR_SHARE * tree.seen_ns
    columns: dict[str, list[Any]] = {
        name: [] for name in ("name", "place", "start", "total", "own", "depth", "parent", "kind")
    }
    waiting = [(number, 0, -1, start) for number, start in _places(tree, tree.roots, 0)][::-1]
    while waiting:
        number, depth, parent, start = waiting.pop()
        if tree.total_ns[number] < least_ns:
            continue
        node, bar = tree.nodes[number], len(columns["name"])
        values = {
            "name": call_name(node),
            "place": clean(f"{node.file}:{node.line}") if node.line else call_place(node),
            "start": start,
            "total": tree.total_ns[number],
            "own": node.own_ns,
            "depth": depth,
            "parent": parent,
            "kind": _KINDS.index(_kind(node.package)),
        }
        for name, value in values.items():
            columns[name].append(value)
        callees = _places(tree, tree.children[number], start)
        waiting += [(child, depth + 1, bar, place) for child, place in callees][::-1]
    return {"title": tree.title, "seen": tree.seen_ns, "kinds": _KINDS, **columns}


def _places(tree: CallTree, numbers: Sequence[int], start: int) -> list[tuple[int, int]]:
    """Return nodes with where their bars begin: one behind the other."""
    places: list[tuple[int, int]] = []
    for number in numbers:
        places.append((number, start))
        start += tree.total_ns[number]
    return places


def _kind(package: str | None) -> str:
    if package is None:
        return "own"
    return {"torch": "torch", "gapless": "recorder"}.get(package, "library")
