"""Names, tracks and raw values → numbers, in the order in which they are met."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Final

from gapless.formats import batch as b

SEPARATOR: Final = b"\0"  # between raw JSON values, which hold no NUL


def _ids(*nothing: bytes) -> "defaultdict[Any, int]":
    """Give a dictionary that numbers its keys as they come; those of ``nothing`` get −1."""
    ids: defaultdict[Any, int] = defaultdict(count().__next__)
    ids.update(dict.fromkeys(nothing, -1))
    return ids


@dataclass
class Tables:
    """What a maker of batches has met so far."""

    names: "defaultdict[str, int]" = field(default_factory=_ids)
    tracks: "defaultdict[tuple[int | str, int | str], int]" = field(default_factory=_ids)
    shapes: "defaultdict[bytes, int]" = field(default_factory=lambda: _ids(SEPARATOR * 4))
    geometries: "defaultdict[bytes, int]" = field(default_factory=lambda: _ids(SEPARATOR * 6))
    collectives: "defaultdict[bytes, int]" = field(default_factory=lambda: _ids(SEPARATOR * 7))
    categories: "defaultdict[str, int]" = field(default_factory=_ids)

    def sizes(self) -> tuple[int, ...]:
        """Count what each table holds."""
        tables = (self.names, self.tracks, self.shapes, self.geometries, self.collectives)
        return tuple(map(len, tables))

    def since(self, sizes: tuple[int, ...]) -> b.Fresh:
        """List what came after the tables had these sizes."""
        names, tracks, shapes, geometries, collectives = sizes
        return b.Fresh(
            list(islice(self.names, names, None)),
            list(islice(self.tracks, tracks, None)),
            list(islice(self.shapes, shapes, None)),
            list(islice(self.geometries, geometries, None)),
            list(islice(self.collectives, collectives, None)),
        )
