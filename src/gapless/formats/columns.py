"""Decoded entries → the columns of one batch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from gapless.formats import batch as b
from gapless.formats import categories
from gapless.formats.decimals import Doubt, nanoseconds
from gapless.formats.entries import NO_ARGS, Args, Begin, Complete, End, Instant, Label
from gapless.formats.interning import SEPARATOR, Tables
from gapless.model import category as c
from gapless.model.trace import Int32, Int64, Uint8

MEMORY_NAME: Final = "[memory]"
ON_DEVICE: Final = (c.KERNEL, c.MEMCPY, c.MEMSET, c.SYNC)
_CORRELATED: Final = (*ON_DEVICE, *c.CALLS)
_OLD_OPERATOR: Final = "Operator"
_LABELS: Final = ("process_name", "thread_name")
_NO_TIME: Final = "no usable time"
_TEXT_NUMBER: Final = "number written as text"
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
_DIGITS: Final = 19  # fewer fit 64 bits
_LARGEST_WHOLE: Final = 2**63 - 1

Columns = dict[str, npt.NDArray[Any]]


@dataclass
class Tally:
    """What was dropped and mended, by reason."""

    dropped: Counter[str] = field(default_factory=Counter[str])
    repaired: Counter[str] = field(default_factory=Counter[str])
    unmade: int = 0  # events that never became an entry; they are among the dropped


def make(entries: Sequence[Any], tables: Tables, tally: Tally) -> b.Batch:
    """Give the batch of these entries, in their order."""
    before = tables.sizes()
    kinds = Counter(map(type, entries))
    complete = _of(Complete, entries, kinds)
    cats = _cats(complete, tables)
    points = _allocations(_of(Instant, entries, kinds))
    instant = cats == tables.categories.get(categories.INSTANT, -1)
    if instant.any():  # torch's Python writer: points as events
        points += _allocations(complete[row] for row in np.flatnonzero(instant).tolist())
        complete, cats = _rows(complete, np.flatnonzero(~instant)), cats[~instant]
    events, gpu = _complete(complete, cats, tables, tally)
    paired = kinds[Begin] + kinds[End] > 0
    spans = [e for e in entries if type(e) is Begin or type(e) is End] if paired else []
    return b.Batch(
        events=b.pack(events, b.EVENTS),
        gpu=b.pack(gpu, b.GPU),
        memory=b.pack(_memory(points, tally), b.MEMORY),
        spans=b.pack(_spans(spans, tables, tally), b.SPANS),
        fresh=tables.since(before),
        labels=_labels(_of(Label, entries, kinds)),
        written=len(entries) + tally.unmade,
        dropped=dict(+tally.dropped),
        repaired=dict(+tally.repaired),
    )


_E = TypeVar("_E")


def _of(kind: type[_E], entries: Sequence[Any], kinds: "Counter[type]") -> list[_E]:
    found = kinds[kind]
    if found == len(entries):
        return list(entries)
    return [entry for entry in entries if type(entry) is kind] if found else []


def _rows(events: list[_E], rows: npt.NDArray[np.intp]) -> list[_E]:
    return [events[row] for row in rows.tolist()]


def _complete(
    events: list[Complete], cats: Int32, tables: Tables, tally: Tally
) -> tuple[Columns, Columns]:
    start, end, kept = _times(events, tally)
    if kept is not None:
        events, cats = _rows(events, kept), cats[kept]
    names, tracks = tables.names, tables.tracks
    category = _categories(events, cats, tables)
    columns: Columns = {
        "start": start,
        "end": end,
        "name": np.array([names[e.name] for e in events], dtype=np.int32),
        "category": category,
        "track": np.array([tracks[e.pid, e.tid] for e in events], dtype=np.int32),
        "correlation": np.full(len(events), -1, dtype=np.int64),
        "detail": np.full(len(events), -1, dtype=np.int32),
    }
    linked = np.flatnonzero(np.isin(category, _CORRELATED))
    columns["correlation"][linked] = _numbers([a.correlation for a in _args(events, linked)])
    operators = np.flatnonzero(category == c.CPU_OP)
    args = _args(events, operators)
    columns["detail"][operators] = _shapes(args, tables)
    columns["correlation"][operators] = _numbers([a.sequence for a in args])
    device = np.flatnonzero(np.isin(category, ON_DEVICE))
    columns["detail"][device] = np.arange(len(device))
    return columns, _gpu(_args(events, device), tables)


def _times(
    events: list[Complete], tally: Tally
) -> tuple[Int64, Int64, npt.NDArray[np.intp] | None]:
    """Give start and end of the events with a usable start, and their rows (``None``: all)."""
    start, doubt = nanoseconds([e.ts for e in events])
    kept = None
    if doubt is not None:
        kept = _usable(doubt, tally)
        start, events = start[kept], _rows(events, kept)
    return start, start + _lengths(events, tally), kept


def _lengths(events: list[Complete], tally: Tally) -> Int64:
    length, doubt = nanoseconds([e.dur for e in events])
    if doubt is not None:
        missing = np.count_nonzero(doubt == Doubt.UNUSABLE)
        tally.repaired["no usable duration: kept as a point"] += int(missing)
        tally.repaired[_TEXT_NUMBER] += int(np.count_nonzero(doubt == Doubt.TEXT))
    negative = int(np.count_nonzero(length < 0))
    tally.repaired["negative duration: kept as a point"] += negative
    return np.maximum(length, 0) if negative else length


def _usable(doubt: Uint8, tally: Tally) -> npt.NDArray[np.intp]:
    kept = np.flatnonzero(doubt != Doubt.UNUSABLE)
    tally.dropped[_NO_TIME] += len(doubt) - len(kept)
    tally.repaired[_TEXT_NUMBER] += int(np.count_nonzero(doubt == Doubt.TEXT))
    return kept


def _cats(events: list[Complete], tables: Tables) -> Int32:
    known = tables.categories
    return np.array([known[e.cat] for e in events], dtype=np.int32)


def _categories(events: list[Complete], cats: Int32, tables: Tables) -> Uint8:
    codes = np.array([*map(categories.code, tables.categories), c.OTHER], dtype=np.uint8)
    category = codes[cats]
    operators = np.flatnonzero(cats == tables.categories.get(_OLD_OPERATOR, -1))
    for row in operators.tolist():
        if categories.is_annotation(events[row].name):
            category[row] = c.USER_ANNOTATION
    return category


def _args(events: list[Complete], rows: npt.NDArray[np.intp]) -> list[Args]:
    places: list[int] = rows.tolist()
    return [events[place].args or NO_ARGS for place in places]


def _numbers(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _short(values: list[int]) -> Int64:
    """Give numbers that fit 32 bits; −1 for those that do not."""
    numbers = _numbers(values)
    return np.where((numbers >= _SMALLEST) & (numbers <= _LARGEST), numbers, -1)


def _written(raws: list[Raw]) -> Int64:
    """Give whole numbers from JSON values; −1 for what is none."""
    joined = b",".join(raws)
    plain = joined.translate(None, b"0123456789") == b"," * (len(raws) - 1)
    if raws and plain and min(map(len, raws)) > 0 and max(map(len, raws)) < _DIGITS:
        return np.fromstring(joined, dtype=np.int64, sep=",")
    return _numbers([_whole(bytes(raw)) for raw in raws])


def _whole(raw: bytes) -> int:
    text = raw.strip(b'" ')
    try:
        number = int(text, 16 if text.startswith(b"0x") else 10)
    except ValueError:
        return -1
    return number if abs(number) <= _LARGEST_WHOLE else -1


def _shapes(operators: list[Args], tables: Tables) -> Int64:
    shapes, key = tables.shapes, SEPARATOR.join
    return _numbers(
        [shapes[key((a.dims, a.old_dims, a.types, a.strides, a.concrete))] for a in operators]
    )


def _gpu(activities: list[Args], tables: Tables) -> Columns:
    geometries, collectives, key = tables.geometries, tables.collectives, SEPARATOR.join
    return {
        "device": _short([a.device for a in activities]),
        "stream": _written([a.stream for a in activities]),
        "graph_node": _numbers([a.graph_node for a in activities]),
        "bytes": _numbers([a.bytes for a in activities]),
        "geometry": _numbers(
            [
                geometries[
                    key(
                        (
                            a.grid,
                            a.block,
                            a.registers,
                            a.shared,
                            a.blocks_per_sm,
                            a.warps_per_sm,
                            a.occupancy,
                        )
                    )
                ]
                for a in activities
            ]
        ),
        "collective": _numbers([collectives[key(_collective(a))] for a in activities]),
        "wait_event": _numbers([a.wait_event for a in activities]),
        "wait_stream": _numbers([a.wait_stream for a in activities]),
    }


def _collective(a: Args) -> tuple[Raw, ...]:
    return (
        a.collective,
        a.dtype,
        a.in_elements,
        a.out_elements,
        a.group,
        a.group_size,
        a.ranks,
        a.seq,
    )


def _allocations(events: Iterable[Instant | Complete]) -> list[Instant | Complete]:
    return [e for e in events if e.name == MEMORY_NAME and e.args is not None]


def _memory(points: list[Instant | Complete], tally: Tally) -> Columns:
    time, doubt = nanoseconds([p.ts for p in points])
    if doubt is not None:
        kept = _usable(doubt, tally)
        points, time = _rows(points, kept), time[kept]
    args = [cast("Args", p.args) for p in points]
    return {
        "time": time,
        "bytes": _numbers([a.moved for a in args]),
        "allocated": _numbers([a.allocated for a in args]),
        "reserved": _numbers([a.reserved for a in args]),
        "device_type": _short([a.device_type for a in args]),
        "device": _short([a.device_id for a in args]),
    }


def _spans(spans: list[Begin | End], tables: Tables, tally: Tally) -> Columns:
    time, doubt = nanoseconds([s.ts for s in spans])
    if doubt is not None:
        kept = _usable(doubt, tally)
        spans, time = _rows(spans, kept), time[kept]
    names, tracks = tables.names, tables.tracks
    return {
        "time": time,
        "begins": np.array([type(s) is Begin for s in spans], dtype=np.uint8),
        "name": _numbers([names[s.name] if type(s) is Begin else -1 for s in spans]),
        "category": np.array(
            [categories.code(s.cat) if type(s) is Begin else 0 for s in spans], dtype=np.uint8
        ),
        "track": _numbers([tracks[s.pid, s.tid] for s in spans]),
    }


def _labels(labels: list[Label]) -> list[b.Label]:
    found: list[b.Label] = []
    for label in labels:
        args: object = label.args
        text = cast("dict[str, object]", args).get("name") if isinstance(args, dict) else None
        if label.name in _LABELS and isinstance(text, str):
            found.append((label.pid, label.tid, label.name, text))
    return found
