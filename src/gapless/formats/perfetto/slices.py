"""Slices of a Perfetto trace → a trace: rows of threads and of devices, by best knowledge.

Perfetto knows no devices of CUDA or HIP. What a slice is follows from its category, as Kineto and
rocprofv3 write it, else from the name of its track.
"""

import re
from pathlib import Path
from typing import Final

from gapless.formats.columns import categories
from gapless.formats.parts import FileFacts, TraceParts, build_trace
from gapless.formats.perfetto.packets import (
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    PerfettoTrace,
    TrackDescription,
    TrackEvent,
    read_events,
)
from gapless.formats.roles import is_input, is_step, operator_name
from gapless.formats.rows import DeviceFields, Placed, Rows, close_rows
from gapless.formats.text.whole import read_whole
from gapless.model import category as c
from gapless.model.trace import Trace

_CATEGORIES: Final = {  # of rocprofv3
    "hip_api": c.RUNTIME,
    "hsa_api": c.DRIVER,
    "rccl_api": c.CPU_OP,
    "marker_api": c.USER_ANNOTATION,
    "kernel_dispatch": c.KERNEL,
    "memory_copy": c.MEMCPY,
}
_COPY_WORDS: Final = (
    ("HtoD", re.compile(r"(?i)host_to_device|htod|h2d")),
    ("DtoH", re.compile(r"(?i)device_to_host|dtoh|d2h")),
    ("PtoP", re.compile(r"(?i)device_to_device|ptop|p2p")),
)
_DEVICE_TRACK: Final = re.compile(
    r"(?i).*?\b(?:gpu|agent|device|cuda|hip|rocm)\b\D*(?P<device>\d{1,6})?"
    r"(?:.*?\b(?:stream|queue)\b\D*(?P<stream>\d{1,18}))?.*"
)
_NUMBER: Final = re.compile(r"\d{1,18}")
_LINKS: Final = ("corr_id", "correlation", "correlation_id", "External id")
_DEVICES: Final = ("device", "agent", "device_id")
_STREAMS: Final = ("stream", "stream_ID", "stream_id", "queue", "queue_id")
_BYTES: Final = ("bytes", "Bytes", "size")
_MAX_LETTERS: Final = 500  # of the names of tracks above one another
_MAX_PARENTS: Final = 16  # tracks above a track; a circle has no end
_ON_DEVICE: Final = (*c.ACTIVITIES, c.SYNC)
_FIRST_FLOW: Final = 1 << 41  # numbers for launches that only a flow tells, above those written


def read_perfetto(path: Path) -> Trace:
    """Read a file. Raises ``NotATraceError`` if it is none, or has no slices."""
    file = read_whole(path)
    source, slices = PerfettoTrace(), _Slices()
    for event in read_events(file.data, source):
        slices.add(event)
    parts = slices.close(source)
    if source.n_damaged:
        parts.dropped["message that is damaged"] += source.n_damaged
    if source.n_lost:
        parts.notes.append(f"the writer lost packets {source.n_lost} times")
    if file.damage is not None:
        parts.notes.append(file.damage)
    facts = FileFacts(
        source="perfetto",
        origin_ns=max(0, source.realtime_offset_ns),
        truncated=bool(source.n_damaged),
    )
    return build_trace(path, parts, facts)


class _Slices:
    """Begins that wait for their end, and whole slices."""

    def __init__(self) -> None:
        self._open: dict[int, list[TrackEvent]] = {}
        self._whole: list[tuple[TrackEvent, int]] = []
        self._n_events = 0
        self._n_ends = 0  # without a begin
        self._n_timeless = 0

    def add(self, event: TrackEvent) -> None:
        """Take the next event of the file."""
        self._n_events += 1
        if event.kind in (INSTANT, COUNTER):
            return
        if event.time_ns < 0:
            self._n_timeless += 1
        elif event.kind == BEGIN:
            self._open.setdefault(event.track, []).append(event)
        elif event.kind == END:
            begins = self._open.get(event.track)
            if begins:
                self._whole.append((begins.pop(), event.time_ns))
            else:
                self._n_ends += 1

    def close(self, source: PerfettoTrace) -> TraceParts:
        """Return the events of all slices."""
        parts, rows = TraceParts(), dict[int, Rows]()
        parts.process_names.update(
            {
                track.pid: track.process_name
                for track in source.tracks.values()
                if track.process_name
            }
        )
        lost = {
            "end without a begin": self._n_ends,
            "begin without an end": sum(map(len, self._open.values())),
            "no usable time": self._n_timeless,
        }
        parts.dropped.update({reason: count for reason, count in lost.items() if count})
        flows = _link_flows(self._whole)
        for begin, end_ns in self._whole:
            _add_slice(parts, rows, source, (begin, end_ns), flows)
        close_rows(parts, rows)
        parts.written = self._n_events
        return parts


