"""Logs: what processes wrote of themselves, as values.

A log holds what one process wrote, or several one after the other: a worker's successor in the
same slot goes on in the file, and each begins with a PROCESS frame. Whatever cannot be read is
counted, and the rest is used.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Batches, Marks, Process, Sums, Unseen
from gapless.model.trace import Int64
from gapless.store import packed
from gapless.store.fields import Object, integer, members, parse, text, texts
from gapless.store.framing import Framed, framed
from gapless.store.told import told

_SIGNS: Final = {
    key: re.compile(rf"{sign}(\d{{1,9}})")
    for key, sign in {"rank": "^rank", "worker": "-worker", "pid": "-pid"}.items()
}
_UNKNOWN: Final = -1
Columns = Mapping[str, Int64]


@dataclass
class _Group:
    """The frames of one process."""

    head: Object
    bodies: dict[int, list[memoryview]] = field(default_factory=dict[int, list[memoryview]])

    def of(self, kind: int) -> Sequence[memoryview]:
        return self.bodies.get(kind, ())


def open_log(path: Path) -> Framed:
    """Give the frames of a log. Raises ``RunFolderError`` if it is newer, ``OSError``."""
    try:
        return framed(path.read_bytes())
    except wire.NewerError as error:
        found, known = error.args
        raise RunFolderError(
            f"{path} is of version {found}; this gapless reads up to {known}. Upgrade gapless "
            "to read it"
        ) from error


def processes(name: str, log: Framed) -> tuple[tuple[Process, ...], tuple[Unseen, ...]]:
    """Give the processes that wrote a log, and what is wrong with it; its name tells the rest."""
    groups = _groups(log.frames)
    records = {
        kind: packed.columns(packed.OF[kind], [group.of(kind) for group in groups])
        for kind in wire.PACKED
    }
    found = tuple(
        _process(name, group, {kind: some.of(at) for kind, some in records.items()})
        for at, group in enumerate(groups)
    )
    strange = Counter(kind for kind, _ in log.frames if kind not in wire.FRAMES)
    unseen = [
        Unseen(f"frames of kind {kind} in {name}", "unknown to this version of gapless", count)
        for kind, count in strange.items()
    ]
    partial = sum(some.partial for some in records.values())
    if partial:
        unseen.append(Unseen(f"the end of frames in {name}", "no whole record", partial))
    return found, tuple(unseen)


def damage(name: str, log: Framed, *, ended: bool) -> tuple[Unseen, ...]:
    """Say what in a log is no whole frame; in a log that ``ended`` the rest at its end, too."""
    unseen: list[Unseen] = []
    if log.gaps:
        why = f"{sum(log.gaps)} bytes are no whole frame: a full disk, or a damaged file"
        unseen.append(Unseen(f"a part of {name}", why, len(log.gaps)))
    if log.tail and ended:
        why = f"{log.tail} bytes are no whole frame: the process was killed, or the disk full"
        unseen.append(Unseen(f"the end of {name}", why))
    return tuple(unseen)


def _groups(frames: Iterable[tuple[int, memoryview]]) -> list[_Group]:
    """Part frames by the process that wrote them: a PROCESS frame tells of those behind it."""
    groups: dict[tuple[int, int], _Group] = {}
    current: _Group | None = None
    for kind, body in frames:
        if kind == wire.PROCESS:
            head = parse(body) or {}
            current = groups.setdefault(_identity(head, len(groups)), _Group(head))
        elif kind in wire.FRAMES:
            current = current or groups.setdefault((_UNKNOWN, _UNKNOWN), _Group({}))
            current.bodies.setdefault(kind, []).append(body)
    return list(groups.values())


def _identity(head: Object, otherwise: int) -> tuple[int, int]:
    pid, start = integer(head.get("pid")), integer(head.get("start_ns"))
    if pid is None:
        return _UNKNOWN, otherwise
    return pid, _UNKNOWN if start is None else start


def _process(name: str, group: _Group, records: Mapping[int, Columns]) -> Process:
    marks, batches = records[wire.MARKS], records[wire.BATCHES]
    head, rest = {**_named(name), **group.head}, told(group.bodies)
    pid, worker = integer(head.get("pid")), integer(head.get("worker"))
    role = head.get("role", "training" if worker is None else "worker")
    headless = () if group.head else (Unseen(f"who wrote {name}", "its first frame is lost"),)
    return Process(
        pid=_UNKNOWN if pid is None else pid,
        role="worker" if role == "worker" else "training",
        rank=integer(head.get("rank")),
        world=integer(head.get("world")),
        worker=worker,
        loader=integer(head.get("loader")),
        start=_start(head, records.values()),
        end=rest.end,
        argv=texts(head.get("argv")),
        versions={key: one for key, one in members(head.get("versions")).items() if text(one)},
        marks=Marks(**marks),
        batches=Batches(batches),
        facts=rest.facts,
        unseen=(*headless, *rest.unseen),
        stacks=rest.stacks,
        windows=rest.windows,
        counters=rest.counters,
        read=rest.read,
        written=rest.written,
        exported=rest.exported,
        mark_sums=_sums(records[wire.MARK_SUMS]),
        batch_sums=_sums(records[wire.BATCH_SUMS]),
        how=rest.how,
        trial=rest.trial,
    )


def _sums(columns: Columns) -> Sums | None:
    return Sums(columns) if len(columns["count"]) else None


def _named(name: str) -> dict[str, int]:
    """Give what the name of a log tells: the rank, the worker, the process."""
    return {key: int(found[1]) for key, sign in _SIGNS.items() if (found := sign.search(name))}


def _start(head: Object, records: Iterable[Columns]) -> int:
    """Give when a process started; else the first that is known of it."""
    for key in ("start_ns", "monotonic_ns"):
        told_start = integer(head.get(key))
        if told_start is not None:
            return told_start
    firsts = [int(one["start"].min()) for one in records if len(one["start"])]
    return min(firsts, default=0)
