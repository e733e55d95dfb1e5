"""Small traces as text, in the layouts that writers use, and what they hold read back."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import zstandard
from msgspec.structs import asdict

from gapless.formats import read
from gapless.model import category as c
from gapless.model.trace import Trace

Fields = dict[str, Any]


def op(name: str = "aten::add", ts: str = "10.000", dur: str = "5.000", **fields: object) -> str:
    """Return the text of a host operator; times are put in as they are written."""
    return raw_event(f'"{name}"', ts, dur, **fields)


def raw_event(name: str, ts: str, dur: str, **fields: object) -> str:
    """Return the text of an event whose name and times are JSON already, sound or not."""
    all_fields: Fields = {"cat": "cpu_op", "pid": 100, "tid": 100} | fields
    members = "".join(f', "{key}": {json.dumps(value)}' for key, value in all_fields.items())
    return f'{{"ph": "X", "name": {name}, "ts": {ts}, "dur": {dur}{members}}}'


def kernel(ts: str = "20.000", dur: str = "3.000", **args: object) -> str:
    """Return the text of a kernel on stream 7 of device 0."""
    all_args: Fields = {"device": 0, "stream": 7, "correlation": 5} | args
    return op("k", ts, dur, cat="kernel", pid=0, tid=7, args=all_args)


def document(events: Iterable[str], head: str = '"schemaVersion": 1, ', tail: str = "") -> str:
    """Return a whole document: head, events in Kineto's way, tail."""
    return f'{{{head}"traceEvents": [\n' + ",\n".join(events) + f"\n]{tail}}}\n"


def write_trace(folder: Path, text: str | bytes, name: str = "t.json") -> Path:
    """Write a file, compressed as its name says."""
    data = text.encode() if isinstance(text, str) else text
    if name.endswith(".gz"):
        data = gzip.compress(data)
    elif name.endswith(".zst"):
        data = zstandard.ZstdCompressor().compress(data)
    path = folder / name
    path.write_bytes(data)
    return path


def read_events(folder: Path, events: Sequence[str], head: str = '"schemaVersion": 1, ') -> Trace:
    """Read these events."""
    return read(write_trace(folder, document(events, head)), processes=1)


def spans(trace: Trace) -> list[tuple[str, int, int]]:
    """List name, start and end of each event, on the axis of the file."""
    events = trace.events
    rows = zip(events.name.tolist(), events.start.tolist(), events.end.tolist(), strict=True)
    return [(trace.names[name], start, end) for name, start, end in rows]


def labels(trace: Trace) -> list[str]:
    """List the categories of all events."""
    return [c.LABELS[code] for code in trace.events.category.tolist()]


def health_counts(trace: Trace) -> tuple[dict[str, int], dict[str, int]]:
    """Return what was dropped and what was repaired."""
    health = trace.health
    return (
        {count.what: count.count for count in health.dropped},
        {count.what: count.count for count in health.repaired},
    )


def differences(trace: Trace, other_trace: Trace) -> list[str]:
    """List in what two traces differ, the path aside."""
    differing: list[str] = []
    for name in ("events", "gpu", "memory"):
        columns, other_columns = _columns(trace, name), _columns(other_trace, name)
        for key, column in columns.items():
            if column.dtype != other_columns[key].dtype or not np.array_equal(
                column, other_columns[key]
            ):
                differing.append(f"{name}.{key}")
    plain_fields = set(asdict(trace)) - {"events", "gpu", "memory", "path"}
    return differing + [
        key for key in sorted(plain_fields) if getattr(trace, key) != getattr(other_trace, key)
    ]


def _columns(trace: Trace, group: str) -> dict[str, npt.NDArray[Any]]:
    return cast("dict[str, npt.NDArray[Any]]", asdict(getattr(trace, group)))
