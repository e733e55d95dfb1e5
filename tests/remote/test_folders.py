"""Runs of several machines, brought to one place and reported from there."""

# ruff: noqa: ANN401  fsspec has no types

from pathlib import Path
from typing import Any

import pytest

from gapless import cli
from gapless.errors import GaplessError
from gapless.remote.folders import fetch_folder, upload_folder
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


def test_a_place_without_runs_is_refused(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/job/run.json", b"{}")
    with pytest.raises(GaplessError, match=r"memory://job/run\.json: is a file"):
        fetch_folder("memory://job/run.json", tmp_path)
    with pytest.raises(GaplessError, match="no such file or folder"):
        fetch_folder("memory://none", tmp_path)
