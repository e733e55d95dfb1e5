"""Packets of a Perfetto trace: tracks, interned names, clocks, and track events in order.

The layout is that of Perfetto's public protocol buffers. Each writer (a *sequence*) interns names
and may count its own clock in steps; what a sequence refers to before it was defined is unknown.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from gapless.formats.protobuf import (
    DamagedError,
    Value,
    as_bytes,
    as_signed,
    as_text,
    read_fields,
)

_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 8, 10, 11, 12, 13
_CLOCKS, _CLEARED, _COMPRESSED, _CLOCK_ID, _DEFAULTS, _TRACK = 6, 41, 50, 58, 59, 60
_LOST: Final = 42  # packets before this one
_STATE_CLEARED: Final = 1  # bit of the flags
_REALTIME, _BOOTTIME = 1, 6  # clocks of the system, below all that writers make up
_FIRST_OWN_CLOCK, _FIRST_COMMON_CLOCK = 64, 128  # of one sequence; of all that name it
_FREE_BYTES: Final = 1 << 28  # that compressed packets may have, however small the file is
_MAX_RATIO: Final = 100  # of inflated to stored; traces have 3 to 20
_MAX_PACKETS: Final = 50_000_000
_FLOWS: Final = (36, 47, 48)
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class TrackDescription(Struct):
    """A track: of a process, of a thread, or of anything else below another."""

    name: str = ""
    parent: int = 0
    pid: int = -1
    tid: int = -1
    process_name: str = ""
    thread_name: str = ""


class TrackEvent(Struct, gc=False):
    """The begin or the end of a slice."""

    time_ns: int
    kind: int
    track: int
    name: str
    category: str
    notes: dict[str, int | str]  # debug annotations
    flows: tuple[int, ...]


class Sequence(Struct):
    """What one writer has defined so far."""

    names: dict[int, str] = field(default_factory=dict[int, str])
    categories: dict[int, str] = field(default_factory=dict[int, str])
    note_names: dict[int, str] = field(default_factory=dict[int, str])
    note_texts: dict[int, str] = field(default_factory=dict[int, str])
    default_track: int = 0
    default_clock: int = 0
    clocks: dict[int, "OwnClock"] = field(default_factory=dict[int, "OwnClock"])


class OwnClock(Struct):
    """A clock beside boot time: what it showed, and when that was."""

    value: int
    base_ns: int
    unit_ns: int
    is_incremental: bool


class PerfettoTrace(Struct):
    """A file that is being read."""

    tracks: dict[int, TrackDescription] = field(default_factory=dict[int, TrackDescription])
    sequences: dict[int, Sequence] = field(default_factory=dict[int, Sequence])
    clocks: dict[int, "OwnClock"] = field(default_factory=dict[int, "OwnClock"])  # of all sequences
    realtime_offset_ns: int = 0  # from boot time to Unix time; 0 unknown
    n_damaged: int = 0
    n_lost: int = 0  # times that the writer says it lost packets
    n_packets: int = 0
    inflatable_bytes: int = _FREE_BYTES


def read_events(data: bytes, trace: PerfettoTrace) -> Iterator[TrackEvent]:
    """Yield the track events of a file in order; the rest goes into ``trace``."""
    trace.inflatable_bytes = _FREE_BYTES + _MAX_RATIO * len(data)
    for number, value in _whole_fields(data, trace):
        if number == _PACKET and isinstance(value, bytes):
            if trace.n_packets >= _MAX_PACKETS:
                trace.n_damaged += 1
                return
            trace.n_packets += 1
            yield from _read_packet(value, trace)


def _whole_fields(data: bytes, trace: PerfettoTrace) -> Iterator[tuple[int, Value]]:
    try:
        yield from read_fields(data)
    except DamagedError:
        trace.n_damaged += 1


def _read_packet(data: bytes, trace: PerfettoTrace) -> Iterator[TrackEvent]:
    fields = dict(_whole_fields(data, trace))
    if _COMPRESSED in fields:
        yield from _inflate_packets(as_bytes(fields[_COMPRESSED]), trace)
        return
    sequence = trace.sequences.setdefault(as_signed(fields.get(_SEQUENCE, 0)), Sequence())
    if as_signed(fields.get(_FLAGS, 0)) & _STATE_CLEARED or fields.get(_CLEARED):
        sequence.names.clear()
        sequence.categories.clear()
        sequence.note_names.clear()
        sequence.note_texts.clear()
    trace.n_lost += bool(fields.get(_LOST))
    if _INTERNED in fields:
        _read_interned(as_bytes(fields[_INTERNED]), sequence, trace)
    if _DEFAULTS in fields:
        _read_defaults(as_bytes(fields[_DEFAULTS]), sequence, trace)
    if _CLOCKS in fields:
        _read_clocks(as_bytes(fields[_CLOCKS]), sequence, trace)
    if _TRACK in fields:
        _read_track(as_bytes(fields[_TRACK]), trace)
    time_ns = _packet_time(fields, sequence, trace)
    if _EVENT in fields:
        yield _read_event(as_bytes(fields[_EVENT]), time_ns, sequence, trace)


def _inflate_packets(data: bytes, trace: PerfettoTrace) -> Iterator[TrackEvent]:
    inflater = zlib.decompressobj()
    try:
        packets = inflater.decompress(data, max(1, trace.inflatable_bytes))
    except zlib.error:
        trace.n_damaged += 1
        return
    trace.inflatable_bytes -= len(packets)
    if inflater.unconsumed_tail:
        trace.n_damaged += 1
    for number, value in _whole_fields(packets, trace):
        # what is compressed twice could grow without bounds
        if trace.n_packets >= _MAX_PACKETS:
            return
        if number == _PACKET and isinstance(value, bytes) and not _is_compressed(value):
            trace.n_packets += 1
            yield from _read_packet(value, trace)


def _is_compressed(packet: bytes) -> bool:
    try:
        return any(number == _COMPRESSED for number, _ in read_fields(packet))
    except DamagedError:
        return False


def _packet_time(fields: dict[int, Value], sequence: Sequence, trace: PerfettoTrace) -> int:
    """Return when a packet was written, in nanoseconds of boot time; −1 where it does not say."""
    if _TIMESTAMP not in fields:
        return -1
    stamp = as_signed(fields[_TIMESTAMP])
    clock_id = as_signed(fields.get(_CLOCK_ID, sequence.default_clock))
    clock = sequence.clocks.get(clock_id, trace.clocks.get(clock_id))
    if clock is None:
        return stamp
    if clock.is_incremental:
        clock.value += stamp
        return clock.base_ns + clock.value * clock.unit_ns
    return clock.base_ns + (stamp - clock.value) * clock.unit_ns


def _read_interned(data: bytes, sequence: Sequence, trace: PerfettoTrace) -> None:
    tables = {
        1: sequence.categories,
        2: sequence.names,
        3: sequence.note_names,
        29: sequence.note_texts,
    }
    for number, value in _whole_fields(data, trace):
        if number in tables:
            fields = dict(_whole_fields(as_bytes(value), trace))
            tables[number][as_signed(fields.get(1, 0))] = as_text(fields.get(2, b""))


def _read_defaults(data: bytes, sequence: Sequence, trace: PerfettoTrace) -> None:
    fields = dict(_whole_fields(data, trace))
    sequence.default_clock = as_signed(fields.get(_CLOCK_ID, 0))
    event = dict(_whole_fields(as_bytes(fields.get(11, b"")), trace))
    sequence.default_track = as_signed(event.get(11, 0))


def _read_clocks(data: bytes, sequence: Sequence, trace: PerfettoTrace) -> None:
    """Read what clocks showed at one moment: boot time gives that moment, the others start there.

    A snapshot without boot time is placed by a clock that is known already.
    """
    snapshots = [
        dict(_whole_fields(as_bytes(value), trace))
        for number, value in _whole_fields(data, trace)
        if number == 1
    ]
    values = {as_signed(fields.get(1, 0)): as_signed(fields.get(2, 0)) for fields in snapshots}
    known_fields = [
        clock.base_ns + (values[number] - clock.value) * clock.unit_ns
        for number, clock in trace.clocks.items()
        if number in values
    ]
    boot_ns = values.get(_BOOTTIME, known_fields[0] if known_fields else 0)
    if _REALTIME in values and _BOOTTIME in values and not trace.realtime_offset_ns:
        trace.realtime_offset_ns = values[_REALTIME] - boot_ns
    for fields in snapshots:
        clock = as_signed(fields.get(1, 0))
        is_own = _FIRST_OWN_CLOCK <= clock < _FIRST_COMMON_CLOCK
        if clock == _BOOTTIME or (not is_own and _BOOTTIME not in values):
            continue
        is_incremental = is_own and bool(fields.get(3))
        clocks = sequence.clocks if is_own else trace.clocks
        clocks[clock] = OwnClock(
            value=0 if is_incremental else values[clock],
            base_ns=boot_ns,
            unit_ns=max(1, as_signed(fields.get(4, 1))),
            is_incremental=is_incremental,
        )


def _read_track(data: bytes, trace: PerfettoTrace) -> None:
    fields = dict(_whole_fields(data, trace))
    track = TrackDescription(
        name=as_text(fields.get(2, fields.get(10, b""))), parent=as_signed(fields.get(5, 0))
    )
    if 3 in fields:  # noqa: PLR2004  field numbers of track_descriptor.proto, here and below
        process = dict(_whole_fields(as_bytes(fields[3]), trace))
        track.pid = as_signed(process.get(1, 0))
        track.process_name = as_text(process.get(6, b""))
    if 4 in fields:  # noqa: PLR2004
        thread = dict(_whole_fields(as_bytes(fields[4]), trace))
        track.pid, track.tid = as_signed(thread.get(1, 0)), as_signed(thread.get(2, 0))
        track.thread_name = as_text(thread.get(5, b""))
    trace.tracks[as_signed(fields.get(1, 0))] = track


def _read_event(data: bytes, time_ns: int, sequence: Sequence, trace: PerfettoTrace) -> TrackEvent:
    fields: dict[int, Value] = {}
    notes: dict[str, int | str] = {}
    flows: list[int] = []
    for number, value in _whole_fields(data, trace):
        if number == 4:  # noqa: PLR2004  field numbers of track_event.proto, here and below
            _read_note(as_bytes(value), notes, sequence, trace)
        elif number in _FLOWS:
            flows.append(as_signed(value))
        else:
            fields[number] = value
    name, category = as_text(fields.get(23, b"")), as_text(fields.get(22, b""))
    return TrackEvent(
        time_ns=time_ns,
        kind=as_signed(fields.get(9, 0)),
        track=as_signed(fields.get(11, sequence.default_track)),
        name=name or sequence.names.get(as_signed(fields.get(10, 0)), ""),
        category=category or sequence.categories.get(as_signed(fields.get(3, 0)), ""),
        notes=notes,
        flows=tuple(flows),
    )


def _read_note(
    data: bytes, notes: dict[str, int | str], sequence: Sequence, trace: PerfettoTrace
) -> None:
    fields = dict(_whole_fields(data, trace))
    name = as_text(fields.get(10, b"")) or sequence.note_names.get(as_signed(fields.get(1, 0)), "")
    if 6 in fields:  # noqa: PLR2004  field numbers of debug_annotation.proto, here and below
        notes[name] = as_text(fields[6])
    elif 17 in fields:  # noqa: PLR2004
        notes[name] = sequence.note_texts.get(as_signed(fields[17]), "")
    elif 3 in fields or 4 in fields or 7 in fields:  # noqa: PLR2004
        notes[name] = as_signed(fields.get(3, fields.get(4, fields.get(7, 0))))
