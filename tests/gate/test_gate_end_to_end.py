"""A whole gate, on a repository of its own: slow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "benchmarks/trainings/gated.py").read_text(encoding="utf-8")
MARK = "# what is planted in the loader stands here"


@pytest.mark.slow
def test_a_slow_loader_is_red_with_its_leaf(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    identity = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "training")):
        subprocess.run(("git", *words), cwd=tmp_path, check=True)  # noqa: S607 - as users start it
    (tmp_path / "train.py").write_text(SOURCE.replace(MARK, "time.sleep(0.008)"))
    command = (sys.executable, "-m", "gapless", "gate", "--against", "git:HEAD", "--json")
    process = subprocess.run(
        (*command, "--arm", "1", "--target", "99", "--", sys.executable, "train.py"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    verdict = json.loads(process.stdout)
    assert verdict["grown"][0]["group"] == "data"
    assert verdict["line"]["function"].endswith("__getitem__")
