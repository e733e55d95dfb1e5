"""A patched training records what the same training does under the overlay."""

from pathlib import Path

import pytest

from benchmarks.patching.comparing import compare
from benchmarks.patching.shapes import SHAPES

SHOWN = (
    "four arguments in lines",
    "a function with a default",
    "an optimizer with the flag",
    "two settings",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_the_facts_are_the_same(name: str, tmp_path: Path) -> None:
    (shape,) = (shape for shape in SHAPES if shape.name == name)
    row = compare(shape, tmp_path, {})
    assert (row["written"], row.get("runs"), row.get("same")) == (True, True, True), row


def test_what_is_refused_is_not_run(tmp_path: Path) -> None:
    (shape,) = (shape for shape in SHAPES if shape.name == "the environment")
    row = compare(shape, tmp_path, {})
    assert row["written"] is False
    assert "environment" in str(row["reason"])
    assert not [*tmp_path.iterdir()]
