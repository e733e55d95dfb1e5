"""The runs of a folder: listed, found, deleted."""

import json
import os
import shutil
from pathlib import Path

import pytest

from gapless import wire
from gapless.errors import NotFoundError, RunFolderError
from gapless.store import runs
from gapless.store.recordings import finish
from tests.store import drawing

SECOND = 1_000_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a folder with three runs and some things that are none."""
    place = tmp_path / ".gapless" / "runs"
    for number, name in enumerate(["2026-a1", "2026-a2", "2026-b1"]):
        run = drawing.run(
            place / name,
            {"rank0.log": b"".join(drawing.training())},
            started_unix_ns=(10 + number) * SECOND,
        )
        finish(run)
    (place / "notes").mkdir()
    (place / "file").write_text("")
    (place / "link").symlink_to(place / "2026-a1")
    (place / ".deleted-x" / "logs").mkdir(parents=True)
    (place / ".deleted-x" / "run.json").write_text("{}")
    return place


def test_runs_are_listed_newest_first(place: Path) -> None:
    assert runs.home(place.parents[1]) == place
    listed = runs.listed(place)
    assert [entry.path.name for entry in listed] == ["2026-b1", "2026-a2", "2026-a1"]
    assert listed[0].manifest.status == "finished"
    assert (listed[0].steps, listed[0].step_ns) == (2, 10_000)
    files = [file for file in (place / "2026-b1").rglob("*") if file.is_file()]
    assert listed[0].bytes == sum(file.stat().st_size for file in files) > 50_000


def test_a_folder_without_runs_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runs.home() == tmp_path / ".gapless" / "runs"
    assert runs.listed(runs.home()) == ()
    (tmp_path / "file").write_text("")
    assert runs.listed(tmp_path / "file") == ()


def test_a_folder_that_cannot_be_listed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(NotFoundError, match="Permission denied"):
        runs.listed(tmp_path)


def test_a_list_shows_also_what_cannot_be_read(place: Path) -> None:
    later = drawing.run(place / "later", {}, version=99, started_unix_ns=99 * SECOND)
    (place / "2026-a1" / "run.sqlite").unlink()
    with (place / "2026-a2" / "run.sqlite").open("r+b") as file:
        file.seek(60)
        file.write((99).to_bytes(4))  # user_version
    first, *_, two, one = runs.listed(place)
    assert (first.path, first.steps) == (later, None)
    assert (one.steps, two.steps) == (None, None)


def test_a_run_that_was_killed_is_listed_as_killed(place: Path) -> None:
    drawing.run(place / "z", {}, status="running", started_unix_ns=99 * SECOND, launcher=1 << 30)
    assert runs.listed(place)[0].manifest.status == "killed"


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
    same = [(kind, flags, subject, 1, 2, 3, 4) for kind, flags, subject, *_ in marks]
    second = drawing.process(8, rank=1) + drawing.marks(*same)
    logs = {"rank0.log": drawing.process() + drawing.marks(*marks)}
    run = drawing.run(tmp_path / "r", logs | {"rank1.log": second})
    finish(run)
    entry = runs.entry(run)
    assert (entry.steps, entry.step_ns) == expected


def test_steps_that_were_added_up_are_counted(tmp_path: Path) -> None:
    first = drawing.marks(*(drawing.step(n, 10 * n, 10 * n + 10) for n in range(4)))
    sums = drawing.mark_sums((wire.STEP, 0, 0, 11, 40, 1040, 100, 500, 9, -1))
    other = drawing.mark_sums((wire.NEXT, 0, 0, 11, 40, 1040, 200, 300, 9, -1))
    log = drawing.process() + first + sums + other
    run = drawing.run(tmp_path / "r", {"rank0.log": log})
    finish(run)
    entry = runs.entry(run)
    assert (entry.steps, entry.step_ns) == (104, 10)


def test_a_run_is_found_by_its_beginning_by_last_and_by_path(place: Path) -> None:
    assert runs.find(place, "last").name == "2026-b1"
    assert runs.find(place, "2026-b").name == "2026-b1"
    assert runs.find(place, "2026-a1").name == "2026-a1"
    assert runs.find(place / "elsewhere", str(place / "2026-a2")) == place / "2026-a2"


def test_an_id_that_others_begin_with_is_that_run(place: Path) -> None:
    drawing.run(place / "2026-a", {})
    assert runs.find(place, "2026-a").name == "2026-a"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2026", "'2026' are 3 runs: 2026-b1, 2026-a2, 2026-a1"),
        ("2025", "there is no run '2025' in .*; the newest are: 2026-b1"),
        ("", "there is no run ''"),
        ("../x", "there is no run '../x'"),
        ("notes", "there is no run 'notes'"),
    ],
)
def test_a_name_of_none_or_of_several_is_a_clear_error(place: Path, name: str, said: str) -> None:
    with pytest.raises(NotFoundError, match=said):
        runs.find(place, name)


def test_where_there_are_no_runs_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there are no runs in"):
        runs.find(tmp_path, "last")


def test_a_run_is_deleted_whole(place: Path) -> None:
    size = runs.listed(place)[0].bytes
    assert runs.delete(place / "2026-b1") == size
    assert [entry.path.name for entry in runs.listed(place)] == ["2026-a2", "2026-a1"]
    assert not (place / ".deleted-2026-b1").exists()


def test_only_runs_are_deleted(place: Path) -> None:
    for name in ("notes", "link", "gone"):
        with pytest.raises(RunFolderError, match="is no run folder; nothing was deleted"):
            runs.delete(place / name)
    assert (place / "notes").exists()
    assert (place / "2026-a1").exists()


def test_a_run_that_goes_on_is_deleted_by_force_only(place: Path) -> None:
    running = drawing.run(place / "z", {}, status="running", host="", launcher=os.getpid())
    text = json.loads((running / "run.json").read_text()) | {"started_unix_ns": 1 << 62}
    (running / "run.json").write_text(json.dumps(text))
    with pytest.raises(RunFolderError, match="z goes on; end it first"):
        runs.delete(running)
    assert running.exists()
    runs.delete(running, force=True)
    assert not running.exists()


def test_a_run_that_the_system_keeps_is_a_clear_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(RunFolderError, match="cannot be deleted: Read-only file system"):
        runs.delete(place / "2026-b1")
    assert [entry.path.name for entry in runs.listed(place)] == ["2026-a2", "2026-a1"]


def test_a_file_that_goes_while_it_is_counted_is_no_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "lstat", refuse)
    assert runs.entry(place / "2026-b1").bytes == 0
