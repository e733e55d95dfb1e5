"""Rules of which no kept recording speaks: each speaks of a small training, not of its twin."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spoken import OUTCOMES, codes_by_outcome
from tests.zoo import small_faults


def spoken_codes(folder: Path, *arguments: str) -> set[str]:
    """Record the training and return the codes of the causes that are seen in it."""
    command = ["-m", "gapless", "run", "--quiet", "--out", str(folder), "python"]
    subprocess.run(
        [sys.executable, *command, small_faults.__file__, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    process = subprocess.run(
        [sys.executable, "-m", "gapless", "report", "--json", str(run)],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    outcomes = codes_by_outcome(json.loads(process.stdout))
    return {code for outcome in OUTCOMES[:3] for code in outcomes[outcome]}


@pytest.mark.slow
@pytest.mark.parametrize("code", small_faults.FAULTS)
def test_a_fault_is_seen_and_its_twin_without_it_is_silent(code: str, tmp_path: Path) -> None:
    (tmp_path / "faulty").mkdir()
    (tmp_path / "healthy").mkdir()
    assert code in spoken_codes(tmp_path / "faulty", code)
    assert code not in spoken_codes(tmp_path / "healthy", code, "--healthy")
