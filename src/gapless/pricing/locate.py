"""The user's line of a loss: one function for all rules.

In this order: the line that the rule names; the fact that the change concerns (the constructor of a
loader or an optimizer); lines of calls that wait for the device, which are recorded directly; the
user's functions in which a window with stacks saw the leaf or the call. Windows name a function by
the line where it begins, or, if it had begun before, by the line where it was: where a sampled
stack lies in it, that line is taken: for waits the one at which the thread waits; for copies too,
where the function reads nothing back. What several functions share is blamed on the one that calls
them all; never on a library.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from gapless.capture.source_lines import is_library
from gapless.catalogue.frameworks.frameworks import find_place
from gapless.catalogue.queries.between_operators import PYTHON_LEAVES
from gapless.catalogue.queries.step_lines import find_step_lines
from gapless.model.change import (
    Bucket,
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.host_code import HotLine
from gapless.model.study import Site

_COPIES: Final = ("aten::to", "aten::_to_copy", "aten::copy_", "cudaMemcpyAsync", "hipMemcpyAsync")
# of the observed time of a leaf or a call: then one function is to blame
_MIN_BLAME_SHARE: Final = 0.5
_MACHINE_CODES: Final = "G8"  # what a machine does to all lines alike belongs to none
_SYNCS: Final = ("*ynchronize*",)
_AWAITED: Final = ("idle.sync", "copy.d2h")  # the thread waits for the device, or for a copy
_READS: Final = (*_AWAITED, "aten::_local_scalar_dense")  # what a function waits for, beside copies
_MIN_WAITED_SHARE: Final = 0.01  # of the thread's time, at a line
_FindLine = Callable[[Evidence, Location], Location]  # within a function that is to blame


def place(detection: Detection, evidence: Evidence) -> Detection:
    """Return a loss with its line, and whether that is only known by its function."""
    location = locate(detection, evidence)
    exact_locations = [
        detection.location,
        *(loader.location for loader in evidence.facts.loaders),
        *(optimizer.location for optimizer in evidence.facts.optimizers),
    ]
    for change in detection.changes:
        if isinstance(change, Omit):
            exact_locations += [change.line, _locate_waits(evidence, change.names)]
    is_exact = location is None or location in exact_locations
    return replace(
        detection,
        location=location,
        by_function=not is_exact,
        place=find_place(evidence, detection.part, location),
    )


def locate(detection: Detection, evidence: Evidence) -> Location | None:
    """Return the line of a loss, ``None`` if no line of the user's is known."""
    if detection.location is not None and not is_library(detection.location.file):
        return detection.location
    if detection.code.startswith(_MACHINE_CODES) or detection.host is not None:
        return None
    locations = (_locate_change(change, evidence) for change in detection.changes)
    return next((location for location in locations if location is not None), None)


def _locate_change(change: Change, evidence: Evidence) -> Location | None:  # noqa: PLR0911 - one for each kind
    match change:
        case LoaderChange(loader=loader, num_workers=workers, intra_op_threads=threads):
            only_threads = (
                threads is not None and workers is None
            )  # of the process: no loader's line
            return None if only_threads else _locate_loader(evidence, loader)
        case Drop(leaves=leaves) | HostChange(leaves=leaves):
            return _locate_leaves(evidence, leaves)
        case Omit(names=names, line=line):
            return line or _locate_waits(evidence, names) or _locate_calls(evidence, names)
        case Merge(names=names):
            return _locate_optimizer(evidence, names) or _locate_calls(evidence, names)
        case CopyChange():
            return _blame_sites(evidence, _name_test(_COPIES), _find_copying)
        case Scale(leaves=leaves, names=names):
            return _locate_kernels(evidence, leaves, names)
        case Delay() | Bucket():
            return None


# ── Facts ───────────────────────────────────────────────────────────────────────────────────────


def _locate_loader(evidence: Evidence, number: int | None) -> Location | None:
    """Return where a loader was created; without a number the one with the longest waits."""
    loaders = evidence.facts.loaders
    candidates = [loader for loader in loaders if number is None or loader.id == number]
    most_waited = max(candidates, key=lambda loader: loader.waited_ns, default=None)
    return None if most_waited is None else most_waited.location


