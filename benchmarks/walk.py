"""Walk from a clone to a proven fix in the source, and keep what each part took.

``PYTHONPATH=src python -m benchmarks.walk OUT.json``: clones this checkout (its last commit), makes
an environment for gapless, and goes through check, try and fix, as docs/start.md says, with
``trainings/photos.py``, which this interpreter trains. Some five minutes on two processors; a trial
decides nothing on a machine that others use.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

_ROOT: Final = Path(__file__).parents[1]
_TRAINING: Final = _ROOT / "benchmarks" / "trainings" / "photos.py"
_LIMIT_S: Final = 600
_AUTHOR: Final = ("-c", "user.name=walker", "-c", "user.email=walker@example.org")


def main() -> None:
    """Walk, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="gapless-walk-") as folder:
        result = walk(Path(folder))
    print(write_result(result, out))


def walk(folder: Path) -> dict[str, Any]:
    """Return the seconds and the exit code of each part, and what was proven."""
    clone, environment, project = folder / "clone", folder / "gapless", folder / "project"
    project.mkdir()
    (project / "train.py").write_text(_TRAINING.read_text())
    bin_folder = _link_commands(folder, environment)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    } | {"PATH": f"{bin_folder}:/usr/bin:/bin", "NO_COLOR": "1"}
    parts: list[dict[str, Any]] = []

    def do(words: Sequence[str], place: Path) -> str:
        printed, part = _run(words, place, variables)
        parts.append(part)
        return printed

    do(["git", "clone", "--quiet", str(_ROOT), str(clone)], folder)
    do([sys.executable, "-m", "venv", str(environment)], folder)
    do([str(environment / "bin" / "pip"), "install", "--quiet", "."], clone)
    for words in (
        ["init", "--quiet"],
        ["add", "train.py"],
        [*_AUTHOR, "commit", "--quiet", "-m", "It"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True)  # noqa: S607 - the user's
    do(["gapless", "check", "python", "train.py"], project)
    tried = do(["gapless", "try", "--json"], project)
    do(["gapless", "fix", "--apply"], project)
    diff = _compare(project)
    do(["gapless", "fix", "--undo"], project)
    return {
        "machine": machine() | {"torch": _version_of_torch(), "system": platform.system()},
        "parts": parts,
        "seconds": round(sum(part["seconds"] for part in parts), 1),
        "trials": _keep_trials(tried),
        "changed_lines": diff,
        "restored": not _compare(project),
    }


def _link_commands(folder: Path, environment: Path) -> Path:
    """Return a folder with the ``python`` that trains, and the ``gapless`` of an environment."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, target in (("python", sys.executable), ("gapless", environment / "bin" / "gapless")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
        (bin_folder / name).chmod(0o755)
    return bin_folder


def _run(
    words: Sequence[str], place: Path, variables: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    start_s = time.monotonic()
    process = subprocess.run(
        words,
        cwd=place,
        env=variables,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    seconds = round(time.monotonic() - start_s, 1)
    command = " ".join([Path(words[0]).name, *(word for word in words[1:] if "/" not in word)])
    print(f"{seconds:7.1f} s  {command}  ({process.returncode})", file=sys.stderr)
    return process.stdout, {"command": command, "seconds": seconds, "code": process.returncode}


def _keep_trials(printed: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(printed)["trials"]
    except (ValueError, KeyError):
        return []
    return [
        {name: row.get(name) for name in ("verdict", "speedup", "arms")}
        | {"edits": [[edit["target"], edit.get("value")] for edit in row["edits"]]}
        for row in rows
    ]


def _compare(project: Path) -> list[str]:
    """Return the lines of the training that were taken out or put in."""
    old, new = (path.read_text().splitlines() for path in (_TRAINING, project / "train.py"))
    return [f"-{line}" for line in old if line not in new] + [
        f"+{line}" for line in new if line not in old
    ]


def _version_of_torch() -> str:
    words = [sys.executable, "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
