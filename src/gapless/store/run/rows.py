"""A recording as rows of the tables of ``schema.sql``, in the order of their columns."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict, astuple

from gapless import wire
from gapless.model.recording import Manifest, Process, Recording, Samples, Sums, Unobserved
from gapless.model.trace import Int64
from gapless.store.logs.fields import integer, number

Rows = Iterable[Sequence[object]]
_MARK: Final = ("kind", "flags", "subject", "thread", "start", "end", "value")
_ALWAYS_KNOWN: Final = frozenset({"kind", "flags", "start", "end", "count", "total", "longest"})
_CHUNK_RECORDS: Final = 100_000  # records that are Python objects at the same time
_EMPTY: Final = np.zeros(0, np.int64)
_SITE_NOUN: Final = "site"


def tables(recording: Recording) -> Iterator[tuple[str, Rows]]:
    """Return each table's name and rows."""
    numbered = list(enumerate(recording.processes, 1))
    yield "run", [_run(recording.manifest)]
    yield "mark_kind", enumerate(wire.MARKS_NAMES)
    yield "process", (_process(process_id, process) for process_id, process in numbered)
    yield "mark", _records([asdict(process.marks) for _, process in numbered], _MARK)
    yield "batch", _records([process.batches.columns for _, process in numbered], wire.BATCH_FIELDS)
    yield "mark_sum", _sums([process.mark_sums for _, process in numbered], wire.MARK_SUM_FIELDS)
    yield "batch_sum", _sums([process.batch_sums for _, process in numbered], wire.BATCH_SUM_FIELDS)
    yield "fact", _rows_of_each(numbered, _facts)
    yield "site", _rows_of_each(numbered, _sites)
    yield "stack", _rows_of_each(numbered, _stacks)
    yield "window", _rows_of_each(numbered, _windows)
    yield "file", _rows_of_each(numbered, _files)
    yield "counter", _rows_of_each(numbered, _counters)
    yield "unseen", _unobserved_rows(None, (*recording.unobserved, *recording.samples.unobserved))
    yield (
        "unseen",
        _rows_of_each(
            numbered, lambda process_id, process: _unobserved_rows(process_id, process.unobserved)
        ),
    )
    yield "sample", _samples(recording.samples)


def _rows_of_each(
    numbered: Iterable[tuple[int, Process]], make_rows: Callable[[int, Process], Rows]
) -> Rows:
    return (row for process_id, process in numbered for row in make_rows(process_id, process))


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


def _process(process_id: int, process: Process) -> tuple[object, ...]:
    return (
        process_id,
        None if process.pid < 0 else process.pid,
        process.role,
        process.rank,
        process.world,
        process.worker,
        process.loader,
        process.start,
        process.end,
        _json(process.argv),
        _json(dict(process.versions)),
    )


def _sums(processes: Sequence[Sums | None], fields: Sequence[str]) -> Rows:
    no_columns = dict.fromkeys(fields, _EMPTY)
    return _records([no_columns if sums is None else sums.columns for sums in processes], fields)


def _records(processes: Sequence[Mapping[str, Int64]], fields: Sequence[str]) -> Rows:
    counts = [len(columns_of_process["start"]) for columns_of_process in processes]
    columns = {"process": np.repeat(np.arange(1, len(counts) + 1), counts)}
    for name in fields:
        columns[name] = np.concatenate(
            [_EMPTY, *(columns_of_process[name] for columns_of_process in processes)]
        )
    for start in range(0, sum(counts), _CHUNK_RECORDS):
        chunk = (
            _values(name, column[start : start + _CHUNK_RECORDS])
            for name, column in columns.items()
        )
        yield from zip(*chunk, strict=True)


def _values(name: str, column: Int64) -> list[Any]:
    """Return a column as Python's numbers, ``None`` where it was not observed."""
    is_unobserved = column == (wire.NOBODY if name == "subject" else -1)
    if name in _ALWAYS_KNOWN or not is_unobserved.any():
        return column.tolist()
    values = column.astype(object)
    values[is_unobserved] = None
    return values.tolist()


def _facts(process_id: int, process: Process) -> Rows:
    for fact in process.facts:
        if fact.noun != _SITE_NOUN:
            location = (_text(fact.file), fact.line, _text(fact.function))
            yield (process_id, _text(fact.noun), fact.id, *location, _json(dict(fact.values)))


def _sites(process_id: int, process: Process) -> Rows:
    for fact in process.facts:
        if fact.noun == _SITE_NOUN:
            yield process_id, fact.id, _text(fact.file), fact.line, _text(fact.function)


def _stacks(process_id: int, process: Process) -> Rows:
    for stack in process.stacks:
        file, line, function = stack.frames[0] if stack.frames else (None, None, None)
        innermost = (_text(file), line, _text(function))
        yield (process_id, _text(stack.thread), stack.count, *innermost, _json(stack.frames))


def _windows(process_id: int, process: Process) -> Rows:
    for window in process.windows:
        number, path, *times, discarded, _, _ = astuple(
            window
        )  # the rest: for people who open the file
        yield (process_id, number, _text(path), *times, _text(discarded))


def _files(process_id: int, process: Process) -> Rows:
    written, exported = frozenset(process.written), frozenset(process.exported)
    for path in dict.fromkeys((*process.read, *process.written)):
        yield (
            process_id,
            _text(path),
            process.read.get(path, 0),
            int(path in written),
            int(path in exported),
        )


def _counters(process_id: int, process: Process) -> Rows:
    for counters in process.counters:
        ns, device = integer(counters.get("ns")), integer(counters.get("device"))
        for name, value in counters.items():
            amount = number(value)
            if ns is not None and amount is not None and name not in {"ns", "device"}:
                yield process_id, ns, device, _text(name), amount


def _unobserved_rows(process_id: int | None, items: Iterable[Unobserved]) -> Rows:
    return (
        (process_id, _text(unobserved.what), _text(unobserved.why), unobserved.count)
        for unobserved in items
    )


def _samples(samples: Samples) -> Rows:
    for name, (times, values) in samples.series.items():
        yield from (
            (_text(name), ns, amount) for ns, amount in zip(times.tolist(), values, strict=True)
        )


def _text(value: str | None) -> str | None:
    """Return a text that is UTF-8: the name of a file may hold bytes that are not."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def _json(value: object) -> str:
    """Return JSON that any reader accepts; only Python's knows NaN and Infinity."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str), allow_nan=False)
