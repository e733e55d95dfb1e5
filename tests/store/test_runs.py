"""The runs of a folder: listed, found, deleted."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from gapless import wire
from gapless.errors import NotFoundError, RunFolderError
from gapless.store.run import runs
from gapless.store.run.recordings import finish
from tests.store import drawing

SECOND = 1_000_000_000


@pytest.fixture
def runs_folder(tmp_path: Path) -> Path:
    """Return a folder with three runs and some things that are none."""
    runs_folder = tmp_path / ".gapless" / "runs"
    for number, name in enumerate(["2026-a1", "2026-a2", "2026-b1"]):
        run = drawing.write_run(
            runs_folder / name,
            {"rank0.log": b"".join(drawing.training())},
            started_unix_ns=(10 + number) * SECOND,
        )
        finish(run)
    (runs_folder / "notes").mkdir()
    (runs_folder / "file").write_text("")
    (runs_folder / "link").symlink_to(runs_folder / "2026-a1")
    (runs_folder / ".deleted-x" / "logs").mkdir(parents=True)
    (runs_folder / ".deleted-x" / "run.json").write_text("{}")
    return runs_folder


def test_runs_are_listed_newest_first(runs_folder: Path) -> None:
    assert runs.home(runs_folder.parents[1]) == runs_folder
    entries = runs.list_runs(runs_folder)
    assert [entry.path.name for entry in entries] == ["2026-b1", "2026-a2", "2026-a1"]
    assert entries[0].manifest.status == "finished"
    assert (entries[0].steps, entries[0].step_ns) == (2, 10_000)
    files = [file for file in (runs_folder / "2026-b1").rglob("*") if file.is_file()]
    assert entries[0].bytes == sum(file.stat().st_size for file in files) > 50_000


def test_a_folder_without_runs_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runs.home() == tmp_path / ".gapless" / "runs"
    assert runs.list_runs(runs.home()) == ()
    (tmp_path / "file").write_text("")
    assert runs.list_runs(tmp_path / "file") == ()


def test_a_folder_that_cannot_be_listed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(NotFoundError, match="Permission denied"):
        runs.list_runs(tmp_path)


def test_a_list_shows_also_what_cannot_be_read(runs_folder: Path) -> None:
    later_run = drawing.write_run(
        runs_folder / "later", {}, version=99, started_unix_ns=99 * SECOND
    )
    (runs_folder / "2026-a1" / "run.sqlite").unlink()
    with (runs_folder / "2026-a2" / "run.sqlite").open("r+b") as file:
        file.seek(60)
        file.write((99).to_bytes(4))  # user_version
    newest_entry, *_, second_entry, oldest_entry = runs.list_runs(runs_folder)
    assert (newest_entry.path, newest_entry.steps) == (later_run, None)
    assert (oldest_entry.steps, second_entry.steps) == (None, None)


def test_a_run_that_was_killed_is_listed_as_killed(runs_folder: Path) -> None:
    drawing.write_run(
        runs_folder / "z", {}, status="running", started_unix_ns=99 * SECOND, launcher=1 << 30
    )
    assert runs.list_runs(runs_folder)[0].manifest.status == "killed"


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], (None, None)),
        ([drawing.step(0, 5, 9)], (1, None)),
        ([drawing.step(n, n * 10, n * 10 + 5) for n in range(4)], (4, 10)),
        # Two optimizers: the one that is called less makes the step; one called once makes none.
        (
            [drawing.step(n, n * 10, n * 10 + 5, subject=1) for n in range(20)]
            + [drawing.step(n, n * 40, n * 40 + 5, subject=2) for n in range(5)]
            + [drawing.step(0, 1, 2, subject=3)],
            (5, 40),
        ),
        # No optimizer: batches; the last call of an iteration gives none.
        (
            [(wire.NEXT, 0, 0, 1, n * 10, n * 10 + 1, n) for n in range(6)]
            + [(wire.NEXT, wire.EXHAUSTED, 0, 1, 90, 99, 6)],
            (6, 10),
        ),
    ],
)
def test_steps_are_counted_by_what_makes_them(
    tmp_path: Path, marks: list[tuple[int, ...]], expected: tuple[int | None, int | None]
) -> None:
    second_marks = [(kind, flags, subject, 1, 2, 3, 4) for kind, flags, subject, *_ in marks]
    second_log = drawing.process(8, rank=1) + drawing.marks(*second_marks)
    logs = {"rank0.log": drawing.process() + drawing.marks(*marks)}
    run = drawing.write_run(tmp_path / "r", logs | {"rank1.log": second_log})
    finish(run)
    entry = runs.run_entry(run)
    assert (entry.steps, entry.step_ns) == expected


def test_steps_that_were_added_up_are_counted(tmp_path: Path) -> None:
    first_marks = drawing.marks(*(drawing.step(n, 10 * n, 10 * n + 10) for n in range(4)))
    sums = drawing.mark_sums((wire.STEP, 0, 0, 11, 40, 1040, 100, 500, 9, -1))
    next_sums = drawing.mark_sums((wire.NEXT, 0, 0, 11, 40, 1040, 200, 300, 9, -1))
    log = drawing.process() + first_marks + sums + next_sums
    run = drawing.write_run(tmp_path / "r", {"rank0.log": log})
    finish(run)
    entry = runs.run_entry(run)
    assert (entry.steps, entry.step_ns) == (104, 10)


def test_a_run_is_found_by_its_beginning_by_last_and_by_path(runs_folder: Path) -> None:
    assert runs.find(runs_folder, "last").name == "2026-b1"
    assert runs.find(runs_folder, "2026-b").name == "2026-b1"
    assert runs.find(runs_folder, "2026-a1").name == "2026-a1"
    assert (
        runs.find(runs_folder / "elsewhere", str(runs_folder / "2026-a2"))
        == runs_folder / "2026-a2"
    )


def test_an_id_that_others_begin_with_is_that_run(runs_folder: Path) -> None:
    drawing.write_run(runs_folder / "2026-a", {})
    assert runs.find(runs_folder, "2026-a").name == "2026-a"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2026", "'2026' are 3 runs: 2026-b1, 2026-a2, 2026-a1"),
        ("2025", "there is no run '2025' in .*; the newest are: 2026-b1"),
        ("", "there is no run ''"),
        ("../x", "there is no run '../x'"),
        ("notes", "there is no run 'notes'"),
    ],
)
def test_a_name_of_none_or_of_several_is_a_clear_error(
    runs_folder: Path, name: str, message: str
) -> None:
    with pytest.raises(NotFoundError, match=message):
        runs.find(runs_folder, name)


@pytest.mark.parametrize("inner", [runs.HOME, Path(runs.HOME.name)])
def test_runs_are_found_in_the_folder_around_theirs(
    runs_folder: Path, tmp_path: Path, inner: Path
) -> None:
    project = tmp_path / "project"
    (project / inner).parent.mkdir(parents=True)
    runs_folder.rename(project / inner)
    assert runs.find(project, "last").name == "2026-b1"


def test_of_a_file_it_is_said_what_reads_traces(tmp_path: Path) -> None:
    (tmp_path / "trace.json").touch()
    with pytest.raises(NotFoundError, match="gapless open reads traces"):
        runs.find(tmp_path, str(tmp_path / "trace.json"))


def test_where_there_are_no_runs_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there are no runs in"):
        runs.find(tmp_path, "last")


def test_a_run_is_deleted_whole(runs_folder: Path) -> None:
    size = runs.list_runs(runs_folder)[0].bytes
    assert runs.delete(runs_folder / "2026-b1") == size
    assert [entry.path.name for entry in runs.list_runs(runs_folder)] == ["2026-a2", "2026-a1"]
    assert not (runs_folder / ".deleted-2026-b1").exists()


def test_only_runs_are_deleted(runs_folder: Path) -> None:
    for name in ("notes", "link", "gone"):
        with pytest.raises(RunFolderError, match="is not a run folder; nothing was deleted"):
            runs.delete(runs_folder / name)
    assert (runs_folder / "notes").exists()
    assert (runs_folder / "2026-a1").exists()


def test_a_run_that_goes_on_is_deleted_by_force_only(runs_folder: Path) -> None:
    running_run = drawing.write_run(
        runs_folder / "z", {}, status="running", host="", launcher=os.getpid()
    )
    text = json.loads((running_run / "run.json").read_text()) | {"started_unix_ns": 1 << 62}
    (running_run / "run.json").write_text(json.dumps(text))
    with pytest.raises(RunFolderError, match="z goes on; end it first"):
        runs.delete(running_run)
    assert running_run.exists()
    runs.delete(running_run, force=True)
    assert not running_run.exists()


def test_a_run_that_the_system_keeps_is_a_clear_error(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(RunFolderError, match="cannot be deleted: Read-only file system"):
        runs.delete(runs_folder / "2026-b1")
    assert [entry.path.name for entry in runs.list_runs(runs_folder)] == ["2026-a2", "2026-a1"]


def test_a_file_that_goes_while_it_is_counted_is_no_error(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "lstat", refuse)
    assert runs.run_entry(runs_folder / "2026-b1").bytes == 0


def test_a_run_that_may_not_be_looked_at_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("2026-a", "2026-b"):
        drawing.write_run(tmp_path / name, {})

    def look(folder: Path) -> bool:
        if folder.name == "2026-b":
            raise PermissionError(errno.EACCES, "Permission denied")
        return True

    monkeypatch.setattr(runs, "is_run", look)
    assert [entry.path.name for entry in runs.list_runs(tmp_path)] == ["2026-a"]
