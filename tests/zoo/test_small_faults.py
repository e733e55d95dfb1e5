"""Rules of which no kept recording speaks: each speaks of a small training, not of its twin."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spoken import OUTCOMES, codes_by_outcome
from tests.zoo import small_faults


def spoken_codes(folder: Path, code: str, *arguments: str) -> set[str]:
    """Record the training of a fault and return the codes of the causes that are seen in it."""
    folder.mkdir()
    n_ranks = small_faults.RANKS.get(code)
    starter = (
        ["python"]
        if n_ranks is None
        else ["torchrun", "--standalone", "--nproc-per-node", str(n_ranks)]
    )
    training = [*starter, small_faults.__file__, code, *arguments]
    run_gapless(folder, "run", "--quiet", "--out", str(folder), *training)
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    outcomes = codes_by_outcome(json.loads(run_gapless(folder, "report", "--json", str(run))))
    return {code for outcome in OUTCOMES[:3] for code in outcomes[outcome]}


def run_gapless(folder: Path, *arguments: str) -> bytes:
    command = [sys.executable, "-m", "gapless", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout


def assert_only_the_fault_is_seen(folder: Path, code: str, *arguments: str) -> None:
    assert code in spoken_codes(folder / "faulty", code, *arguments)
    assert code not in spoken_codes(folder / "healthy", code, "--healthy", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("code", small_faults.FAULTS)
def test_a_fault_is_seen_and_its_twin_without_it_is_silent(code: str, tmp_path: Path) -> None:
    assert_only_the_fault_is_seen(tmp_path, code)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("code", small_faults.DEVICE_FAULTS)
def test_a_fault_on_a_gpu_is_seen_and_its_twin_is_silent(code: str, tmp_path: Path) -> None:
    assert_only_the_fault_is_seen(tmp_path, code, "--device", "cuda")
