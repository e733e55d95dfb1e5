"""What a training did besides its work, by light records: synchronising calls, memory, files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np
from msgspec import Struct

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
from gapless.recorded.training.edges import fact_of
from gapless.recorded.training.processes import Training

_MAX_ROWS: Final = 20  # lines, folders
_N_TOP_FOLDERS: Final = 3  # folders that hold half of what was opened are listed as they are
_MAX_LEVELS: Final = 4  # of folders
_MAX_WRITTEN: Final = 1000  # written files
_ALLOCATOR_COUNTERS: Final = (
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
_Location = tuple[str | None, int | None, str | None]


def measure_footprint(trainings: Sequence[Training]) -> Footprint:
    """Describe the training processes and their workers together."""
    return Footprint(
        syncs=_sync_uses(trainings),
        allocator=tuple(use for training in trainings for use in _allocator_uses(training.process)),
        files=_file_use(
            [process for training in trainings for process in (training.process, *training.workers)]
        ),
        calls=_call_uses(trainings),
    )


# ── Calls at lines of the user's ────────────────────────────────────────────────────────────────


class _CallSums(Struct):
    count: int = 0
    total_ns: int = 0
    in_steps: int = 0
    in_steps_ns: int = 0


def _sync_uses(trainings: Sequence[Training]) -> tuple[SyncUse, ...]:
    steps = _count_steps(trainings)
    return tuple(
        SyncUse(
            *location,
            calls.count,
            calls.total_ns,
            calls.in_steps / steps if steps else None,
            calls.in_steps_ns / steps if steps else None,
        )
        for location, calls in _rank_locations(trainings, wire.SYNC)
    )


def _call_uses(trainings: Sequence[Training]) -> tuple[CallUse, ...]:
    steps = _count_steps(trainings)
    uses = [
        CallUse(
            name,
            *location,
            calls.count,
            calls.total_ns,
            calls.in_steps / steps if steps else None,
        )
        for name, kind in OCCASIONS
        for location, calls in _rank_locations(trainings, kind)
    ]
    return tuple(sorted(uses, key=lambda use: -use.total_ns))


def _count_steps(trainings: Sequence[Training]) -> int:
    return sum(max(0, training.edges.count - 1) for training in trainings)


def _rank_locations(trainings: Sequence[Training], kind: int) -> list[tuple[_Location, _CallSums]]:
    """Return the lines that make calls of a kind, longest total time first."""
    calls_by_location: dict[_Location, _CallSums] = {}
    for training in trainings:
        for location, in_steps, count, total_ns in (
            *_recorded_calls(training, kind),
            *_summed_calls(training, kind),
        ):
            calls = calls_by_location.setdefault(location, _CallSums())
            calls.count += count
            calls.total_ns += total_ns
            calls.in_steps += count * in_steps
            calls.in_steps_ns += total_ns * in_steps
    return sorted(calls_by_location.items(), key=lambda row: -row[1].total_ns)[:_MAX_ROWS]


_CallRows = Iterator[tuple[_Location, bool, int, int]]  # location, whether between steps, count, ns


def _recorded_calls(training: Training, kind: int) -> _CallRows:
    marks = training.process.marks
    first_ns, last_ns = training.span or (0, -1)
    rows = np.flatnonzero(marks.kind == kind)
    on_thread = marks.thread[rows] == training.edges.thread
    in_steps = on_thread & (marks.start[rows] >= first_ns) & (marks.end[rows] <= last_ns)
    lengths_ns = marks.end[rows] - marks.start[rows]
    keys = marks.subject[rows] * 2 + in_steps
    for key in np.unique(keys).tolist():
        has_key = keys == key
        location = _site_location(training.process, key // 2)
        yield location, bool(key % 2), int(has_key.sum()), int(lengths_ns[has_key].sum())


def _summed_calls(training: Training, kind: int) -> _CallRows:
    """Return the calls of stretches whose marks were summed: in steps, if the whole stretch is."""
    calls = training.sums.calls.select(kind)
    first_ns, last_ns = training.span or (0, -1)
    start, end = training.sums.start[calls.stretch], training.sums.end[calls.stretch]
    in_steps = (calls.thread == training.edges.thread) & (start >= first_ns) & (end <= last_ns)
    columns = (calls.subject, in_steps, calls.count, calls.total)
    for subject, is_in_steps, count, total_ns in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield _site_location(training.process, subject), is_in_steps, count, total_ns


def _site_location(process: Process, site: int) -> _Location:
    fact = fact_of(process, "site", site)
    return (None, None, None) if fact is None else (fact.file, fact.line, fact.function)


# ── The allocator ───────────────────────────────────────────────────────────────────────────────


def _allocator_uses(process: Process) -> Iterator[AllocatorUse]:
    counters_by_device: dict[int, dict[str, int]] = {}
    for counters in process.counters:
        device = counters.get("device")
        if isinstance(device, int):
            counters_by_device.setdefault(device, {}).update(_int_counters(counters))
    for device, numbers in sorted(counters_by_device.items()):
        yield AllocatorUse(
            process.rank, device, *(numbers.get(name) for name in _ALLOCATOR_COUNTERS)
        )


def _int_counters(counters: Mapping[str, object]) -> dict[str, int]:
    numbers = {name: counters.get(name) for name in _ALLOCATOR_COUNTERS}
    return {name: value for name, value in numbers.items() if isinstance(value, int)}


# ── Files ───────────────────────────────────────────────────────────────────────────────────────


def _file_use(processes: Iterable[Process]) -> FileUse | None:
    opened, written = Counter[str](), dict[str, None]()
    for process in processes:
        opened.update(process.read)
        written.update(dict.fromkeys(process.written))
    unnamed = opened.pop("", 0)
    if not (opened or unnamed or written):
        return None
    has_opened = bool(opened or unnamed)
    return FileUse(
        opened=opened.total() if has_opened else None,
        files=len(opened) if has_opened else None,
        more=unnamed,
        folders=_folder_uses(opened),
        written=tuple(written)[:_MAX_WRITTEN],
    )


def _folder_uses(opened: Counter[str]) -> tuple[FolderUse, ...]:
    """Add files up by folder; many folders that are alike (one a class) by the folder above."""
    folders = {path: PurePath(path).parent for path in opened}
    for _ in range(_MAX_LEVELS):
        top_opened = sum(use.opened for use in _sum_folders(folders, opened)[:_N_TOP_FOLDERS])
        parents = {path: folder.parent for path, folder in folders.items()}
        if 2 * top_opened >= opened.total() or any(not parent.name for parent in parents.values()):
            break
        folders = parents
    return _sum_folders(folders, opened)[:_MAX_ROWS]


def _sum_folders(
    folders: Mapping[str, PurePath], opened: Mapping[str, int]
) -> tuple[FolderUse, ...]:
    """Add up by folder what was opened, largest first."""
    opened_counts, files = Counter[PurePath](), Counter(folders.values())
    for path, folder in folders.items():
        opened_counts[folder] += opened[path]
    return tuple(
        FolderUse(str(folder), count, files[folder])
        for folder, count in opened_counts.most_common()
    )
