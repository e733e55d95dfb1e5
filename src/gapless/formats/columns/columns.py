"""Decoded entries → the columns of one batch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct, field

from gapless.formats.columns import batch as b
from gapless.formats.columns import categories
from gapless.formats.columns.decimals import Doubt, nanoseconds
from gapless.formats.columns.interning import SEPARATOR, IdTables
from gapless.formats.entries import (
    NO_ARGS,
    Args,
    BeginEntry,
    CompleteEntry,
    EndEntry,
    InstantEntry,
    LabelEntry,
)
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
_MAX_DIGITS: Final = 19  # fewer fit 64 bits
_LARGEST_WHOLE: Final = 2**63 - 1

Columns = dict[str, npt.NDArray[Any]]


class Tally(Struct):
    """What was dropped and mended, by reason."""

    dropped: Counter[str] = field(default_factory=Counter[str])
    repaired: Counter[str] = field(default_factory=Counter[str])
    unmade: int = 0  # events that never became an entry; they are among the dropped


def make_batch(entries: Sequence[Any], tables: IdTables, tally: Tally) -> b.Batch:
    """Return the batch of these entries, in their order."""
    sizes_before = tables.sizes()
    kinds = Counter(map(type, entries))
    complete = _entries_of(CompleteEntry, entries, kinds)
    cats = _cats(complete, tables)
    points = _allocations(_entries_of(InstantEntry, entries, kinds))
    instant = cats == tables.categories.get(categories.INSTANT, -1)
    if instant.any():  # torch's Python writer: points as events
        points += _allocations(complete[row] for row in np.flatnonzero(instant).tolist())
        complete, cats = _rows(complete, np.flatnonzero(~instant)), cats[~instant]
    events, gpu = _complete(complete, cats, tables, tally)
    has_pairs = kinds[BeginEntry] + kinds[EndEntry] > 0
    spans = (
        [entry for entry in entries if type(entry) is BeginEntry or type(entry) is EndEntry]
        if has_pairs
        else []
    )
    return b.Batch(
        events=b.pack(events, b.EVENTS),
        gpu=b.pack(gpu, b.GPU),
        memory=b.pack(_memory(points, tally), b.MEMORY),
        spans=b.pack(_spans(spans, tables, tally), b.SPANS),
        fresh=tables.entries_since(sizes_before),
        labels=_labels(_entries_of(LabelEntry, entries, kinds)),
        written=len(entries) + tally.unmade,
        dropped=dict(+tally.dropped),
        repaired=dict(+tally.repaired),
    )


_E = TypeVar("_E")


def _entries_of(kind: type[_E], entries: Sequence[Any], kinds: "Counter[type]") -> list[_E]:
    count = kinds[kind]
    if count == len(entries):
        return list(entries)
    return [entry for entry in entries if type(entry) is kind] if count else []


def _rows(events: list[_E], rows: npt.NDArray[np.intp]) -> list[_E]:
    return [events[row] for row in rows.tolist()]


def _complete(
    events: list[CompleteEntry], cats: Int32, tables: IdTables, tally: Tally
) -> tuple[Columns, Columns]:
    start, end, rows = _times(events, tally)
    if rows is not None:
        events, cats = _rows(events, rows), cats[rows]
    names, tracks = tables.names, tables.tracks
    category = _categories(events, cats, tables)
    columns: Columns = {
        "start": start,
        "end": end,
        "name": np.array([names[event.name] for event in events], dtype=np.int32),
        "category": category,
        "track": np.array([tracks[event.pid, event.tid] for event in events], dtype=np.int32),
        "correlation": np.full(len(events), -1, dtype=np.int64),
        "detail": np.full(len(events), -1, dtype=np.int32),
    }
    linked = np.flatnonzero(np.isin(category, _CORRELATED))
    columns["correlation"][linked] = _int64_numbers([a.correlation for a in _args(events, linked)])
    operators = np.flatnonzero(category == c.CPU_OP)
    args = _args(events, operators)
    columns["detail"][operators] = _shapes(args, tables)
    columns["correlation"][operators] = _int64_numbers([a.sequence for a in args])
    device = np.flatnonzero(np.isin(category, ON_DEVICE))
    columns["detail"][device] = np.arange(len(device))
    return columns, _gpu(_args(events, device), tables)


def _times(
    events: list[CompleteEntry], tally: Tally
) -> tuple[Int64, Int64, npt.NDArray[np.intp] | None]:
    """Return start and end of the events with a usable start, and their rows (``None``: all)."""
    start, doubt = nanoseconds([event.ts for event in events])
    rows = None
    if doubt is not None:
        rows = _usable(doubt, tally)
        start, events = start[rows], _rows(events, rows)
    return start, start + _lengths(events, tally), rows


def _lengths(events: list[CompleteEntry], tally: Tally) -> Int64:
    length, doubt = nanoseconds([event.dur for event in events])
    if doubt is not None:
        n_unusable = np.count_nonzero(doubt == Doubt.UNUSABLE)
        tally.repaired["no usable duration: kept as a point"] += int(n_unusable)
        tally.repaired[_TEXT_NUMBER] += int(np.count_nonzero(doubt == Doubt.TEXT))
    n_negative = int(np.count_nonzero(length < 0))
    tally.repaired["negative duration: kept as a point"] += n_negative
    return np.maximum(length, 0) if n_negative else length


def _usable(doubt: Uint8, tally: Tally) -> npt.NDArray[np.intp]:
    rows = np.flatnonzero(doubt != Doubt.UNUSABLE)
    tally.dropped[_NO_TIME] += len(doubt) - len(rows)
    tally.repaired[_TEXT_NUMBER] += int(np.count_nonzero(doubt == Doubt.TEXT))
    return rows


def _cats(events: list[CompleteEntry], tables: IdTables) -> Int32:
    ids_by_cat = tables.categories
    return np.array([ids_by_cat[event.cat] for event in events], dtype=np.int32)


def _categories(events: list[CompleteEntry], cats: Int32, tables: IdTables) -> Uint8:
    codes = np.array([*map(categories.code, tables.categories), c.OTHER_KIND], dtype=np.uint8)
    category = codes[cats]
    operators = np.flatnonzero(cats == tables.categories.get(_OLD_OPERATOR, -1))
    for row in operators.tolist():
        if categories.is_annotation(events[row].name):
            category[row] = c.USER_ANNOTATION
    return category


def _args(events: list[CompleteEntry], rows: npt.NDArray[np.intp]) -> list[Args]:
    indices: list[int] = rows.tolist()
    return [events[index].args or NO_ARGS for index in indices]


def _int64_numbers(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _int32_numbers(values: list[int]) -> Int64:
    """Return numbers that fit 32 bits; −1 for those that do not."""
    numbers = _int64_numbers(values)
    return np.where((numbers >= _SMALLEST) & (numbers <= _LARGEST), numbers, -1)


def _parse_integers(raws: list[Raw]) -> Int64:
    """Return whole numbers from JSON values; −1 for what is none."""
    joined = b",".join(raws)
    is_plain = joined.translate(None, b"0123456789") == b"," * (len(raws) - 1)
    if raws and is_plain and min(map(len, raws)) > 0 and max(map(len, raws)) < _MAX_DIGITS:
        return np.fromstring(joined, dtype=np.int64, sep=",")
    return _int64_numbers([_parse_integer(bytes(raw)) for raw in raws])


def _parse_integer(raw: bytes) -> int:
    text = raw.strip(b'" ')
    try:
        number = int(text, 16 if text.startswith(b"0x") else 10)
    except ValueError:
        return -1
    return number if abs(number) <= _LARGEST_WHOLE else -1


def _shapes(operators: list[Args], tables: IdTables) -> Int64:
    shapes, key = tables.shapes, SEPARATOR.join
    return _int64_numbers(
        [shapes[key((a.dims, a.old_dims, a.types, a.strides, a.concrete))] for a in operators]
    )


def _gpu(activities: list[Args], tables: IdTables) -> Columns:
    geometries, collectives, key = tables.geometries, tables.collectives, SEPARATOR.join
    return {
        "device": _int32_numbers([a.device for a in activities]),
        "stream": _parse_integers([a.stream for a in activities]),
        "graph_node": _int64_numbers([a.graph_node for a in activities]),
        "bytes": _int64_numbers([a.bytes for a in activities]),
        "geometry": _int64_numbers(
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
        "collective": _int64_numbers([collectives[key(_collective(a))] for a in activities]),
        "wait_event": _int64_numbers([a.wait_event for a in activities]),
        "wait_stream": _int64_numbers([a.wait_stream for a in activities]),
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
        a.receiver,
        a.sender,
    )


def _allocations(
    events: Iterable[InstantEntry | CompleteEntry],
) -> list[InstantEntry | CompleteEntry]:
    return [event for event in events if event.name == MEMORY_NAME and event.args is not None]


def _memory(points: list[InstantEntry | CompleteEntry], tally: Tally) -> Columns:
    time, doubt = nanoseconds([p.ts for p in points])
    if doubt is not None:
        rows = _usable(doubt, tally)
        points, time = _rows(points, rows), time[rows]
    args = [cast("Args", p.args) for p in points]
    return {
        "time": time,
        "bytes": _int64_numbers([a.moved for a in args]),
        "allocated": _int64_numbers([a.allocated for a in args]),
        "reserved": _int64_numbers([a.reserved for a in args]),
        "device_type": _int32_numbers([a.device_type for a in args]),
        "device": _int32_numbers([a.device_id for a in args]),
    }


def _spans(spans: list[BeginEntry | EndEntry], tables: IdTables, tally: Tally) -> Columns:
    time, doubt = nanoseconds([s.ts for s in spans])
    if doubt is not None:
        rows = _usable(doubt, tally)
        spans, time = _rows(spans, rows), time[rows]
    names, tracks = tables.names, tables.tracks
    return {
        "time": time,
        "begins": np.array([type(s) is BeginEntry for s in spans], dtype=np.uint8),
        "name": _int64_numbers([names[s.name] if type(s) is BeginEntry else -1 for s in spans]),
        "category": np.array(
            [categories.code(s.cat) if type(s) is BeginEntry else 0 for s in spans], dtype=np.uint8
        ),
        "track": _int64_numbers([tracks[s.pid, s.tid] for s in spans]),
    }


def _labels(labels: list[LabelEntry]) -> list[b.TrackLabel]:
    parsed_labels: list[b.TrackLabel] = []
    for label in labels:
        args: object = label.args
        text = cast("dict[str, object]", args).get("name") if isinstance(args, dict) else None
        if label.name in _LABELS and isinstance(text, str):
            parsed_labels.append((label.pid, label.tid, label.name, text))
    return parsed_labels
