"""The user's line of a loss: one function for all rules.

In this order: the line that the rule names; the fact that the change is about (a loader's
constructor, an optimizer's); lines of calls that wait for the device, which are recorded as they
are; the functions of the user's in which a window with stacks saw the leaf or the call. Windows
name a function by the line where it begins, or one that had begun before by the line where it
stood: where a sampled stack stood in it, that line is taken.
What several functions share is blamed on the one that calls them all. Never a line of a library.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

from gapless.model.change import (
    Change,
    Copied,
    Delay,
    Drop,
    Feed,
    Hosted,
    Merge,
    Omit,
    Scale,
)
from gapless.model.edit import Where
from gapless.model.finding import Loss
from gapless.model.seen import Seen
from gapless.model.study import Site
from gapless.study.source import is_library

_COPIES: Final = ("aten::to", "aten::_to_copy", "aten::copy_", "cudaMemcpyAsync", "hipMemcpyAsync")
_MOST: Final = 0.5  # of what was seen of a leaf or a call: one function is to blame for it
_MACHINES: Final = "G8"  # what a machine does to all lines alike lies at none
_SYNCS: Final = ("*ynchronize*",)


def locate(loss: Loss, seen: Seen) -> Where | None:
    """Give the line of a loss, ``None`` where none of the user's is known."""
    if loss.where is not None and not is_library(loss.where.file):
        return loss.where
    if loss.code.startswith(_MACHINES):
        return None
    places = (_place(one, seen) for one in loss.changes)
    return next((one for one in places if one is not None), None)


def _place(change: Change, seen: Seen) -> Where | None:  # noqa: PLR0911 - one for each kind
    match change:
        case Feed(loader=loader, num_workers=workers, intra_op_threads=threads):
            alone = threads is not None and workers is None  # of the process: no loader's line
            return None if alone else _loader(seen, loader)
        case Drop(leaves=leaves) | Hosted(leaves=leaves):
            return _of_leaves(seen, leaves)
        case Omit(names=names, line=line):
            return line or _waits(seen, names) or _of_calls(seen, names)
        case Merge(names=names):
            return _optimizer(seen, names) or _of_calls(seen, names)
        case Copied():
            return _of_calls(seen, _COPIES)
        case Scale(leaves=leaves, names=names):
            return _of_kernels(seen, leaves, names)
        case Delay():
            return None


# ── Facts ───────────────────────────────────────────────────────────────────────────────────────


def _loader(seen: Seen, number: int | None) -> Where | None:
    """Give where a loader was made; without a number the one that was waited for most."""
    every = () if seen.facts is None else seen.facts.loaders
    known = [one for one in every if number is None or one.id == number]
    most = max(known, key=lambda one: one.waited_ns, default=None)
    return None if most is None else most.where


def _optimizer(seen: Seen, names: Sequence[str]) -> Where | None:
    """Give where the optimizer with most tensors was made, if the change is about its step."""
    if seen.facts is None or not any("ptimizer.step" in name for name in names):
        return None
    known = [one for one in seen.facts.optimizers if one.where is not None]
    most = max(known, key=lambda one: one.tensors or 0, default=None)
    return None if most is None else most.where


def _waits(seen: Seen, names: Sequence[str]) -> Where | None:
    """Give the line of the calls that wait for a device as Python sees them, the longest."""
    recorded = seen.study.recorded
    if recorded is None or recorded.footprint is None or not _about_waits(names):
        return None
    for one in recorded.footprint.syncs:
        if one.file is not None and one.line is not None and not is_library(one.file):
            return Where(one.file, one.line, one.function)
    return None


def _about_waits(names: Sequence[str]) -> bool:
    return bool(names) and all(fnmatchcase(name, one) for name in names for one in _SYNCS)


# ── Windows ─────────────────────────────────────────────────────────────────────────────────────


def _of_leaves(seen: Seen, leaves: tuple[str, ...]) -> Where | None:
    if all(leaf.startswith("idle.data") for leaf in leaves):
        return _loader(seen, None)
    return line_of_leaf(seen, leaves)


def line_of_leaf(seen: Seen, leaves: tuple[str, ...]) -> Where | None:
    """Give the user's line that most of some leaves lies at, ``None`` where none is known."""
    return _blamed(seen, lambda site: site.name.startswith(leaves))


def _of_calls(seen: Seen, names: Sequence[str]) -> Where | None:
    return _blamed(seen, lambda site: any(fnmatchcase(site.name, name) for name in names))


def _of_kernels(seen: Seen, leaves: tuple[str, ...], names: Sequence[str]) -> Where | None:
    """Give the function that calls the operators which launch most of some kernels."""
    operators = [
        one.operator
        for one in seen.study.tables.kernels
        if one.operator
        and (
            (leaves and one.leaf.startswith(leaves))
            or any(fnmatchcase(one.name, name) for name in names)
        )
    ]
    return _of_calls(seen, operators[:1])


def _blamed(seen: Seen, meant: Callable[[Site], bool]) -> Where | None:
    """Give the function that most of some sites are in; ``None`` where it is no single one's."""
    sums: dict[Where, int] = {}
    for site in filter(meant, seen.study.sites):
        if not is_library(site.file):
            place = Where(site.file, site.line, site.function)
            sums[place] = sums.get(place, 0) + max(1, site.ns)
    most = max(sums, key=lambda place: sums[place], default=None)
    if most is None:
        return None
    if sums[most] < _MOST * sum(sums.values()):
        return _around(seen)
    return _closer(seen, most)


def _around(seen: Seen) -> Where | None:
    """Give the user's function that most of a step lies in, the innermost: the loop, as a rule."""
    account = seen.study.account
    whole = [
        one
        for one in seen.study.tables.lines
        if not is_library(one.file) and one.host_total_ns >= _MOST * account.wall_ns
    ]
    inner = min(whole, key=lambda one: one.host_total_ns, default=None)
    return None if inner is None else _closer(seen, Where(inner.file, inner.line, inner.function))


def _closer(seen: Seen, where: Where) -> Where:
    """Give the line within a function in which sampled stacks stood most often, if they did."""
    recorded = seen.study.recorded
    first = 0 if _under_way(seen, where) else where.line
    for one in () if recorded is None else recorded.lines:
        named = one.function.rpartition(".")[2] == (where.function or "").rpartition(".")[2]
        same = named and _same_file((one.file, where.file))
        if one.thread == "training" and same and one.line >= first:
            return replace(where, file=one.file, line=one.line)
    return where


def _under_way(seen: Seen, where: Where) -> bool:
    """Tell whether a function had begun before the window: then its line is where it just stood.

    That is the call of the optimizer's step, after which windows begin, and says nothing.
    """
    return any(
        not one.calls
        and (one.file, one.line, one.function) == (where.file, where.line, where.function)
        for one in seen.study.tables.lines
    )


def _same_file(names: Iterable[str]) -> bool:
    """Tell whether two paths may be the same: one of them may begin deeper."""
    one, other = (PurePath(name).parts for name in names)
    shorter = min(len(one), len(other))
    return one[-shorter:] == other[-shorter:]
