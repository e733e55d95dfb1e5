"""One table as CSV: every field, names in full, absent as empty, nanoseconds in sum."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict, astuple

from gapless.errors import UsageError
from gapless.model.account import Account
from gapless.model.leaf import LEAVES
from gapless.model.study import Study
from gapless.model.tables import Tables
from gapless.model.trace import Geometry
from gapless.report.text.text import clean

_ROWS: Final[Mapping[str, type[Struct]]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
_ACCOUNT: Final = "account"
NAMES: Final = (_ACCOUNT, *_ROWS)


def table_csv(study: Study, name: str) -> str:
    """Write a table. Raises ``UsageError`` for an unknown name."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table_rows(study, name))
    return out.getvalue()


def table_rows(study: Study, name: str) -> Iterator[Sequence[object]]:
    """Yield the heads of a table, then its rows.

    "account" has a row for each device and step, a column for each leaf. Raises ``UsageError`` for
    an unknown name.
    """
    if name not in NAMES:
        raise UsageError(f"there is no table {name!r}; there are: {', '.join(NAMES)}")
    if name == _ACCOUNT:
        yield from _account(study.account)
        return
    yield _heads(_ROWS[name])
    yield from (_cells(row) for row in getattr(study.tables, name))


def _heads(row_type: type[Struct]) -> list[str]:
    """Name the columns: a kernel's geometry has one for each of its fields."""
    return [
        name
        for field in row_type.__struct_fields__
        for name in (Geometry.__struct_fields__ if field == "geometry" else (field,))
    ]


def _cells(row: Struct) -> list[object]:
    cells: list[object] = []
    for field, value in asdict(row).items():
        if field == "geometry":
            cells += map(_cell, astuple(value or Geometry()))
        else:
            cells.append(_cell(value))
    return cells


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(str(item) for item in cast("tuple[object, ...]", value))
    return clean(value) if isinstance(value, str) else value


def _account(account: Account) -> Iterator[Sequence[object]]:
    leaves = [leaf for leaf in LEAVES if leaf in account.leaves]
    yield ["rank", "device", "step", "wall_ns", *leaves]
    for row_account in account.rows:
        row = row_account.row
        leaves_ns = [row_account.leaves.get(leaf, 0) for leaf in leaves]
        yield [row.rank, row.device, row.step, row.end - row.start, *leaves_ns]
