"""A profile while it is read: its events by category, and what was noticed of threads."""

import numpy as np
from msgspec import Struct, field

from gapless.formats.parts import EventBlock, TraceParts
from gapless.formats.xla.meaning import Meaning
from gapless.formats.xla.planes import Stats, XEvent, XLine, XSpace

_PICOSECONDS = 1000
_LIMIT_NS = 1 << 62
_MAX_DIGITS = 19  # fewer fit 64 bits
Spans = list[tuple[int, int]]
SEEN_STATS = frozenset(
    {"step_num", "hlo_op", "hlo_module", "run_id", "correlation_id", "_src", "memcpy_details"}
    | {"memset_details", "kernel_details", "tf_function_call"}
)


class Placed(Struct, frozen=True, gc=False):
    """When and where an event was, in nanoseconds."""

    start: int
    end: int
    track: int


class DeviceFields(Struct, frozen=True, gc=False):
    """What only a device knows of an event; −1 for what it does not say."""

    device: int
    stream: int
    bytes: int = -1
    geometry: int = -1


class Rows(Struct):
    """Events of a category, one by one, before they become columns."""

    start: list[int] = field(default_factory=list[int])
    end: list[int] = field(default_factory=list[int])
    name: list[int] = field(default_factory=list[int])
    track: list[int] = field(default_factory=list[int])
    correlation: list[int] = field(default_factory=list[int])
    fields: list[DeviceFields] = field(default_factory=list[DeviceFields])


class Profile(Struct):
    """All that was read so far."""

    space: XSpace
    parts: TraceParts = field(default_factory=TraceParts)
    rows: dict[int, Rows] = field(default_factory=dict[int, Rows])
    has_device: bool = False
    executing: dict[int, Spans] = field(default_factory=dict[int, Spans])  # by track: launching
    api: dict[int, list[int]] = field(default_factory=dict[int, list[int]])  # by track: starts
    calls: dict[int, list["ModuleCall"]] = field(default_factory=dict[int, list["ModuleCall"]])
    operations: list["ModuleOperation"] = field(default_factory=list["ModuleOperation"])
    compiling: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    meanings: dict[tuple[str, bool, bool, bool], Meaning] = field(
        default_factory=dict[tuple[str, bool, bool, bool], Meaning]
    )

    def add(
        self,
        category: int,
        placed: Placed,
        name: str,
        correlation: int = -1,
        fields: DeviceFields | None = None,
    ) -> None:
        """Append an event."""
        rows = self.rows.setdefault(category, Rows())
        rows.start.append(placed.start)
        rows.end.append(placed.end)
        rows.name.append(self.parts.name_id(name))
        rows.track.append(placed.track)
        rows.correlation.append(correlation)
        if fields is not None:
            rows.fields.append(fields)

    def close(self) -> None:
        """Make columns of the events."""
        for category, rows in sorted(self.rows.items()):
            keys = DeviceFields.__struct_fields__ if rows.fields else ()
            columns = {key: [getattr(fields, key) for fields in rows.fields] for key in keys}
            block = EventBlock(
                category,
                np.array(rows.start, np.int64),
                np.array(rows.end, np.int64),
                np.array(rows.name, np.int64),
                np.array(rows.track, np.int64),
                np.array(rows.correlation, np.int64),
                {key: np.array(column, np.int64) for key, column in columns.items()},
            )
            self.parts.add(block)


class ModuleCall(Struct, frozen=True, gc=False):
    """A call of a compiled function from Python."""

    placed: Placed
    label: str
    module: str  # the name that XLA gives to what it compiled of it


class ModuleOperation(Struct, frozen=True, gc=False):
    """An operation of a compiled function, as XLA's executor on the host ran it."""

    placed: Placed
    label: str
    module: str
    run: int  # of the function; 0 unknown


def place_event(line: XLine, event: XEvent, track: int) -> Placed:
    """Return when an event was: its end is rounded as its start, so that what nests still does."""
    start = line.timestamp_ns + event.offset_ps // _PICOSECONDS
    end = line.timestamp_ns + (event.offset_ps + event.duration_ps) // _PICOSECONDS
    return Placed(_bound_time(start), _bound_time(end), track)


def _bound_time(time_ns: int) -> int:
    return max(-_LIMIT_NS, min(time_ns, _LIMIT_NS))


def integer_stat(stats: Stats, name: str) -> int:
    """Return a number of the statistics, written as one or as text; −1 if there is none above 0."""
    number = stats.get(name, -1)
    if isinstance(number, str):
        is_number = number.isascii() and number.isdecimal() and len(number) < _MAX_DIGITS
        number = int(number) if is_number else -1
    return number if isinstance(number, int) and number > 0 else -1
