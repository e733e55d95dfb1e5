"""Spools of these tests lie where the tests do; a folder of which there is a private view."""

from pathlib import Path

import pytest

from gapless.launch.trial import sandbox


@pytest.fixture(autouse=True)
def _spools_in_the_test_folder(  # pyright: ignore[reportUnusedFunction]
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("spools")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder of which there is a private view."""
    work = tmp_path / "work, with: odd name"
    work.mkdir()
    (work / "model.pt").write_text("precious")
    (work / "old").mkdir()
    (work / "old" / "log").write_text("kept")
    return work


@pytest.fixture
def workdir(folder: Path) -> Path:
    why = sandbox.explain_unavailable(folder)
    if why is not None:
        pytest.skip(f"no private view on this machine: {why}")
    return folder
