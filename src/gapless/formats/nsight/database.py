"""An exported database, read without trusting it: whole columns of plain tables, nothing else.

Tables differ from one version of the exporter to the next, and are made only where there is
something to put into them: a column that is not there is absent, and so is a table.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from gapless.errors import NotATraceError
from gapless.model.trace import Int64

_MAX_TEXT_BYTES: Final = 1 << 16  # of one string: names are shorter
_MAX_STRINGS: Final = 10_000_000
_MIN_ROW_BYTES: Final = 4  # of a row and its place in the page: a file has no more rows than that
_INTEGER: Final = "CASE typeof({0}) WHEN 'integer' THEN {0} ELSE -1 END"
_REAL: Final = "CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'real' THEN {0} ELSE NULL END"


class Database(Struct):
    """An open database, the columns of its tables, and what was damaged in it."""

    connection: sqlite3.Connection
    columns: dict[str, tuple[str, ...]]  # by table
    file_bytes: int
    damage: list[str] = field(default_factory=list[str])

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a table with these columns."""
        return set(columns) <= set(self.columns.get(table, ())) and table in self.columns

    def integers(self, table: str, columns: Sequence[str]) -> tuple[Int64, ...]:
        """Return columns of integers, in the order of the table; −1 where there is none."""
        expressions = [
            _INTEGER.format(_quote(column)) if self.has(table, column) else "-1"
            for column in columns
        ]
        query = f"SELECT {', '.join(expressions)} FROM {_quote(table)} LIMIT {self._max_rows()}"  # noqa: S608  quoted
        rows = self._rows(query, table)
        matrix = np.array(rows, np.int64).reshape(-1, len(columns))
        return tuple(np.ascontiguousarray(matrix[:, number]) for number in range(len(columns)))

    def texts(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return rows of a small table; texts are cut, numbers stay as they are."""
        expressions = [
            f"CASE typeof({_quote(column)}) WHEN 'text' "
            f"THEN substr({_quote(column)}, 1, {_MAX_TEXT_BYTES}) "
            f"WHEN 'blob' THEN NULL ELSE {_quote(column)} END"
            if self.has(table, column)
            else "NULL"
            for column in columns
        ]
        limit = min(_MAX_STRINGS, self._max_rows())
        query = f"SELECT {', '.join(expressions)} FROM {_quote(table)} LIMIT {limit}"  # noqa: S608  quoted
        return self._rows(query, table, has_texts=True)

    def means(
        self, table: str, key: str, value: str, kind_column: str, kind: int
    ) -> list[tuple[Any, ...]]:
        """Return each key of a table of samples of a kind, with their mean and number."""
        number = _REAL.format(_quote(value))
        rows = f"(SELECT * FROM {_quote(table)} LIMIT {self._max_rows()})"  # noqa: S608  quoted
        query = (
            f"SELECT {_quote(key)}, avg({number}), count({number}) FROM {rows} "  # noqa: S608  quoted
            f"WHERE {_quote(kind_column)} = {int(kind)} GROUP BY {_quote(key)} LIMIT 1000"
        )
        return self._rows(query, table)

    def _max_rows(self) -> int:
        """Return more rows than the file has, unless pages of it are in several places of a tree.

        SQLite does not notice that: a tree of ten such pages has more rows than can be read.
        """
        return self.file_bytes // _MIN_ROW_BYTES

    def _rows(self, query: str, table: str, *, has_texts: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of a query; of a damaged table those before the damage."""
        rows: list[tuple[Any, ...]] = []
        n_letters = 0
        try:
            for row in self.connection.execute(query):
                rows.append(row)
                if has_texts:
                    n_letters += sum(len(text) for text in row if isinstance(text, str))
                    if n_letters > self.file_bytes:
                        break
            if n_letters > self.file_bytes or len(rows) == self._max_rows():
                raise sqlite3.DatabaseError("pages are in several places")
        except (sqlite3.Error, OverflowError) as error:
            self.damage.append(f"table {table} is damaged after {len(rows)} rows: {error}")
        return rows


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_database(path: Path) -> Generator[Database]:
    """Open a database to read, leaving no file beside it. Raises ``NotATraceError``."""
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(address, uri=True)
        connection.text_factory = _decode
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        columns = _list_columns(connection)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        if connection is not None:
            connection.close()
        raise NotATraceError(f"{path}: no database that can be read: {error}") from error
    try:
        yield Database(connection, columns, path.stat().st_size)
    finally:
        connection.close()


def _list_columns(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Return the columns of each plain table: neither views nor virtual tables are looked at."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    columns: dict[str, tuple[str, ...]] = {}
    for (table,) in tables:
        if isinstance(table, str):
            rows = connection.execute(f"PRAGMA table_info({_quote(table)})").fetchall()
            columns[table] = tuple(row[1] for row in rows if isinstance(row[1], str))
    return columns
