"""A recording as rows of the tables of ``schema.sql``, in the order of their columns."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import numpy as np

from gapless import wire
from gapless.model.recording import Manifest, Process, Recording, Samples, Sums, Unseen
from gapless.model.trace import Int64
from gapless.store.fields import integer, number

Rows = Iterable[Sequence[object]]
_MARK: Final = ("kind", "flags", "subject", "thread", "start", "end", "value")
_ALWAYS_KNOWN: Final = frozenset({"kind", "flags", "start", "end", "count", "total", "longest"})
_AT_ONCE: Final = 100_000  # records that are Python's at the same time
_EMPTY: Final = np.zeros(0, np.int64)
_SITE: Final = "site"


def tables(recording: Recording) -> Iterator[tuple[str, Rows]]:
    """Give each table's name and rows."""
    several = list(enumerate(recording.processes, 1))
    yield "run", [_run(recording.manifest)]
    yield "mark_kind", enumerate(wire.MARKS_NAMES)
    yield "process", (_process(at, one) for at, one in several)
    yield "mark", _records([vars(one.marks) for _, one in several], _MARK)
    yield "batch", _records([one.batches.columns for _, one in several], wire.BATCH_FIELDS)
    yield "mark_sum", _sums([one.mark_sums for _, one in several], wire.MARK_SUM_FIELDS)
    yield "batch_sum", _sums([one.batch_sums for _, one in several], wire.BATCH_SUM_FIELDS)
    yield "fact", _each(several, _facts)
    yield "site", _each(several, _sites)
    yield "stack", _each(several, _stacks)
    yield "window", _each(several, _windows)
    yield "file", _each(several, _files)
    yield "counter", _each(several, _counters)
    yield "unseen", _unseen(None, (*recording.unseen, *recording.samples.unseen))
    yield "unseen", _each(several, lambda at, one: _unseen(at, one.unseen))
    yield "sample", _samples(recording.samples)


def _each(several: Iterable[tuple[int, Process]], rows: Callable[[int, Process], Rows]) -> Rows:
    return (row for at, process in several for row in rows(at, process))


def _run(run: Manifest) -> tuple[object, ...]:
    return (
        _text(run.id),
        _json(run.command),
        _text(run.folder),
        _text(run.host),
        _text(run.gapless),
        run.started_unix_ns,
        run.started,
        run.ended,
        run.exit_code,
        run.status,
        _text(run.stopped_by),
    )


def _process(at: int, one: Process) -> tuple[object, ...]:
    return (
        at,
        None if one.pid < 0 else one.pid,
        one.role,
        one.rank,
        one.world,
        one.worker,
        one.loader,
        one.start,
        one.end,
        _json(one.argv),
        _json(dict(one.versions)),
    )


def _sums(processes: Sequence[Sums | None], fields: Sequence[str]) -> Rows:
    none = dict.fromkeys(fields, _EMPTY)
    return _records([none if one is None else one.columns for one in processes], fields)


def _records(processes: Sequence[Mapping[str, Int64]], fields: Sequence[str]) -> Rows:
    counts = [len(one["start"]) for one in processes]
    columns = {"process": np.repeat(np.arange(1, len(counts) + 1), counts)}
    for name in fields:
        columns[name] = np.concatenate([_EMPTY, *(one[name] for one in processes)])
    for first in range(0, sum(counts), _AT_ONCE):
        some = (_values(name, one[first : first + _AT_ONCE]) for name, one in columns.items())
        yield from zip(*some, strict=True)


def _values(name: str, column: Int64) -> list[Any]:
    """Give a column as Python's numbers, ``None`` where it was not observed."""
    missing = column == (wire.NOBODY if name == "subject" else -1)
    if name in _ALWAYS_KNOWN or not missing.any():
        return column.tolist()
    values = column.astype(object)
    values[missing] = None
    return values.tolist()


def _facts(at: int, one: Process) -> Rows:
    for fact in one.facts:
        if fact.noun != _SITE:
            place = (_text(fact.file), fact.line, _text(fact.function))
            yield (at, _text(fact.noun), fact.id, *place, _json(dict(fact.values)))


def _sites(at: int, one: Process) -> Rows:
    for fact in one.facts:
        if fact.noun == _SITE:
            yield at, fact.id, _text(fact.file), fact.line, _text(fact.function)


def _stacks(at: int, one: Process) -> Rows:
    for stack in one.stacks:
        file, line, function = stack.frames[0] if stack.frames else (None, None, None)
        innermost = (_text(file), line, _text(function))
        yield (at, _text(stack.thread), stack.count, *innermost, _json(stack.frames))


def _windows(at: int, one: Process) -> Rows:
    for window in one.windows:
        number, path, *times, discarded, _, _ = astuple(window)  # the rest: for who opens the file
        yield (at, number, _text(path), *times, _text(discarded))


def _files(at: int, one: Process) -> Rows:
    written, exported = frozenset(one.written), frozenset(one.exported)
    for path in dict.fromkeys((*one.read, *one.written)):
        yield at, _text(path), one.read.get(path, 0), int(path in written), int(path in exported)


def _counters(at: int, one: Process) -> Rows:
    for counters in one.counters:
        ns, device = integer(counters.get("ns")), integer(counters.get("device"))
        for name, value in counters.items():
            amount = number(value)
            if ns is not None and amount is not None and name not in {"ns", "device"}:
                yield at, ns, device, _text(name), amount


def _unseen(at: int | None, several: Iterable[Unseen]) -> Rows:
    return ((at, _text(one.what), _text(one.why), one.count) for one in several)


def _samples(samples: Samples) -> Rows:
    for name, (times, values) in samples.series.items():
        yield from ((_text(name), ns, one) for ns, one in zip(times.tolist(), values, strict=True))


def _text(value: str | None) -> str | None:
    """Give a text that is UTF-8: the name of a file may hold bytes that are not."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def _json(value: object) -> str:
    """Give JSON that any reader takes; only Python's knows NaN and Infinity."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str), allow_nan=False)
