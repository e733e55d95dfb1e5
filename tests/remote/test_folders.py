"""Runs of several machines, brought to one place and reported from there."""

# ruff: noqa: ANN401  fsspec has no types

import os
from pathlib import Path
from typing import Any

import pytest

from gapless import cli
from gapless.errors import GaplessError
from gapless.remote.folders import fetch_copy, fetch_folder, upload_folder
from tests.remote.test_files import memory
from tests.study.test_nodes import write_node

__all__ = ["memory"]


def test_nodes_are_gathered_and_reported_as_one(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        folder = write_node(tmp_path / f"node{number}" / "run", number)
        url = upload_folder(folder, "memory://job/", f"run-box{number}")
        assert url == f"memory://job/run-box{number}"
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", "memory://job", "--json", "--no-cache"]) == 0
    assert '"ranks":[0,1]' in capsys.readouterr().out
    monkeypatch.setattr(memory, "open", None)  # what is here is not fetched again
    fetch_folder("memory://job", next((tmp_path / ".gapless/gathered").iterdir()))


def test_copies_that_nobody_asks_for_are_removed(memory: Any, tmp_path: Path) -> None:
    for name in ("old", "new"):
        memory.pipe(f"/{name}/run/run.json", b"x")
    (tmp_path / "mine").mkdir()
    old_copy, new_copy = (fetch_copy(f"memory://{name}", tmp_path) for name in ("old", "new"))
    os.utime(new_copy, (0, 0))
    assert fetch_copy("memory://new", tmp_path).is_dir()  # asked for again
    for folder in (old_copy, tmp_path / "mine"):
        os.utime(folder, (0, 0))
    fetch_copy("memory://new", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([new_copy, tmp_path / "mine"])


def test_only_runs_are_fetched_and_nothing_is_written_elsewhere(
    memory: Any, tmp_path: Path
) -> None:
    for name in ("run/run.json", "run/logs/1.log", "run/../../../out", "model.pt"):
        memory.pipe(f"/job/{name}", b"x")
    fetch_folder("memory://job", tmp_path / "a/b")
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert files == {"a/b/run/run.json", "a/b/run/logs/1.log"}


def test_the_manifest_is_copied_last(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.log", "run.json", "windows"):
        (tmp_path / name).touch()
    put: list[str] = []

    def put_file(_: object, source: str, target: str) -> None:
        put.append(Path(source).name if target else "")

    monkeypatch.setattr(memory.__class__, "put_file", put_file)
    upload_folder(tmp_path, "memory://job", "run")
    assert put == ["a.log", "windows", "run.json"]


def test_a_place_without_runs_is_refused(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/job/run.json", b"{}")
    with pytest.raises(GaplessError, match=r"memory://job/run\.json: is a file"):
        fetch_folder("memory://job/run.json", tmp_path)
    with pytest.raises(GaplessError, match="no such file or folder"):
        fetch_folder("memory://none", tmp_path)
    memory.pipe("/none/model.pt", b"x")
    with pytest.raises(GaplessError, match="no run there"):
        fetch_folder("memory://none", tmp_path)
