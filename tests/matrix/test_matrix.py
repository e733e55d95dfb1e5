"""Every launcher, loop and fate leaves the same behind as it does without gapless, and is seen."""

import subprocess
from pathlib import Path

import pytest

from tests.matrix.comparing import find_differences, find_missing
from tests.matrix.launchers import PYTHON
from tests.matrix.rows import ROWS, Row
from tests.matrix.running import run_both


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name, marks=() if row.ci else (pytest.mark.slow,)) for row in ROWS],
)
def test_nothing_differs_and_all_is_seen(
    row: Row, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if (
        row.needs
        and subprocess.run(
            [PYTHON, "-c", f"import {row.needs}"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip(f"{row.needs} is not installed")
    shared = tmp_path_factory.getbasetemp() / "shared"
    plain, recorded, counts = run_both(row, tmp_path / "1", shared)
    for attempt in range(2, row.tries + 1):
        if find_differences(row, plain, recorded):
            plain, recorded, counts = run_both(row, tmp_path / str(attempt), shared)
    assert find_differences(row, plain, recorded) == []
    assert find_missing(row, counts) == []
    if row.why:
        assert row.why.encode() in recorded.err


def test_there_are_as_many_rows_as_promised_and_each_once() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 40
