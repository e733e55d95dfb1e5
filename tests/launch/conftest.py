"""Spools of these tests lie where the tests do."""

import pytest


@pytest.fixture(autouse=True)
def _spools_beside_the_test(  # pyright: ignore[reportUnusedFunction]
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("spools")))
