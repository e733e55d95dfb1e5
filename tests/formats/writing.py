"""Small traces as text, in the layouts that writers use, and what they hold read back."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import zstandard

from gapless.formats import read
from gapless.model import category as c
from gapless.model.trace import Trace

Fields = dict[str, Any]


def op(name: str = "aten::add", ts: str = "10.000", dur: str = "5.000", **more: object) -> str:
    """Give the text of a host operator; times are put in as they are written."""
    return raw(f'"{name}"', ts, dur, **more)


def raw(name: str, ts: str, dur: str, **more: object) -> str:
    """Give the text of an event whose name and times are JSON already, sound or not."""
    rest: Fields = {"cat": "cpu_op", "pid": 100, "tid": 100} | more
    members = "".join(f', "{key}": {json.dumps(value)}' for key, value in rest.items())
    return f'{{"ph": "X", "name": {name}, "ts": {ts}, "dur": {dur}{members}}}'


def kernel(ts: str = "20.000", dur: str = "3.000", **args: object) -> str:
    """Give the text of a kernel on stream 7 of device 0."""
    told: Fields = {"device": 0, "stream": 7, "correlation": 5} | args
    return op("k", ts, dur, cat="kernel", pid=0, tid=7, args=told)


def document(events: Iterable[str], head: str = '"schemaVersion": 1, ', tail: str = "") -> str:
    """Give a whole document: head, events in Kineto's way, tail."""
    return f'{{{head}"traceEvents": [\n' + ",\n".join(events) + f"\n]{tail}}}\n"


def written(folder: Path, text: str | bytes, name: str = "t.json") -> Path:
    """Write a file, compressed as its name says."""
    data = text.encode() if isinstance(text, str) else text
    if name.endswith(".gz"):
        data = gzip.compress(data)
    elif name.endswith(".zst"):
        data = zstandard.ZstdCompressor().compress(data)
    path = folder / name
    path.write_bytes(data)
    return path


def opened(folder: Path, events: Sequence[str], head: str = '"schemaVersion": 1, ') -> Trace:
    """Read these events."""
    return read(written(folder, document(events, head)), processes=1)


def spans(trace: Trace) -> list[tuple[str, int, int]]:
    """List name, start and end of each event, on the axis of the file."""
    events = trace.events
    rows = zip(events.name.tolist(), events.start.tolist(), events.end.tolist(), strict=True)
    return [(trace.names[name], start, end) for name, start, end in rows]


def labels(trace: Trace) -> list[str]:
    """List the categories of all events."""
    return [c.LABELS[code] for code in trace.events.category.tolist()]


def counted(trace: Trace) -> tuple[dict[str, int], dict[str, int]]:
    """Give what was dropped and what was repaired."""
    health = trace.health
    return (
        {count.what: count.count for count in health.dropped},
        {count.what: count.count for count in health.repaired},
    )


def differences(one: Trace, other: Trace) -> list[str]:
    """List in what two traces differ, the path aside."""
    found: list[str] = []
    for name in ("events", "gpu", "memory"):
        left, right = _columns(one, name), _columns(other, name)
        for key, column in left.items():
            if column.dtype != right[key].dtype or not np.array_equal(column, right[key]):
                found.append(f"{name}.{key}")
    plain = set(vars(one)) - {"events", "gpu", "memory", "path"}
    return found + [key for key in sorted(plain) if getattr(one, key) != getattr(other, key)]


def _columns(trace: Trace, group: str) -> dict[str, npt.NDArray[Any]]:
    return cast("dict[str, npt.NDArray[Any]]", vars(getattr(trace, group)))
