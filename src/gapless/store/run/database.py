"""``run.sqlite``: a recording as tables, for people and tools that speak SQL.

It is derived: it holds nothing that is not in the logs, and one of another version is rebuilt
instead of upgraded.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from gapless.errors import RunFolderError
from gapless.model.recording import Recording
from gapless.store.atomic import write_atomically
from gapless.store.run.rows import tables

VERSION: Final = 2  # of the schema
SCHEMA: Final = Path(__file__).with_name("schema.sql")
_APPLICATION: Final = 0x6761706C  # "gapl": what `file` and SQLite know the file by


def write_database(recording: Recording, path: Path) -> str | None:
    """Write a recording as a database, completely or not at all; return the reason if that failed.

    An existing one is replaced.
    """
    try:
        with (
            write_atomically(path) as unfinished,
            closing(sqlite3.connect(unfinished, isolation_level=None)) as connection,
        ):
            _fill(connection, recording)
    except sqlite3.Error as error:
        return f"{path.parent}: {error}"
    except OSError as error:
        return f"{path.parent}: {error.strerror or error}"
    return None


def _fill(connection: sqlite3.Connection, recording: Recording) -> None:
    # A file cut off by a crash is never taken for complete: until then it has another name.
    connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;")
    for statement in split_statements(SCHEMA.read_text(encoding="utf-8")):
        if not statement.startswith("CREATE INDEX"):
            connection.execute(statement)
    for table, rows in tables(recording):
        columns = connection.execute(f'SELECT * FROM "{table}"').description  # noqa: S608
        placeholders = ", ".join("?" * len(columns))
        connection.executemany(f'INSERT INTO "{table}" VALUES ({placeholders})', rows)  # noqa: S608
    for statement in split_statements(SCHEMA.read_text(encoding="utf-8")):
        if statement.startswith("CREATE INDEX"):  # faster when the rows are there
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def split_statements(script: str) -> Iterator[str]:
    """Return the statements of a script, each with the comments inside it."""
    text = ""
    for line in script.splitlines(keepends=True):
        if text or line.startswith("CREATE"):
            text += line
        if text and sqlite3.complete_statement(text):
            yield text
            text = ""


def connect(path: Path) -> sqlite3.Connection | None:
    """Open a database to read it; ``None`` if there is none of this version: rebuild it.

    Raises ``RunFolderError`` if a later version of gapless made it.
    """
    if not path.is_file():
        return None
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:  # damaged
        version = 0
    if version == VERSION:
        return connection
    connection.close()
    if version > VERSION:
        raise RunFolderError(
            f"{path} has schema {version}; this gapless reads up to {VERSION}. Upgrade gapless "
            "to read it, or delete the file: it is rebuilt from the logs"
        )
    return None
