"""Spools of these tests lie where the tests do; a folder of which there is a private view."""

from pathlib import Path

import pytest

from gapless.launch import sandbox


@pytest.fixture(autouse=True)
def _spools_beside_the_test(  # pyright: ignore[reportUnusedFunction]
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("spools")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder of which there is a private view."""
    made = tmp_path / "work, with: odd name"
    made.mkdir()
    (made / "model.pt").write_text("precious")
    (made / "old").mkdir()
    (made / "old" / "log").write_text("kept")
    return made


@pytest.fixture
def private(folder: Path) -> Path:
    why = sandbox.available(folder)
    if why is not None:
        pytest.skip(f"no private view on this machine: {why}")
    return folder
