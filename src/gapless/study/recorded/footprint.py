"""What a training did beside its work, of its light records: synchronising calls, memory, files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.footprint import (
    AllocatorUse,
    CallUse,
    FileUse,
    FolderUse,
    Footprint,
    SyncUse,
)
from gapless.model.recording import Process
from gapless.study.recorded.edges import fact_of
from gapless.study.recorded.training import Training

_MOST: Final = 20  # lines, folders
_FEW: Final = 3  # folders that hold half of what was opened are told as they are
_LEVELS: Final = 4  # of folders
_MANY: Final = 1000  # written files
_NUMBERS: Final = (
    "allocated_peak",
    "reserved_peak",
    "retries",
    "ooms",
    "device_allocs",
    "device_frees",
)
OCCASIONS: Final = (
    ("checkpoint", wire.CHECKPOINT),
    ("logging", wire.LOGGING),
    ("profiling", wire.PROFILING),
)
_Place = tuple[str | None, int | None, str | None]


def footprint(every: Sequence[Training]) -> Footprint:
    """Describe the training processes and their workers together."""
    return Footprint(
        syncs=_syncs(every),
        allocator=tuple(use for one in every for use in _allocators(one.process)),
        files=_files([process for one in every for process in (one.process, *one.workers)]),
        calls=_occasions(every),
    )


# ── Calls at lines of the user's ────────────────────────────────────────────────────────────────


@dataclass
class _Calls:
    count: int = 0
    total: int = 0
    in_steps: int = 0
    in_steps_ns: int = 0


def _syncs(every: Sequence[Training]) -> tuple[SyncUse, ...]:
    steps = _steps(every)
    return tuple(
        SyncUse(
            *place,
            calls.count,
            calls.total,
            calls.in_steps / steps if steps else None,
            calls.in_steps_ns / steps if steps else None,
        )
        for place, calls in _ranked(every, wire.SYNC)
    )


def _occasions(every: Sequence[Training]) -> tuple[CallUse, ...]:
    steps = _steps(every)
    found = [
        CallUse(
            name,
            *place,
            calls.count,
            calls.total,
            calls.in_steps / steps if steps else None,
        )
        for name, kind in OCCASIONS
        for place, calls in _ranked(every, kind)
    ]
    return tuple(sorted(found, key=lambda one: -one.total_ns))


def _steps(every: Sequence[Training]) -> int:
    return sum(max(0, one.edges.count - 1) for one in every)


def _ranked(every: Sequence[Training], kind: int) -> list[tuple[_Place, _Calls]]:
    """Give the lines that make calls of a kind, those with most time first."""
    found: dict[_Place, _Calls] = {}
    for one in every:
        for place, within, count, total in (*_kept(one, kind), *_summed(one, kind)):
            calls = found.setdefault(place, _Calls())
            calls.count += count
            calls.total += total
            calls.in_steps += count * within
            calls.in_steps_ns += total * within
    return sorted(found.items(), key=lambda item: -item[1].total)[:_MOST]


_Some = Iterator[tuple[_Place, bool, int, int]]  # place, whether between steps, count, ns


def _kept(training: Training, kind: int) -> _Some:
    marks = training.process.marks
    first, last = training.span or (0, -1)
    rows = np.flatnonzero(marks.kind == kind)
    own = marks.thread[rows] == training.edges.thread
    within = own & (marks.start[rows] >= first) & (marks.end[rows] <= last)
    length = marks.end[rows] - marks.start[rows]
    keys = marks.subject[rows] * 2 + within
    for key in np.unique(keys).tolist():
        mine = keys == key
        place = _place(training.process, key // 2)
        yield place, bool(key % 2), int(mine.sum()), int(length[mine].sum())


def _summed(training: Training, kind: int) -> _Some:
    """Give the calls of stretches whose marks were summed: in steps, if the whole stretch is."""
    calls = training.sums.calls.of(kind)
    first, last = training.span or (0, -1)
    start, end = training.sums.start[calls.stretch], training.sums.end[calls.stretch]
    within = (calls.thread == training.edges.thread) & (start >= first) & (end <= last)
    columns = (calls.subject, within, calls.count, calls.total)
    for subject, inside, count, total in zip(*(one.tolist() for one in columns), strict=True):
        yield _place(training.process, subject), inside, count, total


def _place(process: Process, site: int) -> _Place:
    fact = fact_of(process, "site", site)
    return (None, None, None) if fact is None else (fact.file, fact.line, fact.function)


# ── The allocator ───────────────────────────────────────────────────────────────────────────────


def _allocators(process: Process) -> Iterator[AllocatorUse]:
    last: dict[int, dict[str, int]] = {}
    for counters in process.counters:
        device = counters.get("device")
        if isinstance(device, int):
            last.setdefault(device, {}).update(_whole(counters))
    for device, numbers in sorted(last.items()):
        yield AllocatorUse(process.rank, device, *(numbers.get(name) for name in _NUMBERS))


def _whole(counters: Mapping[str, object]) -> dict[str, int]:
    named = {name: counters.get(name) for name in _NUMBERS}
    return {name: value for name, value in named.items() if isinstance(value, int)}


# ── Files ───────────────────────────────────────────────────────────────────────────────────────


def _files(processes: Iterable[Process]) -> FileUse | None:
    opened, written = Counter[str](), dict[str, None]()
    for one in processes:
        opened.update(one.read)
        written.update(dict.fromkeys(one.written))
    more = opened.pop("", 0)
    if not (opened or more or written):
        return None
    some = bool(opened or more)
    return FileUse(
        opened=opened.total() if some else None,
        files=len(opened) if some else None,
        more=more,
        folders=_folders(opened),
        written=tuple(written)[:_MANY],
    )


def _folders(opened: Counter[str]) -> tuple[FolderUse, ...]:
    """Add files up by folder; many folders that are alike (one a class) by the folder above."""
    places = {path: PurePath(path).parent for path in opened}
    for _ in range(_LEVELS):
        few = sum(one.opened for one in _added(places, opened)[:_FEW])
        above = {path: folder.parent for path, folder in places.items()}
        if 2 * few >= opened.total() or any(not one.name for one in above.values()):
            break
        places = above
    return _added(places, opened)[:_MOST]


def _added(places: Mapping[str, PurePath], opened: Mapping[str, int]) -> tuple[FolderUse, ...]:
    """Add up by folder what was opened, the most first."""
    times, files = Counter[PurePath](), Counter(places.values())
    for path, folder in places.items():
        times[folder] += opened[path]
    return tuple(FolderUse(str(one), count, files[one]) for one, count in times.most_common())
