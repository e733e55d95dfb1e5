"""Of the environment only what bears on speed is written down, and no path of the user's."""

import pytest

from gapless.payload.hooks import precision


def test_of_preloaded_libraries_the_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/scratch/somebody/libjemalloc.so.2:/opt/libother.so")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    environment = precision.environment()
    assert environment["LD_PRELOAD"] == "libjemalloc.so.2:libother.so"
    assert "SECRET_TOKEN" not in environment
