"""run.sqlite: the recording as tables, to the last record."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Recording
from gapless.store.run import database, rows
from gapless.store.run.recordings import load
from tests.store import drawing

WORKER = [
    drawing.process(8, "worker", worker=1, loader=0),
    drawing.batches(*[drawing.batch(n, n + 10, cpu=5, run_queue=1, samples=4) for n in range(30)]),
]
SUMS = [
    drawing.mark_sums((wire.STEP, 0, 0, 11, 30, 90, 5, 50, 11, -1)),
    drawing.marks(drawing.step(7, 90, 95), drawing.step(8, 97, 99)),
    drawing.batch_sums(drawing.batch_sum(30, 90, cpu=8, worker=-1)),
]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Return a recording with a row in every table."""
    logs = {
        "rank0.log": b"".join([*drawing.training(), *drawing.training(9), *SUMS]),
        "rank0-worker1.log": b"".join(WORKER) + b"rubbish" + WORKER[1],
        "samples.log": drawing.sample(5, a=1, b=2.5)
        + drawing.sample(6, a=3)
        + wire.text_frame(wire.UNOBSERVED, {"what": "gpu", "why": "no NVML"}),
    }
    return load(drawing.write_run(tmp_path / "r", logs))


@pytest.fixture
def connection(recording: Recording, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Return its database, open."""
    assert database.write_database(recording, tmp_path / "run.sqlite") is None
    connection = database.connect(tmp_path / "run.sqlite")
    assert connection is not None
    with closing(connection):
        yield connection


def fetch_value(connection: sqlite3.Connection, query: str) -> Any:  # noqa: ANN401  as SQLite has it
    (row,) = connection.execute(query).fetchall()
    return row[0] if len(row) == 1 else row


def test_counts_and_sums_are_the_recordings(
    connection: sqlite3.Connection, recording: Recording
) -> None:
    processes = recording.processes
    assert fetch_value(connection, "SELECT count(*) FROM process") == len(processes) == 3
    for field, column in [("start", "start_ns"), ("end", "end_ns"), ("kind", "kind")]:
        expected = sum(int(getattr(process.marks, field).sum()) for process in processes)
        assert fetch_value(connection, f"SELECT sum({column}) FROM mark") == expected  # noqa: S608
    assert fetch_value(connection, "SELECT count(*), sum(cpu_ns), sum(samples) FROM batch") == (
        sum(len(process.batches) for process in processes),
        sum(int(process.batches.columns["cpu"].sum()) for process in processes),
        sum(int(process.batches.columns["samples"].sum()) for process in processes),
    )
    assert fetch_value(connection, "SELECT count(*), sum(opened) FROM file") == (
        sum(len({*process.read, *process.written}) for process in processes),
        sum(sum(process.read.values()) for process in processes),
    )
    assert fetch_value(connection, "SELECT sum(count) FROM stack") == 6
    assert fetch_value(connection, "SELECT count(*), sum(value) FROM sample") == (3, 6.5)
    nouns = "SELECT (SELECT count(*) FROM fact) + (SELECT count(*) FROM site)"
    assert fetch_value(connection, nouns) == sum(len(process.facts) for process in processes)
    assert fetch_value(connection, "SELECT count(*) FROM unseen WHERE process IS NULL") == 2
    for table in ("run", "window", "counter", "mark_kind"):
        assert fetch_value(connection, f'SELECT count(*) FROM "{table}"') > 0  # noqa: S608


def test_what_was_not_observed_is_null(connection: sqlite3.Connection) -> None:
    assert (
        fetch_value(connection, "SELECT count(*) FROM mark WHERE subject IS NULL") == 2
    )  # collections
    assert fetch_value(connection, f"SELECT count(*) FROM mark WHERE subject = {wire.NOBODY}") == 0  # noqa: S608
    assert fetch_value(connection, "SELECT DISTINCT read_wall_ns FROM batch") is None
    assert fetch_value(connection, "SELECT count(*) FROM batch WHERE worker IS NULL") == 2


def test_the_columns_of_batches_are_the_wires(connection: sqlite3.Connection) -> None:
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(batch)")]
    plain_names = [re.sub(r"_ns$", "", name) for name in columns]
    assert plain_names == ["process", *wire.BATCH_FIELDS]
    kinds = connection.execute("SELECT name FROM mark_kind ORDER BY kind").fetchall()
    assert [name for (name,) in kinds] == list(wire.MARKS_NAMES)


def test_views_speak_in_names_and_milliseconds(connection: sqlite3.Connection) -> None:
    steps = connection.execute(
        "SELECT number, call_ms, step_ms FROM steps WHERE process = 2"
    ).fetchall()
    assert steps == [(1, 0.001, None), (2, 0.001, 0.01)]
    waits = "SELECT loader, file, line, position, wait_ms, exhausted FROM waits WHERE process = 2"
    assert fetch_value(connection, waits) == (0, "train.py", 10, 0, 0.008, 0)
    names = connection.execute("SELECT name FROM events WHERE process = 2").fetchall()
    assert [name for (name,) in names] == ["collector", "step", "next", "step"]
    blocked = (
        "SELECT DISTINCT wall_ms, cpu_ms, run_queue_ms, blocked_ms FROM fetches WHERE worker = 0"
    )
    assert fetch_value(connection, blocked) == (1e-5, 5e-6, 1e-6, 4e-6)


def test_what_was_added_up_is_in_tables_of_its_own(connection: sqlite3.Connection) -> None:
    (row,) = connection.execute("SELECT * FROM mark_sum").fetchall()
    assert row == (3, wire.STEP, 0, 0, 11, 30, 90, 5, 50, 11, None)
    query = "SELECT process, worker, start_ns, end_ns, count, cpu_ns, samples FROM batch_sum"
    assert fetch_value(connection, query) == (3, None, 30, 90, 9, 8, None)
    totals = "SELECT count, kept FROM totals WHERE process = 3 AND name = 'step'"
    assert fetch_value(connection, totals) == (9, 4)


def test_a_step_after_steps_that_were_added_up_has_no_length(
    connection: sqlite3.Connection,
) -> None:
    steps = connection.execute("SELECT number, step_ms FROM steps WHERE process = 3").fetchall()
    assert sorted(steps) == [(1, None), (2, 0.01), (8, None), (9, 4e-6)]


def test_every_table_is_strict_and_every_view_answers(connection: sqlite3.Connection) -> None:
    objects = connection.execute("PRAGMA table_list").fetchall()
    own_objects = [row for row in objects if row[0] == "main" and not row[1].startswith("sqlite_")]
    tables = {name: strict for _, name, kind, _, _, strict in own_objects if kind == "table"}
    assert len(tables) == 15
    assert set(tables.values()) == {1}
    views = [name for _, name, kind, *_ in objects if kind == "view"]
    assert sorted(views) == ["events", "fetches", "steps", "totals", "waits"]
    for view in views:
        assert connection.execute(f"SELECT * FROM {view}").fetchall()  # noqa: S608


def test_comments_are_kept_for_who_asks_for_the_schema(connection: sqlite3.Connection) -> None:
    text = fetch_value(connection, "SELECT sql FROM sqlite_master WHERE name = 'batch'")
    assert "ready, waiting for a processor" in text


def test_strange_texts_and_numbers_are_stored(tmp_path: Path) -> None:
    log = b"".join(
        [
            drawing.process(argv=["\udcff.py", "é"], versions={"python": "\ud800"}),
            drawing.fact("x", 1, lr=float("nan"), big=1 << 80, deep={"a": [float("-inf")]}),
            wire.text_frame(wire.FILES, {"read": {"\udcfe.jpg": 1 << 70, "日本": 2, "a\0b": 1}}),
            wire.text_frame(wire.STACKS, {"thread": "t", "stacks": [[1, []]]}),
            wire.text_frame(
                wire.COUNTERS, {"ns": 5, "device": "x", "a": 1 << 80, "b": "c", "d": 1}
            ),
            wire.text_frame(wire.COUNTERS, {"a": 1}),
        ]
    )
    recording = load(drawing.write_run(tmp_path / "r", {"rank0.log": log}))
    assert database.write_database(recording, tmp_path / "run.sqlite") is None
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as connection:
        paths = {path for (path,) in connection.execute("SELECT path FROM file")}
        assert paths == {"\\udcfe.jpg", "日本", "a\0b"}
        settings = json.loads(fetch_value(connection, 'SELECT "values" FROM fact'))
        assert settings == {"lr": "NaN", "big": 1 << 80, "deep": {"a": ["-Infinity"]}}
        assert fetch_value(connection, "SELECT json_extract(\"values\", '$.lr') FROM fact") == "NaN"
        assert fetch_value(connection, "SELECT file, frames FROM stack") == (None, "[]")
        assert fetch_value(connection, "SELECT ns, device, name, value FROM counter") == (
            5,
            None,
            "d",
            1.0,
        )


def test_a_recording_without_processes_is_stored(tmp_path: Path) -> None:
    recording = load(drawing.write_run(tmp_path / "r", {}))
    assert database.write_database(recording, tmp_path / "run.sqlite") is None
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as connection:
        assert fetch_value(connection, "SELECT count(*) FROM mark") == 0
        assert fetch_value(connection, "SELECT id, status, exit_code FROM run") == (
            "r",
            "finished",
            0,
        )


def test_records_beyond_one_portion_are_stored(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_CHUNK_RECORDS", 7)
    assert database.write_database(recording, tmp_path / "b.sqlite") is None
    with closing(sqlite3.connect(tmp_path / "b.sqlite")) as connection:
        assert fetch_value(connection, "SELECT count(*) FROM batch") == 62


def test_what_is_derived_again_replaces_the_first(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    assert [database.write_database(recording, path) for _ in range(2)] == [None, None]
    with closing(sqlite3.connect(path)) as connection:
        assert fetch_value(connection, "SELECT count(*) FROM process") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "run.sqlite"]


def test_a_folder_that_cannot_be_written_is_told_not_raised(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = database.write_database(recording, tmp_path / "gone" / "run.sqlite")
    assert why is not None
    assert "unable to open database file" in why

    def refuse(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(Path, "replace", refuse)
    why = database.write_database(recording, tmp_path / "run.sqlite")
    assert why == f"{tmp_path}: Read-only file system"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_database_of_a_later_version_is_refused_with_both_numbers(
    recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    database.write_database(recording, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(RunFolderError, match="has schema 99; this gapless reads up to 2"):
        database.connect(path)


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 99])
def test_what_is_no_database_of_ours_is_to_be_made_anew(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "run.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert database.connect(path) is None


def test_a_database_of_many_marks_is_made_in_seconds(tmp_path: Path) -> None:
    """A million marks take five seconds at most; this is a tenth."""
    mark_frame = drawing.marks(*[drawing.step(n, n, n + 1) for n in range(1_000)])
    recording = load(
        drawing.write_run(tmp_path / "r", {"rank0.log": drawing.process() + mark_frame * 100})
    )
    start_s = time.process_time()
    assert database.write_database(recording, tmp_path / "run.sqlite") is None
    assert time.process_time() - start_s < 2
