"""What a rank's process is asked, and how: the two phases of a study of many ranks.

Phase one reads a file into the cache and returns what the other ranks need of it, its collectives.
Phase two takes it from the cache, with what the others returned, to its summary.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting import (
    NO_ARRIVALS,
    Arrivals,
    Collectives,
    gather_collectives,
    join_trace,
    partition,
)
from gapless.accounting.clock import cut_open_ranges
from gapless.capture.ranks.steps import choose_steps
from gapless.capture.ranks.summary import CaptureSummary
from gapless.capture.reading import read_trace
from gapless.capture.summarize import summarise_capture
from gapless.model.options import Options
from gapless.model.trace import Trace
from gapless.store import cache


class Head(Struct, frozen=True):
    """What phase one returns of a file."""

    key: str  # of the file in the cache
    rank: int | None
    origin_ns: int
    collectives: Collectives


class Task(Struct, frozen=True):
    """A file in a phase: without options the first, with them the second."""

    path: str
    key: str | None = None  # if it is known
    options: Options | None = None
    arrivals: Arrivals = NO_ARRIVALS
    first_step: int | None = None  # of the capture, as its run numbers it


class Answer(Struct, frozen=True):
    """The result of a task, or the sentence that says why there is none."""

    head: Head | None = None
    summary: CaptureSummary | None = None
    refused: str | None = None


Ask = Callable[[Sequence[Task]], Iterator[Answer]]  # answers in the order of the tasks


def load_trace(
    path: str,
    key: str | None,
    processes: int | None = None,
    report_entries: Callable[[int], None] = lambda _: None,
    step: str | None = None,
) -> Trace:
    """Return the trace in a file, from the cache if it has the key; ``step`` names its steps.

    Raises ``GaplessError``.
    """
    trace = cache.load(key) if key is not None else None
    if trace is None:
        trace = read_trace(path, processes=processes, report_entries=report_entries)
        if key is not None:
            cache.save(key, trace)
    trace = replace(trace, path=path)
    return cut_open_ranges(trace if step is None else choose_steps(trace, step))


def perform_task(task: Task) -> Answer:
    """Do what a task asks. Raises ``GaplessError``."""
    key = task.key or cache.content_key(task.path)
    step = None if task.options is None else task.options.step
    trace = load_trace(task.path, key, processes=1, step=step)
    if task.options is None:
        return Answer(
            head=Head(key, trace.rank, trace.origin_ns, gather_collectives(trace, task.first_step))
        )
    joined = join_trace(trace)
    ledger = partition(trace, task.arrivals, joined_trace=joined)
    return Answer(summary=summarise_capture(joined, ledger, task.options))
