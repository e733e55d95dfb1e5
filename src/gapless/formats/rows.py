"""Events that are read one by one, before they become the columns of a block."""

import numpy as np
from msgspec import Struct, field

from gapless.formats.parts import EventBlock, TraceParts


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

    def append(
        self, placed: Placed, name: int, correlation: int, fields: DeviceFields | None
    ) -> None:
        """Append an event."""
        self.start.append(placed.start)
        self.end.append(placed.end)
        self.name.append(name)
        self.track.append(placed.track)
        self.correlation.append(correlation)
        if fields is not None:
            self.fields.append(fields)


def close_rows(parts: TraceParts, rows_by_category: dict[int, Rows]) -> None:
    """Make columns of events."""
    for category, rows in sorted(rows_by_category.items()):
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
        parts.add(block)
