"""The tables of a study as titles and cells, for the terminal and for markdown.

Times and calls are a step's (the mean over the counted rows) where there are steps, else the
capture's.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args, get_type_hints

from msgspec import Struct

from gapless.errors import UsageError
from gapless.model.study import Study
from gapless.model.tables import Geometry, Tables
from gapless.report.text.numbers import count, percent, rate, size

NAMES: Final = Tables.__struct_fields__


class Basis(Struct, frozen=True):
    """What figures are divided by: the counted rows, and the wall time of one."""

    rows: int
    wall_ns: int


class Grid(Struct, frozen=True):
    """A table as text: the first column names, all others are figures.

    ``weights`` order the columns by importance: where there is no room, the highest go first.
    """

    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    weights: tuple[int, ...]
    hidden_rows: int  # rows that are not shown


_Cell = Callable[[Any, Basis], str]
_Column = tuple[str, int, _Cell]  # title, weight, cell


def table_grid(study: Study, table: str, top: int | None = None, sort: str | None = None) -> Grid:
    """Return the first ``top`` rows of a table (or all), by ``sort`` if it has such a column.

    Raises ``UsageError`` for a name that is not a table's.
    """
    rows = order_rows(study, table, sort)
    shown_rows = rows if top is None else rows[:top]
    columns = _COLUMNS.get(table) or _field_columns(table)
    basis = basis_of(study)
    return Grid(
        titles=tuple(title for title, _, _ in columns),
        cells=tuple(tuple(cell(row, basis) for _, _, cell in columns) for row in shown_rows),
        weights=tuple(weight for _, weight, _ in columns),
        hidden_rows=len(rows) - len(shown_rows),
    )


def _field_columns(table: str) -> tuple[_Column, ...]:
    """Return a table's fields as columns: the first names, times are milliseconds, calls last."""
    row_type: type[Struct] = get_args(get_type_hints(Tables)[table])[0]
    label, *figures = row_type.__struct_fields__
    figures.sort(key=lambda field: field == "calls")
    columns = [_field_column(field, weight) for weight, field in enumerate(figures, 1)]
    return ((table.removesuffix("s"), 0, _text_cell(label)), *columns)


def _field_column(field: str, weight: int) -> _Column:
    if field == "calls":
        return _CALLS
    title = field.removesuffix("_ns").replace("_", " ")
    return (
        (f"{title} ms", weight, _ms_cell(field))
        if field.endswith("_ns")
        else (title, weight, _text_cell(field))
    )


def table_title(table: str) -> str:
    """Return what a table is called in print."""
    return _TITLES.get(table, table)