def _link_flows(slices: list[tuple[TrackEvent, int]]) -> dict[int, int]:
    """Return a number for each flow that ties slices to one another."""
    flows = {flow for begin, _ in slices for flow in begin.flows}
    return {flow: _FIRST_FLOW + number for number, flow in enumerate(sorted(flows))}


def _add_slice(
    parts: TraceParts,
    rows: dict[int, Rows],
    source: PerfettoTrace,
    span: tuple[TrackEvent, int],
    flows: dict[int, int],
) -> None:
    begin, end_ns = span
    track = source.tracks.get(begin.track, TrackDescription())
    path = _track_path(source, begin.track)
    category = _category(begin, track, path)
    name = begin.name or "a slice without a name"
    operator = operator_name(name) if category == c.USER_ANNOTATION else None
    if operator is not None:
        category, name = c.CPU_OP, operator
    elif category == c.USER_ANNOTATION and is_step(name):
        parts.step_names.add(name)
    elif category == c.USER_ANNOTATION and is_input(name):
        parts.input_names.add(name)
    elif category == c.MEMCPY:
        name = _copy_name(name, begin)
    track_id, fields = _locate(parts, begin, track, path, is_device=category in _ON_DEVICE)
    link = _first_note(begin, _LINKS)
    if link <= 0 and begin.flows:
        link = flows[begin.flows[0]]
    target = rows.setdefault(category, Rows())
    placed = Placed(begin.time_ns, end_ns, track_id)
    target.append(placed, parts.name_id(name), link if link > 0 else -1, fields)


def _category(begin: TrackEvent, track: TrackDescription, path: str) -> int:
    """Return what a slice is."""
    words = [word.strip() for word in begin.category.split(",")]
    for word in words:
        code = _CATEGORIES.get(word, categories.code(word))
        if code != c.OTHER_KIND:
            return code
    if track.tid < 0 and _DEVICE_TRACK.fullmatch(path) is not None:
        return c.MEMCPY if re.search(r"(?i)copy", path) else c.KERNEL
    return c.USER_ANNOTATION


def _track_path(source: PerfettoTrace, uuid: int) -> str:
    """Return the names of a track and of those above it."""
    names: list[str] = []
    for _ in range(_MAX_PARENTS):
        track = source.tracks.get(uuid)
        if track is None:
            break
        names.append(track.name)
        uuid = track.parent
    return " / ".join(reversed([name for name in names if name]))[:_MAX_LETTERS]


def _copy_name(name: str, begin: TrackEvent) -> str:
    text = f"{name} {begin.notes.get('operation', '')} {begin.notes.get('kind', '')}"
    for direction, pattern in _COPY_WORDS:
        if pattern.search(text):
            return name if direction in name else f"{name} ({direction})"
    return name


def _locate(
    parts: TraceParts, begin: TrackEvent, track: TrackDescription, path: str, *, is_device: bool
) -> tuple[int, DeviceFields | None]:
    """Return the track of a slice, and what a device knows of it."""
    if not is_device:
        thread = track.tid if track.tid >= 0 else (path or f"track {begin.track}")
        track_id = parts.track_id(track.pid, thread)
        if track.thread_name:
            parts.thread_names[track_id] = track.thread_name
        return track_id, None
    match = _DEVICE_TRACK.fullmatch(path)
    device = _first_note(begin, _DEVICES)
    stream = _first_note(begin, _STREAMS)
    if match is not None:
        device = int(match["device"] or 0) if device < 0 else device
        stream = int(match["stream"] or 0) if stream < 0 else stream
    device, stream = max(device, 0), max(stream, 0)
    track_id = parts.track_id(f"device {device}", path or f"stream {stream}")
    return track_id, DeviceFields(device, stream, _first_note(begin, _BYTES))


def _first_note(begin: TrackEvent, names: tuple[str, ...]) -> int:
    """Return the number of the first annotation that has one; −1 if none has."""
    for name in names:
        value = begin.notes.get(name)
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            match = _NUMBER.search(value)
            if match is not None:
                return int(match[0])
    return -1
