"""What a table is: how its rows are made of one capture, and those of many ranks put together."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gapless.capture.view import CaptureView

_Row = TypeVar("_Row", bound=Struct)
_Number = TypeVar("_Number", int, float)


class TableKind(Struct, frozen=True):
    """A table: ``TABLE`` of the file with the name of its field in ``model.tables.Tables``."""

    build: Callable[[CaptureView, bool], tuple[Any, ...]]  # the flag: split by shapes of inputs
    key: Callable[[Any], Hashable]  # rows of several ranks that mean the same have the same
    add: Callable[[Any, Any], Any]
    order: Callable[[Any], tuple[object, ...]]

    def merge(self, tables: Iterable[Sequence[Any]]) -> tuple[Any, ...]:
        """Return the rows of several ranks, added up and sorted again."""
        return merge_rows(tables, self.key, self.add, self.order)


def merge_rows(
    tables: Iterable[Sequence[_Row]],
    key: Callable[[_Row], Hashable],
    add: Callable[[_Row, _Row], _Row],
    order: Callable[[_Row], tuple[object, ...]],
) -> tuple[_Row, ...]:
    """Add up the rows of equal keys, and sort what is left."""
    merged_rows: dict[Hashable, _Row] = {}
    for table in tables:
        for row in table:
            row_key = key(row)
            merged_rows[row_key] = add(merged_rows[row_key], row) if row_key in merged_rows else row
    return tuple(sorted(merged_rows.values(), key=order))


def add_known(a: _Number | None, b: _Number | None) -> _Number | None:
    """Return a sum; ``None`` if a part of it is not known."""
    return None if a is None or b is None else a + b


def add_fields(row: _Row, addend: _Row, *names: str) -> _Row:
    """Return a row of two ranks: the sums of these fields, and the rest as in the first."""
    return replace(
        row, **{name: add_known(getattr(row, name), getattr(addend, name)) for name in names}
    )