def _locate_optimizer(evidence: Evidence, names: Sequence[str]) -> Location | None:
    """Return where the optimizer with most tensors was created, if the change concerns its step."""
    if not any("ptimizer.step" in name for name in names):
        return None
    candidates = [
        optimizer for optimizer in evidence.facts.optimizers if optimizer.location is not None
    ]
    largest = max(candidates, key=lambda optimizer: optimizer.tensors or 0, default=None)
    return None if largest is None else largest.location


def _locate_waits(evidence: Evidence, names: Sequence[str]) -> Location | None:
    """Return the line of the calls that wait longest for a device, as Python sees them."""
    if evidence.footprint is None or not _is_about_waits(names):
        return None
    for sync in evidence.footprint.syncs:
        if sync.file is not None and sync.line is not None and not is_library(sync.file):
            return Location(sync.file, sync.line, sync.function)
    return None


def _is_about_waits(names: Sequence[str]) -> bool:
    return bool(names) and all(fnmatchcase(name, pattern) for name in names for pattern in _SYNCS)


# ── Windows ─────────────────────────────────────────────────────────────────────────────────────


def _locate_leaves(evidence: Evidence, leaves: tuple[str, ...]) -> Location | None:
    if all(leaf.startswith("idle.data") for leaf in leaves):
        return _locate_loader(evidence, None)
    return line_of_leaf(evidence, leaves)


def line_of_leaf(evidence: Evidence, leaves: tuple[str, ...]) -> Location | None:
    """Return the user's line with most of some leaves, ``None`` where none is known.

    What is between operators in the function that steps is at a line which does not train: calls
    of passes and of the optimizer are sampled most, and hold operators.
    """
    find_line = _refine_line
    if set(leaves) <= set(PYTHON_LEAVES):
        find_line = _leave_passes
    elif all(leaf.startswith(_AWAITED) for leaf in leaves):
        find_line = _find_waiting
    return _blame_sites(evidence, lambda site: site.name.startswith(leaves), find_line)


def _locate_calls(evidence: Evidence, names: Sequence[str]) -> Location | None:
    return _blame_sites(evidence, _name_test(names), _refine_line)


def _name_test(names: Sequence[str]) -> Callable[[Site], bool]:
    return lambda site: any(fnmatchcase(site.name, name) for name in names)


def _locate_kernels(
    evidence: Evidence, leaves: tuple[str, ...], names: Sequence[str]
) -> Location | None:
    """Return the function that calls the operators which launch most of some kernels."""
    operators = [
        kernel.operator
        for kernel in evidence.study.tables.kernels
        if kernel.operator
        and (
            (leaves and kernel.leaf.startswith(leaves))
            or any(fnmatchcase(kernel.name, name) for name in names)
        )
    ]
    return _locate_calls(evidence, operators[:1])


def _blame_sites(
    evidence: Evidence, is_meant: Callable[[Site], bool], find_line: _FindLine
) -> Location | None:
    """Return a line of the function that holds most of some sites; ``None`` without a single one.

    The line is found within the function that is given by the line where it begins.
    """
    ns_by_location: dict[Location, int] = {}
    for site in filter(is_meant, evidence.study.sites):
        if not is_library(site.file):
            location = Location(site.file, site.line, site.function)
            ns_by_location[location] = ns_by_location.get(location, 0) + max(1, site.ns)
    top_location = max(ns_by_location, key=lambda location: ns_by_location[location], default=None)
    if top_location is None:
        return None
    if ns_by_location[top_location] < _MIN_BLAME_SHARE * sum(ns_by_location.values()):
        return _locate_loop(evidence, find_line)
    return find_line(evidence, top_location)


def _locate_loop(evidence: Evidence, find_line: _FindLine) -> Location | None:
    """Return the user's innermost function that holds most of a step: usually the loop."""
    account = evidence.study.account
    outer_lines = [
        line
        for line in evidence.study.tables.lines
        if not is_library(line.file) and line.host_total_ns >= _MIN_BLAME_SHARE * account.wall_ns
    ]
    inner = min(outer_lines, key=lambda line: line.host_total_ns, default=None)
    return (
        None
        if inner is None
        else find_line(evidence, Location(inner.file, inner.line, inner.function))
    )


