"""Run pytest and demand that every branch of some rooms is taken: ``python -m tools.cover [ARGS]``.

The rooms are those whose code is pure functions on values, so that a test can reach all of it. The
others are only reported, by ``pytest --cov``.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOMS: Final = ("model", "accounting", "capture", "recorded", "pricing", "study", "store")


def shortfalls(report: dict[str, Any]) -> list[str]:
    """Name each file of the demanded rooms that is not fully covered, with the lines missing."""
    gaps: list[str] = []
    for path, file in sorted(report["files"].items()):
        room = Path(path).parts[Path(path).parts.index("gapless") + 1]
        if room not in ROOMS:
            continue
        lines = ", ".join(str(line) for line in file["missing_lines"])
        branches = ", ".join(f"{a}→{b}" for a, b in file["missing_branches"])
        if lines or branches:
            gaps.append(f"{path}: lines {lines or 'all run'}; branches {branches or 'all taken'}")
    return gaps


def main() -> int:
    """Return pytest's exit code, or 1 where the rooms are not fully covered."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "coverage.json"
        reports = (f"--cov-report=json:{target}", "--cov=gapless", "--cov-branch")
        process = subprocess.run(
            [sys.executable, "-m", "pytest", *reports, *sys.argv[1:]], check=False
        )
        if process.returncode or not target.exists():
            return process.returncode or 1
        uncovered = shortfalls(json.loads(target.read_text()))
    if uncovered:
        sys.stderr.write("not covered:\n  " + "\n  ".join(uncovered) + "\n")
    return 1 if uncovered else 0


if __name__ == "__main__":
    sys.exit(main())
