"""Calls of files that the training thread makes in a step, as stacks show them."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gapless.catalogue import sampled, windowed
from gapless.model.edit import Where
from gapless.model.seen import Seen
from gapless.model.study import FILES, Site

LEAVES: Final = ("idle.host.python", "idle.host.unframed")
MOST: Final = 0.95  # of these leaves
_CALL_NS: Final = 1_000  # that the profiler of Python takes to note a call
# Packages that compute in Python alone; under a profiler of Python their share is too large.
_WRITERS: Final = tuple(f"{name}." for name in ("csv", "json", "pprint", "statistics", "yaml"))
_TRUE: Final = 0.75
_NO_FILES: Final = ("socket", "pipe", "process")  # what was waited for, as sampled


@dataclass(frozen=True)
class Filing:
    """Calls of files: ns of a step, and how often by name, those that take most time first."""

    ns: float
    calls: dict[str, float]


def filing(seen: Seen) -> Filing | None:
    """Give the calls of files in a step; ``None`` where there are none, or nothing waits for them.

    Of a plain step they take the share that they take in the window with stacks, and at most what
    waits for Python.
    """
    spent, calls = Counter[str](), Counter[str]()
    for one in seen.study.sites:
        if one.name.startswith(FILES) and not _is_no_file(seen, one):
            spent[one.name[len(FILES) :]] += max(0, one.ns - one.calls * _CALL_NS)
            calls[one.name[len(FILES) :]] += one.calls
    step, whole = seen.step_ns, seen.per_step(*LEAVES)
    if not step or not spent or not whole:
        return None
    many = windowed.steps(seen)
    shown = min(MOST * whole, step * spent.total() / windowed.looped_ns(seen))
    return Filing(shown, {name: calls[name] / many for name, _ in spent.most_common()})


def _is_no_file(seen: Seen, site: Site) -> bool:
    """Tell whether calls of a file are of a socket or of a process: Python wraps these as files."""
    recorded = seen.study.recorded
    every = () if recorded is None else recorded.host_code
    return any(one.kind in _NO_FILES and sampled.is_of(site, one) for one in every)


def named_ns(seen: Seen) -> float:
    """Give the part of a step's Python that has a name: calls of files, and of writers of text."""
    known, step = filing(seen), seen.step_ns or 0
    texts = sum(one.ns for one in seen.study.sites if one.name.startswith(_WRITERS))
    shown = _TRUE * step * texts / windowed.looped_ns(seen)
    return min(MOST * seen.per_step(*LEAVES), shown + (0.0 if known is None else known.ns))


def caller(seen: Seen, name: str) -> Where | None:
    """Give the user's function that calls of a name take most time in."""
    mine = [one for one in seen.study.sites if one.name == f"{FILES}{name}"]
    most = max(mine, key=lambda one: one.ns, default=None)
    return None if most is None else Where(most.file, most.line, most.function)
