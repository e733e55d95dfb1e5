"""A profile while it is read: its events by category, and what was noticed of threads."""

from msgspec import Struct, field

from gapless.formats.parts import TraceParts
from gapless.formats.rows import DeviceFields, Placed, Rows, close_rows
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


class Profile(Struct):
    """All that was read so far."""

    space: XSpace
    parts: TraceParts = field(default_factory=TraceParts)
    rows: dict[int, Rows] = field(default_factory=dict[int, Rows])
    has_device: bool = False
    executing: dict[int, Spans] = field(default_factory=dict[int, Spans])  # by track: launching
    inside: dict[int, Spans] = field(default_factory=dict[int, Spans])  # by track: in the runtime
    api: dict[int, list[int]] = field(default_factory=dict[int, list[int]])  # by track: starts
    calls: dict[int, list["ModuleCall"]] = field(default_factory=dict[int, list["ModuleCall"]])
    operations: list["ModuleOperation"] = field(default_factory=list["ModuleOperation"])
    ranges: list[tuple[Placed, str]] = field(default_factory=list[tuple[Placed, str]])
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
        rows.append(placed, self.parts.name_id(name), correlation, fields)

    def close(self) -> None:
        """Make columns of the events."""
        close_rows(self.parts, self.rows)


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
