"""Fixtures of packing."""

import pytest

from tests.pack.in_process import work_in_process


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers be threads."""
    work_in_process(monkeypatch)
