"""What the tables of the windows hold of a step: calls, kernels, copies, lines; for rules to ask.

All figures are of one step, in the windows: there the host was slower than outside. Sums over names
count what lies inside one another twice, so ask for the outermost, or for the innermost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gapless.catalogue.ruling import NotSeenError
from gapless.model.edit import Where
from gapless.model.seen import Seen
from gapless.model.tables import Operator


@dataclass(frozen=True)
class Calls:
    """Calls of some names: how many a step, how long on the host and on devices, in ns."""

    count: float
    own_ns: float  # of the host, without what they called
    host_ns: float
    device_ns: float

    @property
    def mean_ns(self) -> float:
        """Give the host's time of a call; 0 where there are none."""
        return self.host_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class Moved:
    """Copies of one direction, a step; ``bytes``: ``None`` where some are not known."""

    count: float
    bytes: float | None
    ns: float  # on the device


@dataclass(frozen=True)
class Launched:
    """Kernels of some busy leaves: how many a step, how long together and each, in ns."""

    count: float
    ns: float

    @property
    def mean_ns(self) -> float:
        """Give a kernel's mean length; 0 where there are none."""
        return self.ns / self.count if self.count else 0.0


def steps(seen: Seen) -> int:
    """Count the steps that the tables are of: of all devices and ranks together.

    Raises ``NotSeenError`` where there are none.
    """
    account = seen.study.account
    if not account.steps:
        if seen.study.recorded is None:
            raise NotSeenError("steps", "the trace shows no steps")
        raise NotSeenError("windows", "no window of the profiler was kept")
    return account.steps


def operators(seen: Seen, *patterns: str) -> tuple[Operator, ...]:
    """Give the rows of the operators' table whose name matches one of some patterns."""
    return tuple(
        one
        for one in seen.study.tables.operators
        if any(fnmatchcase(one.name, pattern) for pattern in patterns)
    )


def calls(seen: Seen, *patterns: str) -> Calls:
    """Sum the operators and calls whose names match, a step. Raises ``NotSeenError``."""
    return summed(operators(seen, *patterns), steps(seen))


def summed(found: Iterable[Operator], many: int) -> Calls:
    """Sum rows of the operators' table, divided by so many steps."""
    rows = tuple(found)
    return Calls(
        sum(one.calls for one in rows) / many,
        sum(one.host_self_ns for one in rows) / many,
        sum(one.host_total_ns for one in rows) / many,
        sum(one.device_total_ns or 0 for one in rows) / many,
    )


def kernels(seen: Seen, *leaves: str) -> Launched:
    """Sum the kernels of the leaves that begin with one of some. Raises ``NotSeenError``."""
    many = steps(seen)
    rows = [one for one in seen.study.tables.kernels if one.leaf.startswith(leaves)]
    return Launched(
        sum(one.calls for one in rows) / many, sum(one.device_ns for one in rows) / many
    )


def copies(seen: Seen, direction: str, memory: str | None = None) -> Moved:
    """Sum the copies of a direction, from or to this kind of memory. Raises ``NotSeenError``."""
    many = steps(seen)
    rows = [
        one
        for one in seen.study.tables.copies
        if one.direction == direction and memory in (None, one.memory)
    ]
    sizes = [one.bytes for one in rows]
    known = [one for one in sizes if one is not None]
    return Moved(
        sum(one.calls for one in rows) / many,
        sum(known) / many if len(known) == len(sizes) else None,
        sum(one.device_ns for one in rows) / many,
    )


def under(seen: Seen, *leaves: str) -> float:
    """Sum what a step holds of some leaves, launches counted with what they were made under.

    As ``Seen.per_step``, where launches are leaves of their own. 0.0 where nothing has steps.
    """
    recorded = seen.study.recorded
    joint = recorded.account if recorded is not None else None
    account = seen.study.account if joint is None else joint.account
    found = sum(
        ns
        for group in account.parts.values()
        for leaf, ns in group.items()
        if leaf.startswith(leaves)
    )
    return found / account.steps if account.steps else 0.0


def site(seen: Seen, *patterns: str) -> Where | None:
    """Give the user's function that called such operators most often, where stacks tell."""
    counts: dict[Where, int] = {}
    for one in seen.study.sites:
        if any(fnmatchcase(one.name, pattern) for pattern in patterns):
            place = Where(one.file, one.line, one.function)
            counts[place] = counts.get(place, 0) + one.calls
    return max(counts, key=lambda place: counts[place], default=None)


def looped_ns(seen: Seen) -> int:
    """Give how long the window with stacks is: as long as the loop that it was recorded in."""
    account = seen.study.account
    longest = max((one.host_total_ns for one in seen.study.tables.lines), default=0)
    return longest or account.wall_ns or 1


def ms(ns: float) -> str:
    """Write a time in milliseconds: "4.2 ms", "0.31 ms"."""
    value = ns / 1e6
    return f"{value:.1f} ms" if value >= 1 else f"{value:.2g} ms"


def of_step(seen: Seen, ns: float) -> str:
    """Write what takes a part of each step: "4.2 ms of each 20.0 ms step".

    Of windows whose steps are longer than plain ones something may take longer than a plain step:
    of that it takes the part that it takes of the window's.
    """
    step, account = seen.step_ns or 0.0, seen.study.account
    if ns > step and account.steps:
        ns = min(step, ns * step * account.steps / account.wall_ns)
    return f"{ms(ns)} of each {ms(step)} step"


def times(count: float) -> str:
    """Write how often: "20", "0.4"."""
    return f"{count:.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"  # noqa: PLR2004


def size(count: float) -> str:
    """Write a size: "38 MB", "12 kB", "3 bytes"."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            value = count / least
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"  # noqa: PLR2004
    return f"{count:.0f} byte{'' if round(count) == 1 else 's'}"
