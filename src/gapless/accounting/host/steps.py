"""Where steps begin and end on the training thread (docs: the account, 3)."""

import itertools
import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from gapless.accounting.host.recurring import (
    find_hand_overs,
    find_module_calls,
    find_period,
    find_user_range,
    outermost_ranges,
)
from gapless.accounting.host.threads import (
    OPTIMIZER_STEP,
    OWN_STEP,
    PROFILER_STEP,
    Threads,
    step_ranges,
    user_ranges,
)
from gapless.model import category
from gapless.model.trace import Int64, Trace

_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_NUMBERED = re.compile(r"#?\d{1,18}(?=\D*$)")


class StepBounds(Struct, frozen=True):
    """Boundaries S_0 … S_K, the number of each step, and the rule that found them."""

    boundaries: Int64
    numbers: tuple[int, ...] | None  # None: no steps, one row over the capture
    rule: str


def profiler_steps(trace: Trace) -> Int64:
    """Return the ProfilerStep# ranges (events) in order of time."""
    return user_ranges(trace, PROFILER_STEP)


def find_steps(threads: Threads) -> StepBounds | None:
    """Find the steps by the first rule that applies; ``None`` without any interval."""
    for rule in (
        _steps_by_marks,
        _steps_by_names,
        _steps_by_profiler,
        _steps_by_optimizer,
        _steps_by_recurrence,
        _steps_by_capture,
    ):
        steps = rule(threads)
        if steps is not None:
            return steps
    return None


def _steps_by_marks(threads: Threads) -> StepBounds | None:
    """Take the recorder's marks of its windows: it knows which optimizer makes a step."""
    events = threads.trace.events
    marks = user_ranges(threads.trace, OWN_STEP)
    marks = marks[events.track[marks] == threads.main]
    if len(marks) < 2:  # noqa: PLR2004 - one edge bounds nothing
        return None
    return StepBounds(events.end[marks], tuple(range(1, len(marks))), "gapless:step")


def _steps_by_names(threads: Threads) -> StepBounds | None:
    """Take the ranges that are steps by name: those that the user chose, or the reader knows."""
    events, names = threads.trace.events, threads.trace.names
    ranges = step_ranges(threads.trace)
    ranges = outermost_ranges(threads, ranges[events.track[ranges] == threads.main])
    if len(ranges) < 2:  # noqa: PLR2004 - one range is no loop
        return None
    rows: list[int] = events.name[ranges].tolist()
    labels = [names[row] for row in rows]
    ends = np.append(events.start[ranges], events.end[ranges[-1]])
    return StepBounds(ends, _step_numbers(labels), _rule_of(labels))


def _step_numbers(labels: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers that names end with, if they rise; else the places of the ranges."""
    matches = [_LAST_NUMBER.search(label) for label in labels]
    numbers = [int(match[1]) for match in matches if match is not None]
    rises = len(numbers) == len(labels) and all(
        low < high for low, high in itertools.pairwise(numbers)
    )
    return tuple(numbers) if rises else tuple(range(len(labels)))


def _rule_of(labels: Sequence[str]) -> str:
    """Return the name that ranges have, with # for numbers if they differ."""
    first_label = labels[0]
    if all(label == first_label for label in labels):
        return first_label
    return _NUMBERED.sub("#", first_label)


def _steps_by_profiler(threads: Threads) -> StepBounds | None:
    events = threads.trace.events
    ranges = profiler_steps(threads.trace)
    ranges = ranges[events.track[ranges] == threads.main]
    if not len(ranges):
        return None
    matches = [PROFILER_STEP.match(threads.trace.names[events.name[event]]) for event in ranges]
    numbers = tuple(int(match.group(1)) for match in matches if match)
    ends = np.append(events.start[ranges], events.end[ranges[-1]])
    return StepBounds(ends, numbers, "ProfilerStep#")


def _steps_by_optimizer(threads: Threads) -> StepBounds | None:
    """Take the optimizer with the fewest calls, at least two: the outer cycle of a GAN."""
    events = threads.trace.events
    calls = user_ranges(threads.trace, OPTIMIZER_STEP)
    calls = calls[events.track[calls] == threads.main]
    name = _rarest_name(events.name[calls].astype(np.int64))
    if name is None:
        return None
    ends = np.sort(events.end[calls[events.name[calls] == name]])
    numbers = tuple(range(1, len(ends)))
    return StepBounds(ends, numbers, threads.trace.names[name])


def _steps_by_recurrence(threads: Threads) -> StepBounds | None:
    """Take the user's own ranges, hand-overs of a loader, calls of a module, or a period."""
    for rule in (find_user_range, find_hand_overs, find_module_calls, find_period):
        recurrence = rule(threads)
        if recurrence is not None:
            boundaries, name = recurrence
            return StepBounds(boundaries, tuple(range(len(boundaries) - 1)), name)
    return None


def _steps_by_capture(threads: Threads) -> StepBounds | None:
    """Take the capture from its first to its last event as one row."""
    events = threads.trace.events
    kinds = (*category.ACTIVITIES, *_HOST)
    rows = np.flatnonzero(np.isin(events.category, kinds) & (events.end > events.start))
    if not len(rows):
        return None
    ends = np.array([events.start[rows].min(), events.end[rows].max()], np.int64)
    return StepBounds(ends, None, "none")


def _rarest_name(names: Int64) -> int | None:
    """Return the name with the fewest calls, at least two; the first seen of equals."""
    distinct, first_rows, counts = np.unique(names, return_index=True, return_counts=True)
    frequent = np.flatnonzero(counts > 1)
    if not len(frequent):
        return None
    return int(distinct[frequent[np.lexsort((first_rows[frequent], counts[frequent]))[0]]])


_HOST = (category.CPU_OP, category.RUNTIME, category.DRIVER, category.PYTHON_FUNCTION)
