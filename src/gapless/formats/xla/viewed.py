"""What XLA's viewer makes of a profile (``*.trace.json.gz``), read as Chrome's format, → a trace.

It has names, times and tracks, and none of the numbers that join a kernel with its launch or an
operation with its program: the profile itself (``*.xplane.pb``) is beside it, and says more.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.formats.parts import EventBlock, FileFacts, TraceParts, build_trace
from gapless.formats.xla.host import (
    HOST_CATEGORIES,
    PREFIXES,
    PYTHON_THREADS,
    WITH_DEVICE,
    WITHOUT_DEVICE,
)
from gapless.formats.xla.meaning import (
    Meaning,
    device_event,
    meaning_of,
    operation_name,
    stream_of,
)
from gapless.formats.xla.reading import DEVICE_PLANE, HOST_PLANE
from gapless.model import category as c
from gapless.model.trace import Int64, Trace

_NOTE: Final = (
    "made by XLA's viewer: launches and program names are not in it; open the .xplane.pb beside it"
)
_EXECUTOR: Final = re.compile(r"tf_(XLA|Compute)")
_OPERATION: Final = re.compile(r"[a-z][\w-]*(\.\d+)*")  # dot.4, multiply_add_fusion
_ON_HOST: Final = {**HOST_CATEGORIES, Meaning.API: c.RUNTIME}


def is_viewed(trace: Trace) -> bool:
    """Return whether a trace in Chrome's format was made by XLA's viewer: by its processes."""
    return trace.health.source == "chrome" and any(
        HOST_PLANE.fullmatch(track.process or "") or DEVICE_PLANE.fullmatch(track.process or "")
        for track in trace.tracks
    )


def interpret_viewed(trace: Trace) -> Trace:
    """Return the trace with what its names mean."""
    parts = TraceParts()
    devices = [DEVICE_PLANE.fullmatch(track.process or "") for track in trace.tracks]
    has_device = any(match is not None for match in devices)
    for number, (track, match) in enumerate(zip(trace.tracks, devices, strict=True)):
        rows = np.flatnonzero(trace.events.track == number)
        thread = track.thread or str(track.tid)
        track_id = parts.track_id(track.process or str(track.pid), f"{thread} {track.tid}")
        parts.thread_names[track_id] = thread.partition("/")[0]
        if match is not None:
            stream = stream_of(track.process or "", thread, number)
            if stream >= 0:
                location = track_id, int(match["number"]), stream
                _add_device_rows(parts, trace, rows, location)
        else:
            _add_host_rows(parts, trace, rows, track_id, has_device=has_device)
    parts.main = _find_python(parts)
    parts.executors.discard(parts.main)
    parts.notes += [*trace.health.notes, _NOTE]
    parts.written = trace.written_events
    if not parts.blocks:
        return trace
    facts = FileFacts(source="xla", origin_ns=trace.origin_ns, truncated=trace.health.truncated)
    built = build_trace(Path(trace.path), parts, facts)
    health = replace(
        built.health,
        dropped=(*trace.health.dropped, *built.health.dropped),
        repaired=(*trace.health.repaired, *built.health.repaired),
    )
    return replace(built, health=health, written_events=trace.written_events)


def _find_python(parts: TraceParts) -> int:
    """Return the track of Python's thread that has most events; −1 if none is."""
    counts: Counter[int] = Counter()
    for block in parts.blocks:
        tracks, numbers = np.unique(block.track, return_counts=True)
        counts.update(dict(zip(tracks.tolist(), numbers.tolist(), strict=True)))
    python = [track for track, name in parts.thread_names.items() if PYTHON_THREADS.match(name)]
    return max(python, key=counts.__getitem__, default=-1)


def _add_device_rows(
    parts: TraceParts, trace: Trace, rows: Int64, location: tuple[int, int, int]
) -> None:
    track_id, device, stream = location
    for name, of_name in _rows_by_name(trace, rows):
        event = device_event(name, "")
        if event is None:
            continue
        category, label = event
        gpu = {
            "device": np.full(len(of_name), device),
            "stream": np.full(len(of_name), stream),
        }
        _add_rows(parts, trace, of_name, (category, label, track_id), gpu)


def _add_host_rows(
    parts: TraceParts, trace: Trace, rows: Int64, track_id: int, *, has_device: bool
) -> None:
    further_categories = WITH_DEVICE if has_device else WITHOUT_DEVICE
    is_executor = _EXECUTOR.match(parts.thread_names[track_id]) is not None
    if is_executor and not has_device:
        parts.executors.add(track_id)
    for name, of_name in _rows_by_name(trace, rows):
        is_operation = is_executor and _OPERATION.fullmatch(name) is not None
        meaning = meaning_of(name, is_step=False, is_operation=is_operation, has_source=False)
        category = _ON_HOST.get(meaning, further_categories.get(meaning))
        if category is None:
            continue
        label = operation_name(name) if meaning is Meaning.OPERATION else name
        if meaning is Meaning.PYTHON:
            label = name[1:]
        elif meaning is Meaning.INPUT:
            parts.input_names.add(name)
        label = f"{PREFIXES.get(meaning, '')}{label}"
        _add_rows(parts, trace, of_name, (category, label, track_id), {})


def _rows_by_name(trace: Trace, rows: Int64) -> list[tuple[str, Int64]]:
    names = trace.events.name[rows]
    order = np.argsort(names, kind="stable")
    heads = np.flatnonzero(np.diff(names[order], prepend=-1))
    numbers: list[int] = names[order][heads].tolist()
    return [
        (trace.names[number], rows[row_group])
        for number, row_group in zip(numbers, np.split(order, heads[1:]), strict=True)
    ]


def _add_rows(
    parts: TraceParts,
    trace: Trace,
    rows: Int64,
    kind: tuple[int, str, int],
    gpu: dict[str, Int64],
) -> None:
    category, label, track_id = kind
    block = EventBlock(
        category=category,
        start=trace.events.start[rows],
        end=trace.events.end[rows],
        name=np.full(len(rows), parts.name_id(label)),
        track=np.full(len(rows), track_id),
        gpu=gpu,
    )
    parts.add(block)
