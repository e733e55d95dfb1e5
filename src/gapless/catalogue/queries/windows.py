"""Queries on the tables of the windows, per step: calls, kernels, copies, lines.

All figures are for one step in the windows, where the host was slower than outside. Sums over names
count nested calls twice, so ask for the outermost, or for the innermost.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from gapless.model.edit import Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.study import Site
from gapless.model.tables import Operator


class CallStats(Struct, frozen=True):
    """Calls with some names: how many a step, how long on the host and on devices, in ns."""

    count: float
    self_ns: float  # of the host, without nested calls
    host_ns: float
    device_ns: float

    @property
    def mean_ns(self) -> float:
        """Return the host's mean time of a call; 0 if there are none."""
        return self.host_ns / self.count if self.count else 0.0


class CopyStats(Struct, frozen=True):
    """Copies in one direction, a step; ``bytes``: ``None`` if some are not known."""

    count: float
    bytes: float | None
    ns: float  # on the device


class KernelStats(Struct, frozen=True):
    """Kernels of some busy leaves: how many a step, how long in total and each, in ns."""

    count: float
    ns: float

    @property
    def mean_ns(self) -> float:
        """Return the mean duration of a kernel; 0 if there are none."""
        return self.ns / self.count if self.count else 0.0


def count_steps(evidence: Evidence) -> int:
    """Count the steps that the tables cover, over all devices and ranks.

    Raises ``NotObservedError`` if there are none.
    """
    account = evidence.study.account
    if not account.steps:
        if evidence.is_trace_only:
            raise NotObservedError("steps", "the trace shows no steps")
        raise NotObservedError("windows", "no window of the profiler was kept")
    return account.steps


def select_operators(evidence: Evidence, *patterns: str) -> tuple[Operator, ...]:
    """Return the rows of the operators' table whose name matches one of these patterns."""
    return tuple(
        operator
        for operator in evidence.study.tables.operators
        if any(fnmatchcase(operator.name, pattern) for pattern in patterns)
    )


def sum_calls(evidence: Evidence, *patterns: str) -> CallStats:
    """Sum the operators and calls whose names match, per step. Raises ``NotObservedError``."""
    return sum_operators(select_operators(evidence, *patterns), count_steps(evidence))


def sum_operators(operators: Iterable[Operator], n_steps: int) -> CallStats:
    """Sum rows of the operators' table, divided by the number of steps."""
    rows = tuple(operators)
    return CallStats(
        sum(row.calls for row in rows) / n_steps,
        sum(row.host_self_ns for row in rows) / n_steps,
        sum(row.host_total_ns for row in rows) / n_steps,
        sum(row.device_total_ns or 0 for row in rows) / n_steps,
    )


def sum_kernels(evidence: Evidence, *leaves: str) -> KernelStats:
    """Sum the kernels of leaves with these prefixes, per step. Raises ``NotObservedError``."""
    n_steps = count_steps(evidence)
    rows = [row for row in evidence.study.tables.kernels if row.leaf.startswith(leaves)]
    return KernelStats(
        sum(row.calls for row in rows) / n_steps, sum(row.device_ns for row in rows) / n_steps
    )


def sum_copies(evidence: Evidence, direction: str, memory: str | None = None) -> CopyStats:
    """Sum the copies in a direction and kind of memory, per step. Raises ``NotObservedError``."""
    n_steps = count_steps(evidence)
    rows = [
        row
        for row in evidence.study.tables.copies
        if row.direction == direction and memory in (None, row.memory)
    ]
    sizes = [row.bytes for row in rows]
    known_sizes = [n_bytes for n_bytes in sizes if n_bytes is not None]
    return CopyStats(
        sum(row.calls for row in rows) / n_steps,
        sum(known_sizes) / n_steps if len(known_sizes) == len(sizes) else None,
        sum(row.device_ns for row in rows) / n_steps,
    )


def sum_leaves(evidence: Evidence, *leaves: str) -> float:
    """Sum some leaves of a step, counting launches with the leaf that they were made under.

    Unlike in ``Evidence.per_step``, where launches are leaves of their own. 0.0 without steps.
    """
    account = evidence.account
    total_ns = sum(
        ns
        for group in account.parts.values()
        for leaf, ns in group.items()
        if leaf.startswith(leaves)
    )
    return total_ns / account.steps if account.steps else 0.0


def find_calling_function(evidence: Evidence, *patterns: str) -> Location | None:
    """Return the user's function that called such operators most often, if stacks show it."""
    counts: dict[Location, int] = {}
    for site in evidence.study.sites:
        if any(fnmatchcase(site.name, pattern) for pattern in patterns):
            location = Location(site.file, site.line, site.function)
            counts[location] = counts.get(location, 0) + site.calls
    return max(counts, key=lambda location: counts[location], default=None)


def loop_window_ns(evidence: Evidence) -> int:
    """Return the length of the window with stacks: that of the loop that it was recorded in."""
    account = evidence.study.account
    longest = max((line.host_total_ns for line in evidence.study.tables.lines), default=0)
    return longest or account.wall_ns or 1


def ms(ns: float) -> str:
    """Format a time in milliseconds: "4.2 ms", "0.31 ms"."""
    value = ns / 1e6
    return f"{value:.1f} ms" if value >= 1 else f"{value:.2g} ms"


def format_step_part(evidence: Evidence, ns: float) -> str:
    """Format a part of each step: "4.2 ms of each 20.0 ms step".

    Steps in windows are longer than those without profiler, so a part measured there may exceed
    one of these: it is then scaled to the same share.
    """
    step_ns, account = evidence.step_ns or 0.0, evidence.study.account
    if ns > step_ns and account.steps:
        ns = min(step_ns, ns * step_ns * account.steps / account.wall_ns)
    return f"{ms(ns)} of each {ms(step_ns)} step"


def format_count(count: float) -> str:
    """Format a count: "20", "0.4"."""
    return f"{count:.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"  # noqa: PLR2004


def format_size(count: float) -> str:
    """Format a size: "38 MB", "12 kB", "3 bytes"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            value = count / scale
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"  # noqa: PLR2004
    return f"{count:.0f} byte{'' if round(count) == 1 else 's'}"


def group_sites(evidence: Evidence) -> Mapping[tuple[str, int, str], Sequence[Site]]:
    """Return what each of the user's functions (file, line, name) caused by itself."""
    groups: dict[tuple[str, int, str], list[Site]] = {}
    for site in evidence.study.sites:
        groups.setdefault((site.file, site.line, site.function), []).append(site)
    return groups
