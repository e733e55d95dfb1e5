"""Each fetch of a batch becomes a row: where its time went, in workers and in the training alike.

Replaces ``fetch`` of torch's two fetchers, through which map-style and iterable data sets go with
and without batches. The collate function is replaced on the fetcher for the length of one fetch.
"""

from __future__ import annotations

import functools
import sys
import threading
from time import monotonic_ns, thread_time_ns
from typing import Any, Callable

from ... import wire
from .. import declare, patching, randomness, recorder
from ..loading import fetchers, measure, pacing, reads
from ..loading.stopwatch import COLLATE, Stopwatch, invisible, time_function
from ..process_state import keep
from . import files

ABSENT = -1
_UNDIVIDED = (ABSENT,) * (2 * len(wire.STAGES))


class _Fetches:
    """What is known of the threads that fetch."""

    def __init__(self) -> None:
        self.has_written_threads = False  # of operators, in a worker
        self.switch_ns = 0  # cost of a change to another stage and back, once it is known
        self.fork()

    def fork(self) -> None:
        """Begin anew in the child of a fork, whose only thread may be within a fetch."""
        self.local = threading.local()  # .busy: this thread is within a fetch


_fetches = keep(_Fetches())


class Note:
    """One fetch under way."""

    __slots__ = (
        "before",
        "collate",
        "entered",
        "feed",
        "fetcher",
        "gauge",
        "kind",
        "random",
        "random_ns",
        "samples",
        "sequence",
        "start",
        "states",
        "timing",
        "watch",
    )

    def __init__(self, entered: int, fetcher: Any, feed: fetchers.FetcherFeed) -> None:
        self.entered, self.fetcher, self.feed = entered, fetcher, feed
        self.kind = pacing.LIGHT
        self.samples = 0
        self.sequence = feed.sequence
        self.random = ABSENT
        self.random_ns = 0
        self.start = 0
        self.timing = False
        self.collate: Any = None
        self.gauge: Any = None
        self.before: Any = None
        self.states: Any = None
        self.watch: Any = None


@declare.hook("torch.utils.data._utils.fetch")
def _install(module: Any) -> None:
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        patching.replace(getattr(module, name), "fetch", _make)


