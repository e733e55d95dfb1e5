"""Names, tracks and raw values → numbers, in the order in which they are met."""

from collections import defaultdict
from itertools import count, islice
from typing import Any, Final

from msgspec import Struct, field

from gapless.formats.columns import batch as b

SEPARATOR: Final = b"\0"  # between raw JSON values, which hold no NUL


def _numbering(*absent: bytes) -> "defaultdict[Any, int]":
    """Return a dictionary that numbers its keys as they come; those given as absent get −1."""
    ids: defaultdict[Any, int] = defaultdict(count().__next__)
    ids.update(dict.fromkeys(absent, -1))
    return ids


class IdTables(Struct):
    """What a maker of batches has met so far."""

    names: "defaultdict[str, int]" = field(default_factory=_numbering)
    tracks: "defaultdict[tuple[int | str, int | str], int]" = field(default_factory=_numbering)
    shapes: "defaultdict[bytes, int]" = field(default_factory=lambda: _numbering(SEPARATOR * 4))
    geometries: "defaultdict[bytes, int]" = field(default_factory=lambda: _numbering(SEPARATOR * 6))
    collectives: "defaultdict[bytes, int]" = field(
        default_factory=lambda: _numbering(SEPARATOR * 9)
    )
    categories: "defaultdict[str, int]" = field(default_factory=_numbering)

    def sizes(self) -> tuple[int, ...]:
        """Count what each table holds."""
        tables = (self.names, self.tracks, self.shapes, self.geometries, self.collectives)
        return tuple(map(len, tables))

    def entries_since(self, sizes: tuple[int, ...]) -> b.FreshEntries:
        """List what came after the tables had these sizes."""
        names, tracks, shapes, geometries, collectives = sizes
        return b.FreshEntries(
            list(islice(self.names, names, None)),
            list(islice(self.tracks, tracks, None)),
            list(islice(self.shapes, shapes, None)),
            list(islice(self.geometries, geometries, None)),
            list(islice(self.collectives, collectives, None)),
        )
