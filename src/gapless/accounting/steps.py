"""Where steps begin and end on the training thread (docs: the account, 3)."""

from dataclasses import dataclass

import numpy as np

from gapless.accounting.recurring import by_loader, by_module, by_period, by_users_range
from gapless.accounting.threads import (
    OPTIMIZER_STEP,
    OWN_STEP,
    PROFILER_STEP,
    Threads,
    user_ranges,
)
from gapless.model import category
from gapless.model.trace import Int64, Trace


@dataclass(frozen=True)
class Steps:
    """Boundaries S_0 … S_K, the number of each step, and the rule that found them."""

    boundaries: Int64
    numbers: tuple[int, ...] | None  # None: no steps, one row over the capture
    rule: str


def profiler_steps(trace: Trace) -> Int64:
    """Give the ProfilerStep# ranges (events) in order of time."""
    return user_ranges(trace, PROFILER_STEP)


def find_steps(threads: Threads) -> Steps | None:
    """Find the steps by the first rule that applies; ``None`` without any interval."""
    for rule in (_by_own_marks, _by_profiler, _by_optimizer, _by_what_recurs, _whole):
        steps = rule(threads)
        if steps is not None:
            return steps
    return None


def _by_own_marks(threads: Threads) -> Steps | None:
    """Take the recorder's marks of own windows: it knows which optimizer makes a step."""
    events = threads.trace.events
    found = user_ranges(threads.trace, OWN_STEP)
    found = found[events.track[found] == threads.main]
    if len(found) < 2:  # noqa: PLR2004 - one edge bounds nothing
        return None
    return Steps(events.end[found], tuple(range(1, len(found))), "gapless:step")


def _by_profiler(threads: Threads) -> Steps | None:
    events = threads.trace.events
    found = profiler_steps(threads.trace)
    found = found[events.track[found] == threads.main]
    if not len(found):
        return None
    matches = [PROFILER_STEP.match(threads.trace.names[events.name[one]]) for one in found]
    numbers = tuple(int(match.group(1)) for match in matches if match)
    ends = np.append(events.start[found], events.end[found[-1]])
    return Steps(ends, numbers, "ProfilerStep#")


def _by_optimizer(threads: Threads) -> Steps | None:
    """Take the optimizer with the fewest calls, at least two: the outer cycle of a GAN."""
    events = threads.trace.events
    found = user_ranges(threads.trace, OPTIMIZER_STEP)
    found = found[events.track[found] == threads.main]
    name = _fewest(events.name[found].astype(np.int64))
    if name is None:
        return None
    ends = np.sort(events.end[found[events.name[found] == name]])
    numbers = tuple(range(1, len(ends)))
    return Steps(ends, numbers, threads.trace.names[name])


def _by_what_recurs(threads: Threads) -> Steps | None:
    """Take the user's own ranges, hand-overs of a loader, calls of a module, or a period."""
    for rule in (by_users_range, by_loader, by_module, by_period):
        found = rule(threads)
        if found is not None:
            boundaries, name = found
            return Steps(boundaries, tuple(range(len(boundaries) - 1)), name)
    return None


def _whole(threads: Threads) -> Steps | None:
    """Take the capture from its first to its last event as one row."""
    events = threads.trace.events
    kinds = (*category.ACTIVITIES, *_HOST)
    real = np.flatnonzero(np.isin(events.category, kinds) & (events.end > events.start))
    if not len(real):
        return None
    ends = np.array([events.start[real].min(), events.end[real].max()], np.int64)
    return Steps(ends, None, "none")


def _fewest(names: Int64) -> int | None:
    """Give the name with the fewest calls, at least two; the first seen of equals."""
    distinct, first, counts = np.unique(names, return_index=True, return_counts=True)
    often = np.flatnonzero(counts > 1)
    if not len(often):
        return None
    return int(distinct[often[np.lexsort((first[often], counts[often]))[0]]])


_HOST = (category.CPU_OP, category.RUNTIME, category.DRIVER, category.PYTHON_FUNCTION)
