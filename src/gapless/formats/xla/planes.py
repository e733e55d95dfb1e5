"""``*.xplane.pb``: planes (a host, a device), their lines (a thread, a stream), and their events.

The layout is that of ``xplane.proto`` of OpenXLA; names and kinds of statistics are looked up in
the plane. A file that is cut, or damaged somewhere, gives what is whole.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field

from gapless.formats.protobuf import DamagedError, Value, as_bytes, as_signed, as_text, read_fields

_PLANES, _ERRORS, _WARNINGS = 1, 2, 3  # of XSpace
_LINES: Final = 3  # of XPlane
_MAX_MESSAGES: Final = 100  # complaints of the writer


class XEvent(Struct, gc=False):
    """An event: what it is, and when, in picoseconds after the line begins."""

    metadata: int
    offset_ps: int
    duration_ps: int
    stats: list[bytes]


class XLine(Struct):
    """A thread or a stream."""

    number: int = 0
    name: str = ""
    timestamp_ns: int = 0
    events: list[XEvent] = field(default_factory=list[XEvent])


class EventKind(Struct):
    """What events of a kind have in common."""

    name: str = ""
    display_name: str = ""
    stats: list[bytes] = field(default_factory=list[bytes])


class XPlane(Struct):
    """A host, a device, or facts of the capture."""

    name: str = ""
    lines: list[bytes] = field(default_factory=list[bytes])
    kinds: dict[int, EventKind] = field(default_factory=dict[int, EventKind])
    stat_names: dict[int, str] = field(default_factory=dict[int, str])
    stats: list[bytes] = field(default_factory=list[bytes])


class XSpace(Struct):
    """A whole file."""

    planes: list[XPlane] = field(default_factory=list[XPlane])
    complaints: list[str] = field(default_factory=list[str])
    n_damaged: int = 0  # messages that ended before they should


NAMELESS: Final = EventKind("an event whose name is lost")
Stats = dict[str, int | float | str]


def parse_space(data: bytes) -> XSpace:
    """Return the planes of a file, as far as they can be read."""
    space = XSpace()
    for number, value in _whole_fields(data, space, _PLANES):
        if number == _PLANES:
            space.planes.append(_parse_plane(as_bytes(value), space))
        elif number in (_ERRORS, _WARNINGS) and len(space.complaints) < _MAX_MESSAGES:
            space.complaints.append(as_text(value))
    return space


def _whole_fields(data: bytes, space: XSpace, container: int = 0) -> Iterator[tuple[int, Value]]:
    """Yield the fields before the first damage, and count that.

    Of a field that holds many others (``container``) also what there is of it where the data end.
    """
    try:
        yield from read_fields(data)
    except DamagedError as error:
        space.n_damaged += 1
        if error.tail is not None and error.tail[0] == container:
            yield error.tail


def _parse_plane(data: bytes, space: XSpace) -> XPlane:
    plane = XPlane()
    for number, value in _whole_fields(data, space, _LINES):
        if number == 2:  # noqa: PLR2004  field numbers of xplane.proto, here and below
            plane.name = as_text(value)
        elif number == _LINES:
            plane.lines.append(as_bytes(value))
        elif number == 4:  # noqa: PLR2004
            key, content = _parse_entry(as_bytes(value), space)
            plane.kinds[key] = _parse_kind(content, space)
        elif number == 5:  # noqa: PLR2004
            key, content = _parse_entry(as_bytes(value), space)
            plane.stat_names[key] = _parse_name(content, space)
        elif number == 6:  # noqa: PLR2004
            plane.stats.append(as_bytes(value))
    return plane


def _parse_entry(data: bytes, space: XSpace) -> tuple[int, bytes]:
    key, content = 0, b""
    for number, value in _whole_fields(data, space):
        if number == 1:
            key = as_signed(value)
        elif number == 2:  # noqa: PLR2004
            content = as_bytes(value)
    return key, content


def _parse_kind(data: bytes, space: XSpace) -> EventKind:
    kind = EventKind()
    for number, value in _whole_fields(data, space):
        if number == 2:  # noqa: PLR2004
            kind.name = as_text(value)
        elif number == 4:  # noqa: PLR2004
            kind.display_name = as_text(value)
        elif number == 5:  # noqa: PLR2004
            kind.stats.append(as_bytes(value))
    return kind


def _parse_name(data: bytes, space: XSpace) -> str:
    return next(
        (as_text(value) for number, value in _whole_fields(data, space) if number == 2),  # noqa: PLR2004
        "",
    )


def parse_line(data: bytes, space: XSpace) -> XLine:
    """Return a line with its events."""
    line = XLine()
    display_name = ""
    for number, value in _whole_fields(data, space):
        if number == 4:  # noqa: PLR2004
            line.events.append(_parse_event(as_bytes(value), space))
        elif number == 1:
            line.number = as_signed(value)
        elif number == 2:  # noqa: PLR2004
            line.name = as_text(value)
        elif number == 3:  # noqa: PLR2004
            line.timestamp_ns = as_signed(value)
        elif number == 11:  # noqa: PLR2004
            display_name = as_text(value)
    line.name = display_name or line.name
    return line


def _parse_event(data: bytes, space: XSpace) -> XEvent:
    event = XEvent(0, 0, 0, [])
    for number, value in _whole_fields(data, space):
        if number == 1:
            event.metadata = as_signed(value)
        elif number == 2:  # noqa: PLR2004
            event.offset_ps = as_signed(value)
        elif number == 3:  # noqa: PLR2004
            event.duration_ps = as_signed(value)
        elif number == 4:  # noqa: PLR2004
            event.stats.append(as_bytes(value))
    return event


def read_stats(plane: XPlane, stats: list[bytes], wanted: Callable[[str], bool]) -> Stats:
    """Return the statistics of an event, or of a kind, that are wanted, by name."""
    stats_by_name: Stats = {}
    for data in stats:
        name, content = _read_stat(plane, data)
        if content is not None and wanted(name):
            stats_by_name[name] = content
    return stats_by_name


def _read_stat(plane: XPlane, data: bytes) -> tuple[str, int | str | None]:
    name, content = "", None
    try:
        for number, value in read_fields(data):
            if number == 1:
                name = plane.stat_names.get(as_signed(value), "")
            elif number in (3, 4):
                content = as_signed(value)
            elif number == 5:  # noqa: PLR2004
                content = as_text(value)
            elif number == 7:  # noqa: PLR2004  a text that the plane holds once
                content = plane.stat_names.get(as_signed(value), "")
    except DamagedError:
        return "", None
    return name, content
