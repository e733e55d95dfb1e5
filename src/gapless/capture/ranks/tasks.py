"""What a rank's process is asked, and how: the phases of a study of many ranks.

Phase one reads a file into the cache and keeps its collectives, those of each process group apart.
Phase two joins the collectives of one process group over the ranks, and keeps who came last for
each. Phase three takes a file from the cache, with what its groups were joined to, to its summary.
What is kept stays with the processes or on the cluster: who asks knows it by its name alone.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting import (
    Arrivals,
    Collectives,
    GroupKey,
    gather_collectives,
    join_arrivals,
    join_trace,
    match_group,
    partition,
    split_groups,
)
from gapless.accounting.clock import cut_open_ranges
from gapless.capture.ranks.codec import decode, encode
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
    groups: tuple[tuple[GroupKey, int], ...]  # and how many collectives of the rank each has


class Join(Struct, frozen=True):
    """A process group to be joined: what its ranks kept are the needs of the task, in order."""

    group: GroupKey
    ranks: tuple[int, ...]
    n_captures: int  # that belong together, whatever their groups
    first_meeting: int


class Task(Struct, frozen=True):
    """A file in a phase: without options the first, with them the last; or a group to be joined."""

    path: str
    key: str | None = None  # if it is known
    options: Options | None = None
    first_step: int | None = None  # of the capture, as its run numbers it
    join: Join | None = None
    needs: tuple[str, ...] = ()  # names of what was kept
    keeps: tuple[str, ...] = ()  # names for what is to be kept


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


def perform_task(task: Task, needs: Sequence[bytes] = ()) -> tuple[Answer, list[bytes]]:
    """Do what a task asks; return what is to be kept, too. Raises ``GaplessError``."""
    if task.join is not None:
        return Answer(), _join_group(task.join, needs)
    key = task.key or cache.content_key(task.path)
    step = None if task.options is None else task.options.step
    trace = load_trace(task.path, key, processes=1, step=step)
    if task.options is None:
        groups, blob = split_collectives(gather_collectives(trace, task.first_step))
        return Answer(head=Head(key, trace.rank, trace.origin_ns, groups)), [blob]
    joined = join_trace(trace)
    arrivals = join_arrivals([decode(data, Arrivals) for data in needs])
    ledger = partition(trace, arrivals, joined_trace=joined)
    return Answer(summary=summarise_capture(joined, ledger, task.options)), []


def split_collectives(collectives: Collectives) -> tuple[tuple[tuple[GroupKey, int], ...], bytes]:
    """Return the process groups of a rank with the size of each, and what is to be kept of them."""
    members = split_groups(collectives)
    sizes = tuple((group, len(member.calls)) for group, member in members)
    return sizes, encode([(group, encode(member)) for group, member in members])


def _join_group(join: Join, needs: Sequence[bytes]) -> list[bytes]:
    members: list[Collectives] = []
    for rank, data in zip(join.ranks, needs, strict=True):
        blob = dict(decode(data, list[tuple[GroupKey, bytes]]))[join.group]
        members.append(replace(decode(blob, Collectives), rank=rank))
    return [
        encode(arrivals) for arrivals in match_group(members, join.n_captures, join.first_meeting)
    ]
