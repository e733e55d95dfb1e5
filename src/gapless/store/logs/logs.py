"""Logs: what processes recorded about themselves, as values.

A log holds what one process wrote, or several one after the other: a worker's successor in the same
slot goes on in the file, and each begins with a PROCESS frame. Whatever cannot be read is counted,
and the rest is used.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Batches, JobPlace, Marks, Process, Sums, Unobserved
from gapless.model.trace import Int64
from gapless.store.logs import packed
from gapless.store.logs.fields import Object, integer, members, parse, text, texts
from gapless.store.logs.framing import FramedLog, read_frames
from gapless.store.logs.process_log import parse_process_log

_NAME_PATTERNS: Final = {
    key: re.compile(rf"{prefix}(\d{{1,9}})")
    for key, prefix in {"rank": "^rank", "worker": "-worker", "pid": "-pid"}.items()
}
_UNKNOWN: Final = -1
Columns = Mapping[str, Int64]


class _ProcessFrames(Struct):
    """The frames of one process."""

    head: Object
    bodies: dict[int, list[memoryview]] = field(default_factory=dict[int, list[memoryview]])

    def bodies_of(self, kind: int) -> Sequence[memoryview]:
        return self.bodies.get(kind, ())


def open_log(path: Path) -> FramedLog:
    """Return the frames of a log. Raises ``RunFolderError`` if it is newer, ``OSError``."""
    try:
        return read_frames(path.read_bytes())
    except wire.NewerError as error:
        version, newest = error.args
        raise RunFolderError(
            f"{path} is of version {version}; this gapless reads up to {newest}. Upgrade gapless "
            "to read it"
        ) from error


def read_processes(name: str, log: FramedLog) -> tuple[tuple[Process, ...], tuple[Unobserved, ...]]:
    """Return the processes that wrote a log, and what is wrong with it; its name has the rest."""
    groups = _group_frames(log.frames)
    records = {
        kind: packed.unpack_columns(
            packed.DTYPES_BY_KIND[kind], [group.bodies_of(kind) for group in groups]
        )
        for kind in wire.PACKED
    }
    log_processes = tuple(
        _process(
            name, group, {kind: columns.columns_of(index) for kind, columns in records.items()}
        )
        for index, group in enumerate(groups)
    )
    unknown_kinds = Counter(kind for kind, _ in log.frames if kind not in wire.FRAMES)
    unobserved = [
        Unobserved(f"frames of kind {kind} in {name}", "unknown to this version of gapless", count)
        for kind, count in unknown_kinds.items()
    ]
    partial = sum(columns.partial for columns in records.values())
    if partial:
        unobserved.append(Unobserved(f"the end of frames in {name}", "no whole record", partial))
    return log_processes, tuple(unobserved)


def find_damage(name: str, log: FramedLog, *, has_ended: bool) -> tuple[Unobserved, ...]:
    """Describe what in a log is not a whole frame; with ``has_ended`` also the rest at its end."""
    unobserved: list[Unobserved] = []
    if log.gaps:
        why = f"{sum(log.gaps)} bytes are no whole frame: a full disk, or a damaged file"
        unobserved.append(Unobserved(f"a part of {name}", why, len(log.gaps)))
    if log.tail and has_ended:
        why = f"{log.tail} bytes are no whole frame: the process was killed, or the disk full"
        unobserved.append(Unobserved(f"the end of {name}", why))
    return tuple(unobserved)


def _group_frames(frames: Iterable[tuple[int, memoryview]]) -> list[_ProcessFrames]:
    """Split frames by the process that wrote them: a PROCESS frame describes those after it."""
    groups: dict[tuple[int, int], _ProcessFrames] = {}
    current: _ProcessFrames | None = None
    for kind, body in frames:
        if kind == wire.PROCESS:
            head = parse(body) or {}
            current = groups.setdefault(_identity(head, len(groups)), _ProcessFrames(head))
        elif kind in wire.FRAMES:
            current = current or groups.setdefault((_UNKNOWN, _UNKNOWN), _ProcessFrames({}))
            current.bodies.setdefault(kind, []).append(body)
    return list(groups.values())


def _identity(head: Object, fallback: int) -> tuple[int, int]:
    pid, start = integer(head.get("pid")), integer(head.get("start_ns"))
    if pid is None:
        return _UNKNOWN, fallback
    return pid, _UNKNOWN if start is None else start


def _process(name: str, group: _ProcessFrames, records: Mapping[int, Columns]) -> Process:
    marks, batches = records[wire.MARKS], records[wire.BATCHES]
    head, process_log = {**_parse_log_name(name), **group.head}, parse_process_log(group.bodies)
    pid, worker = integer(head.get("pid")), integer(head.get("worker"))
    role = head.get("role", "training" if worker is None else "worker")
    missing_head = (
        () if group.head else (Unobserved(f"who wrote {name}", "its first frame is lost"),)
    )
    return Process(
        pid=_UNKNOWN if pid is None else pid,
        role="worker" if role == "worker" else "training",
        rank=integer(head.get("rank")),
        world=integer(head.get("world")),
        worker=worker,
        loader=integer(head.get("loader")),
        start=_start(head, records.values()),
        end=process_log.end,
        argv=texts(head.get("argv")),
        versions={
            key: number for key, number in members(head.get("versions")).items() if text(number)
        },
        marks=Marks(**marks),
        batches=Batches(batches),
        facts=process_log.facts,
        unobserved=(*missing_head, *process_log.unobserved),
        stacks=process_log.stacks,
        windows=process_log.windows,
        counters=process_log.counters,
        read=process_log.read,
        written=process_log.written,
        exported=process_log.exported,
        mark_sums=_sums(records[wire.MARK_SUMS]),
        batch_sums=_sums(records[wire.BATCH_SUMS]),
        end_kind=process_log.end_kind,
        trial=process_log.trial,
        setup_stacks=process_log.setup_stacks,
        rare_stacks=process_log.rare_stacks,
        job=job_place(head),
        host=text(head.get("hostname")),
        unix_offset_ns=_unix_offset_ns(head),
    )


def job_place(head: Object) -> JobPlace | None:
    """Return which job the writer of a PROCESS frame is a part of; ``None``: it does not say."""
    job = members(head.get("job"))
    if not job:
        return None
    node, nodes, restart = (integer(job.get(name)) for name in ("node", "nodes", "restart"))
    return JobPlace(text(job.get("run")), text(job.get("master")), node, nodes, restart)


def _unix_offset_ns(head: Object) -> int | None:
    unix_ns, monotonic_ns = integer(head.get("unix_ns")), integer(head.get("monotonic_ns"))
    return None if unix_ns is None or monotonic_ns is None else unix_ns - monotonic_ns


def _sums(columns: Columns) -> Sums | None:
    return Sums(columns) if len(columns["count"]) else None


def _parse_log_name(name: str) -> dict[str, int]:
    """Return what the name of a log contains: the rank, the worker, the process."""
    return {
        key: int(match[1])
        for key, pattern in _NAME_PATTERNS.items()
        if (match := pattern.search(name))
    }


def _start(head: Object, records: Iterable[Columns]) -> int:
    """Return when a process started; else the earliest known time of it."""
    for key in ("start_ns", "monotonic_ns"):
        start_ns = integer(head.get(key))
        if start_ns is not None:
            return start_ns
    firsts = [int(columns["start"].min()) for columns in records if len(columns["start"])]
    return min(firsts, default=0)