# ── Lines of a function ─────────────────────────────────────────────────────────────────────────


def _refine_line(evidence: Evidence, location: Location) -> Location:
    """Return the line of a function at which sampled stacks were most often, if any were in it."""
    top = next(_own_lines(evidence, location), None)
    return location if top is None else replace(location, file=top.file, line=top.line)


def _leave_passes(evidence: Evidence, location: Location) -> Location:
    """Return the line of a function that does not train and is sampled most, if there is one."""
    is_own = _line_test(evidence, location)
    lines = (line.location for line in find_step_lines(evidence))
    own_lines = (line for line in lines if is_own(line))
    return next(own_lines, None) or _refine_line(evidence, location)


def _find_waiting(evidence: Evidence, location: Location) -> Location:
    """Return the line of a function at which its thread waits for the device.

    That is where samples show most of it; where they do not tell, a line that does not train:
    passes and the optimizer only launch.
    """
    top = _most_waiting_line(evidence, location)
    if top is None:
        return _leave_passes(evidence, location)
    return replace(location, file=top.file, line=top.line)


def _find_copying(evidence: Evidence, location: Location) -> Location:
    """Return the line of a function at which its thread copies to the device.

    Samples do not tell such a wait from one for what is read back: they only show the line in a
    function that reads nothing.
    """
    is_reading = any(
        site.name.startswith(_READS)
        and (site.file, site.line, site.function)
        == (location.file, location.line, location.function)
        for site in evidence.study.sites
    )
    top = None if is_reading else _most_waiting_line(evidence, location)
    if top is None:
        return _refine_line(evidence, location)
    return replace(location, file=top.file, line=top.line)


def _most_waiting_line(evidence: Evidence, location: Location) -> HotLine | None:
    lines = [line for line in _own_lines(evidence, location) if line.waited >= _MIN_WAITED_SHARE]
    return max(lines, key=lambda line: line.waited, default=None)


def _own_lines(evidence: Evidence, location: Location) -> Iterator[HotLine]:
    """Return the lines of a function at which the thread was sampled, the most frequent first."""
    is_own = _line_test(evidence, location)
    for line in evidence.hot_lines:
        if line.thread == "training" and is_own(Location(line.file, line.line, line.function)):
            yield line


def _line_test(evidence: Evidence, location: Location) -> Callable[[Location], bool]:
    """Return whether a line may be one of a function, which may have a namesake in its file.

    Stacks of windows may name a method without its class: then it ends where a namesake begins.
    """
    first_line = 0 if _had_begun(evidence, location) else location.line
    end_line = min(
        (
            line.line
            for line in evidence.study.tables.lines
            if line.calls
            and line.line > first_line > 0
            and _is_same_name(line.function, location.function)
            and _is_same_file((line.file, location.file))
        ),
        default=None,
    )

    def is_own(line: Location) -> bool:
        return (
            _is_same_name(line.function, location.function)
            and _is_same_file((line.file, location.file))
            and first_line <= line.line
            and (end_line is None or line.line < end_line)
        )

    return is_own


def _is_same_name(name_a: str | None, name_b: str | None) -> bool:
    """Return whether two functions may be the same: one may be named without its class."""
    return _has_same_end((name_a or "").split("."), (name_b or "").split("."))


def _had_begun(evidence: Evidence, location: Location) -> bool:
    """Return whether a function had begun before the window: then its line is where it just was.

    That is the call of the optimizer's step, after which windows begin, and carries no
    information.
    """
    return any(
        not line.calls
        and (line.file, line.line, line.function)
        == (location.file, location.line, location.function)
        for line in evidence.study.tables.lines
    )


def _is_same_file(names: Iterable[str]) -> bool:
    """Return whether two paths may be the same file: one of them may begin deeper."""
    parts_a, parts_b = (PurePath(name).parts for name in names)
    return _has_same_end(parts_a, parts_b)


def _has_same_end(parts_a: Sequence[str], parts_b: Sequence[str]) -> bool:
    depth = min(len(parts_a), len(parts_b))
    return list(parts_a[-depth:]) == list(parts_b[-depth:])