def _make(original: Callable[..., Any]) -> Callable[..., Any]:
    begin = patching.guard("fetch")(_begin)
    end = patching.guard("fetch")(_end)
    known_feeds = fetchers.feeds.by_fetcher

    def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
        feed = known_feeds.get(id(self))
        if feed is not None and feed.pace.left > 0 and feed.fetcher() is self:
            feed.pace.left -= 1
            feed.sequence += 1
            note = None
        else:
            note = begin(self, args, kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            if note is not None:
                note.samples = 0
                end(note)
                _undo(note)
            raise
        if note is not None:
            end(note)
            _undo(note)  # where the recorder has left meanwhile, or failed
        return result

    return functools.wraps(original)(invisible(fetch))  # type: ignore[arg-type]


def _begin(fetcher: Any, args: tuple[Any, ...], kwargs: Any) -> Note | None:
    entered = monotonic_ns()
    if getattr(_fetches.local, "busy", False):
        return None  # a data set that loads from another loader: the outer fetch has it all
    feed = fetchers.feeds.by_fetcher.get(id(fetcher))
    if feed is None or feed.fetcher() is not fetcher:
        feed = fetchers.register_fetcher(fetcher)
    note = Note(entered, fetcher, feed)
    feed.sequence += 1
    note.kind = feed.pace.choose()
    note.samples = _count_requested(fetcher, args, kwargs)
    _fetches.local.busy = True
    try:
        _start(note)
    except BaseException:
        _undo(note)
        raise
    return note


def _start(note: Note) -> None:
    if note.feed.pace.random():
        before = monotonic_ns()
        note.states = randomness.states(note.fetcher.dataset)
        note.random_ns = monotonic_ns() - before
    note.gauge = measure.gauge()
    detailed = note.kind == pacing.DETAILED
    if detailed or note.feed.iterable:
        note.collate = note.fetcher.collate_fn
        note.fetcher.collate_fn = _collate(note)
    if detailed:
        note.watch, note.timing = Stopwatch(), True
        reads.begin(note.watch)
    note.before = note.gauge.start()
    note.start = note.before.at
    if detailed:
        note.watch.start(note.start, note.before.cpu)


def _end(note: Note) -> None:
    try:
        after = note.gauge.stop()
        if note.watch is not None:
            note.watch.stop(after.at, after.cpu)
    finally:
        _undo(note)
    if note.states is not None:
        before = monotonic_ns()
        note.random = int(randomness.states(note.fetcher.dataset) != note.states)
        note.random_ns += monotonic_ns() - before
    recorder.batch(_row(note, after))
    if note.feed.worker >= 0 and not _fetches.has_written_threads:
        _write_threads()
    _report_unobserved()
    costs = _costs(note, monotonic_ns() - after.at)
    note.feed.pace.settle(after.at - note.start, note.samples, costs)
    if note.feed.worker >= 0:
        files.tick(after.at)  # the recorder itself writes by and by


def _write_threads() -> None:
    """Write how many threads operators use in this worker, once it has made a batch."""
    torch = sys.modules["torch"]
    _fetches.has_written_threads = True
    recorder.fact("threads", torch, {"intra_op_threads": torch.get_num_threads()})


def _undo(note: Note) -> None:
    """Put back what stands there for the length of a fetch; once is enough."""
    _fetches.local.busy = False
    if note.timing:
        note.timing = False
        reads.finish()
    if note.collate is not None:
        note.fetcher.collate_fn, note.collate = note.collate, None


def _row(note: Note, after: measure.Reading) -> tuple[int, ...]:
    watch = note.watch
    stage_times = _UNDIVIDED
    if watch is not None:
        stage_times = tuple(time_ns for times in zip(watch.wall, watch.cpu) for time_ns in times)
    feed = note.feed
    return (
        feed.loader,
        feed.worker,
        note.sequence,
        note.samples,
        note.start,
        after.at,
        *measure.subtract_readings(note.before, after),
        note.random,
        int(watch is not None),
        *stage_times,
    )


def _costs(note: Note, afterwards: int) -> tuple[int, int, int]:
    light = max(1, note.start - note.entered + afterwards - note.random_ns)
    if note.watch is None:
        return light, 0, note.random_ns
    return 0, light + note.watch.switches * _cost() // 2, note.random_ns


def _cost() -> int:
    """Return the cost of a change to another stage and back here, in ns, measured once."""
    if not _fetches.switch_ns:
        watch, times = Stopwatch(), 32
        start = thread_time_ns()
        for _ in range(times):
            watch.enter(watch.enter(COLLATE))
        # The calls through a wrapper and its handling of exceptions cost half as much again.
        _fetches.switch_ns = max(1, (thread_time_ns() - start) * 3 // (2 * times))
    return _fetches.switch_ns


def _collate(note: Note) -> Callable[..., Any]:
    """Return what stands in for the collate function: counts samples, and is a stage."""
    count = note.feed.iterable and note.fetcher.auto_collation

    def count_samples(args: tuple[Any, ...], _kwargs: Any) -> None:
        if count and args and hasattr(args[0], "__len__"):
            note.samples = len(args[0])

    if note.kind == pacing.DETAILED:
        return time_function(note.collate, COLLATE, observe=count_samples)

    original: Any = note.collate

    def collate(*args: Any, **kwargs: Any) -> Any:
        count_samples(args, kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise

    return functools.wraps(original)(invisible(collate))  # type: ignore[arg-type]


def _count_requested(fetcher: Any, args: tuple[Any, ...], kwargs: Any) -> int:
    """Return how many samples are asked for; of an iterable data set, fewer may come."""
    index: Any = args[0] if args else kwargs.get("possibly_batched_index")
    if fetcher.auto_collation:
        return len(index) if hasattr(index, "__len__") else 1
    return len(index) if isinstance(index, list) else 1  # a BatchSampler as sampler


def _report_unobserved() -> None:
    while measure.gauges.unobserved:
        topic, why = measure.gauges.unobserved.popitem()
        recorder.report_unobserved(topic + " of fetches", why)
