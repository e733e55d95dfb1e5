"""The tables of a study as titles and cells, for the terminal and for markdown.

Times and calls are a step's (the mean over the counted rows) where there are steps, else the
capture's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from gapless.errors import UsageError
from gapless.model.study import Study
from gapless.model.tables import Geometry, Tables
from gapless.report.numbers import count, percent, rate, size

NAMES: Final = tuple(one.name for one in fields(Tables))


@dataclass(frozen=True)
class Basis:
    """What figures are divided by: the counted rows, and the wall time of one."""

    rows: int
    wall_ns: int


@dataclass(frozen=True)
class Grid:
    """A table as text: the first column names, all others are figures.

    ``weights`` order the columns by importance: where there is no room, the highest go first.
    """

    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    weights: tuple[int, ...]
    more: int  # rows that are not shown


_Cell = Callable[[Any, Basis], str]
_Column = tuple[str, int, _Cell]  # title, weight, cell


def grid(study: Study, table: str, top: int | None = None, sort: str | None = None) -> Grid:
    """Give the first ``top`` rows of a table (or all), by ``sort`` if it has such a column.

    Raises ``UsageError`` for a name that is no table.
    """
    rows = ordered(study, table, sort)
    shown = rows if top is None else rows[:top]
    columns = _COLUMNS[table]
    basis = basis_of(study)
    return Grid(
        titles=tuple(title for title, _, _ in columns),
        cells=tuple(tuple(cell(row, basis) for _, _, cell in columns) for row in shown),
        weights=tuple(weight for _, weight, _ in columns),
        more=len(rows) - len(shown),
    )


def basis_of(study: Study) -> Basis:
    """Give what a study's figures are divided by."""
    rows = max(1, len(study.account.rows)) if study.account.steps is not None else 1
    return Basis(rows, study.account.wall_ns // rows)


def ordered(study: Study, table: str, sort: str | None) -> Sequence[object]:
    """Give a table's rows by a column, largest first, names ascending. Raises ``UsageError``."""
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
    wanted = set(sort.replace("-", "_").removesuffix("_ns").split("_"))
    found = next(
        (key for key in SORT_KEYS if wanted == set(key.removesuffix("_ns").split("_"))), None
    )
    if found is None:
        known = ", ".join(key.removesuffix("_ns") for key in SORT_KEYS)
        raise UsageError(f"tables cannot be sorted by {sort!r}; there are: {known}")
    return found


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


def _ms(field: str) -> _Cell:
    def cell(row: object, basis: Basis) -> str:
        value = getattr(row, field)
        return _ABSENT if value is None else _milliseconds(value / basis.rows)

    return cell


def _milliseconds(ns: float) -> str:
    return f"{ns / 1e6:,.3f}" if ns < 1e9 else f"{ns / 1e6:,.0f}"  # noqa: PLR2004 - a second


def _share(field: str) -> _Cell:
    def cell(row: object, basis: Basis) -> str:
        return (
            percent(getattr(row, field) / basis.rows / basis.wall_ns) if basis.wall_ns else _ABSENT
        )

    return cell


def _text(field: str, show: Callable[[Any], str] = str) -> _Cell:
    def cell(row: object, _: Basis) -> str:
        value = getattr(row, field)
        return _ABSENT if value is None else show(value)

    return cell


def _of(show: Callable[[Any], str]) -> _Cell:
    return lambda row, _: show(row)


def _launch(field: str, show: Callable[[Any], str] = str) -> _Cell:
    def cell(row: object, _: Basis) -> str:
        geometry: Geometry | None = getattr(row, "geometry", None)
        value = getattr(geometry, field) if geometry else None
        return _ABSENT if value is None else show(value)

    return cell


def _times(numbers: tuple[int, ...]) -> str:
    return "×".join(str(number) for number in numbers)


_ABSENT: Final = "–"
_CALLS: Final[_Column] = ("calls", 1, lambda row, basis: count(row.calls / basis.rows))
_COLUMNS: Final[dict[str, tuple[_Column, ...]]] = {
    "operators": (
        ("operator", 0, _of(lambda row: f"{row.name} {row.shapes}" if row.shapes else row.name)),
        ("self host ms", 1, _ms("host_self_ns")),
        ("host ms", 3, _ms("host_total_ns")),
        ("self device ms", 2, _ms("device_self_ns")),
        ("device ms", 4, _ms("device_total_ns")),
        _CALLS,
    ),
    "kernels": (
        ("kernel", 0, _text("name")),
        ("ms", 1, _ms("device_ns")),
        ("of time", 3, _share("device_ns")),
        _CALLS,
        ("mean µs", 2, _text("mean_ns", lambda ns: f"{ns / 1e3:,.1f}")),
        ("tensor", 4, _text("tensor_cores")),
        ("occup.", 5, _launch("occupancy", lambda share: f"{share:.0%}")),
        ("grid", 7, _launch("grid", _times)),
        ("block", 7, _launch("block", _times)),
        ("reg.", 9, _launch("registers")),
        ("shared", 9, _launch("shared_memory", size)),
        ("operator", 6, _text("operator")),
    ),
    "copies": (
        (
            "copy",
            0,
            _of(lambda row: f"{row.direction} {row.memory}" if row.memory else row.direction),
        ),
        ("ms", 1, _ms("device_ns")),
        ("of time", 4, _share("device_ns")),
        _CALLS,
        ("bytes", 2, lambda row, at: _ABSENT if row.bytes is None else size(row.bytes / at.rows)),
        ("rate", 3, _text("bytes_per_s", rate)),
    ),
    "collectives": (
        ("collective", 0, _of(lambda row: f"{row.name} {row.dtype}" if row.dtype else row.name)),
        ("ms", 1, _ms("device_ns")),
        ("exposed ms", 2, _ms("exposed_ns")),
        ("hidden ms", 3, _ms("hidden_ns")),
        _CALLS,
        ("bytes a call", 4, _text("bytes", size)),
        ("ranks", 6, _text("group_size")),
        ("bus", 5, _text("bus_bytes_per_s", rate)),
    ),
    "ranges": (
        ("range", 0, _text("name")),
        ("host ms", 1, _ms("host_ns")),
        ("device ms", 2, _ms("device_ns")),
        _CALLS,
    ),
    "memory": (
        ("device", 0, _text("device")),
        ("peak allocated", 1, _text("peak_allocated", size)),
        ("peak reserved", 2, _text("peak_reserved", size)),
        ("allocations", 3, lambda row, basis: count(row.allocations / basis.rows)),
        ("frees", 4, lambda row, basis: count(row.frees / basis.rows)),
        ("allocated", 5, lambda row, basis: size(row.allocated_bytes / basis.rows)),
    ),
    "lines": (
        ("function", 0, _of(lambda row: f"{row.file}:{row.line} {row.function}")),
        ("idle ms", 1, _ms("idle_ns")),
        ("self host ms", 2, _ms("host_self_ns")),
        ("host ms", 3, _ms("host_total_ns")),
        ("device ms", 4, _ms("device_total_ns")),
        _CALLS,
    ),
}