def basis_of(study: Study) -> Basis:
    """Return the divisors of a study's figures."""
    rows = max(1, len(study.account.rows)) if study.account.steps is not None else 1
    return Basis(rows, study.account.wall_ns // rows)


def order_rows(study: Study, table: str, sort: str | None) -> Sequence[object]:
    """Return a table's rows by a column, largest first, names ascending. Raises ``UsageError``."""
    if table not in NAMES:
        raise UsageError(f"there is no table {table!r}; there are: {', '.join(NAMES)}")
    rows: Sequence[object] = getattr(study.tables, table)
    key = _sort_key(sort)
    if key is None or not rows or not hasattr(rows[0], key):
        return rows
    values = [getattr(row, key) for row in rows]
    if any(isinstance(value, str) for value in values):
        return sorted(rows, key=lambda row: str(getattr(row, key) or ""))
    return sorted(rows, key=lambda row: -(getattr(row, key) or 0))


def _sort_key(sort: str | None) -> str | None:
    """Find the field that a sort key names: its words in any order, as titles have them.

    Raises ``UsageError``.
    """
    if sort is None:
        return None
    words = set(sort.replace("-", "_").removesuffix("_ns").split("_"))
    sort_key = next(
        (key for key in SORT_KEYS if words == set(key.removesuffix("_ns").split("_"))), None
    )
    if sort_key is None:
        sort_names = ", ".join(key.removesuffix("_ns") for key in SORT_KEYS)
        raise UsageError(f"tables cannot be sorted by {sort!r}; there are: {sort_names}")
    return sort_key


SORT_KEYS: Final = (
    "device_ns",
    "device_self_ns",
    "device_total_ns",
    "host_ns",
    "host_self_ns",
    "host_total_ns",
    "idle_ns",
    "exposed_ns",
    "hidden_ns",
    "mean_ns",
    "calls",
    "bytes",
    "name",
)


def _ms_cell(field: str) -> _Cell:
    def cell(row: object, basis: Basis) -> str:
        value = getattr(row, field)
        return _ABSENT if value is None else _milliseconds(value / basis.rows)

    return cell


def _milliseconds(ns: float) -> str:
    return f"{ns / 1e6:,.3f}" if ns < 1e9 else f"{ns / 1e6:,.0f}"  # noqa: PLR2004 - a second


def _share_cell(field: str) -> _Cell:
    def cell(row: object, basis: Basis) -> str:
        return (
            percent(getattr(row, field) / basis.rows / basis.wall_ns) if basis.wall_ns else _ABSENT
        )

    return cell


def _text_cell(field: str, show: Callable[[Any], str] = str) -> _Cell:
    def cell(row: object, _: Basis) -> str:
        value = getattr(row, field)
        return _ABSENT if value is None else show(value)

    return cell


def _row_cell(show: Callable[[Any], str]) -> _Cell:
    return lambda row, _: show(row)


def _launch_cell(field: str, show: Callable[[Any], str] = str) -> _Cell:
    def cell(row: object, _: Basis) -> str:
        geometry: Geometry | None = getattr(row, "geometry", None)
        value = getattr(geometry, field) if geometry else None
        return _ABSENT if value is None else show(value)

    return cell


def _dimensions(numbers: tuple[int, ...]) -> str:
    return "×".join(str(number) for number in numbers)


_ABSENT: Final = "–"
_TITLES: Final = {"ranges": "your ranges", "lines": "source lines"}  # others go by their name
_CALLS: Final[_Column] = ("calls", 1, lambda row, basis: count(row.calls / basis.rows))
_COLUMNS: Final[dict[str, tuple[_Column, ...]]] = {  # of the others: their fields
    "operators": (
        (
            "operator",
            0,
            _row_cell(lambda row: f"{row.name} {row.shapes}" if row.shapes else row.name),
        ),
        ("self host ms", 1, _ms_cell("host_self_ns")),
        ("host ms", 3, _ms_cell("host_total_ns")),
        ("self device ms", 2, _ms_cell("device_self_ns")),
        ("device ms", 4, _ms_cell("device_total_ns")),
        _CALLS,
    ),
    "kernels": (
        ("kernel", 0, _text_cell("name")),
        ("ms", 1, _ms_cell("device_ns")),
        ("of time", 3, _share_cell("device_ns")),
        _CALLS,
        ("mean µs", 2, _text_cell("mean_ns", lambda ns: f"{ns / 1e3:,.1f}")),
        ("tensor", 4, _text_cell("tensor_cores")),
        ("occup.", 5, _launch_cell("occupancy", lambda share: f"{share:.0%}")),
        ("grid", 7, _launch_cell("grid", _dimensions)),
        ("block", 7, _launch_cell("block", _dimensions)),
        ("reg.", 9, _launch_cell("registers")),
        ("shared", 9, _launch_cell("shared_memory", size)),
        ("operator", 6, _text_cell("operator")),
    ),
    "copies": (
        (
            "copy",
            0,
            _row_cell(lambda row: f"{row.direction} {row.memory}" if row.memory else row.direction),
        ),
        ("ms", 1, _ms_cell("device_ns")),
        ("of time", 4, _share_cell("device_ns")),
        _CALLS,
        (
            "bytes",
            2,
            lambda row, basis: _ABSENT if row.bytes is None else size(row.bytes / basis.rows),
        ),
        ("rate", 3, _text_cell("bytes_per_s", rate)),
    ),
    "collectives": (
        (
            "collective",
            0,
            _row_cell(lambda row: f"{row.name} {row.dtype}" if row.dtype else row.name),
        ),
        ("ms", 1, _ms_cell("device_ns")),
        ("exposed ms", 2, _ms_cell("exposed_ns")),
        ("hidden ms", 3, _ms_cell("hidden_ns")),
        _CALLS,
        ("bytes a call", 4, _text_cell("bytes", size)),
        ("ranks", 6, _text_cell("group_size")),
        ("bus", 5, _text_cell("bus_bytes_per_s", rate)),
    ),
    "memory": (
        ("device", 0, _text_cell("device")),
        ("peak allocated", 1, _text_cell("peak_allocated", size)),
        ("peak reserved", 2, _text_cell("peak_reserved", size)),
        ("allocations", 3, lambda row, basis: count(row.allocations / basis.rows)),
        ("frees", 4, lambda row, basis: count(row.frees / basis.rows)),
        ("allocated", 5, lambda row, basis: size(row.allocated_bytes / basis.rows)),
    ),
    "lines": (
        ("function", 0, _row_cell(lambda row: f"{row.file}:{row.line} {row.function}")),
        ("idle ms", 1, _ms_cell("idle_ns")),
        ("self host ms", 2, _ms_cell("host_self_ns")),
        ("host ms", 3, _ms_cell("host_total_ns")),
        ("device ms", 4, _ms_cell("device_total_ns")),
        _CALLS,
    ),
}
