"""Record a planted script with ``gapless check``, and ask gapless what it says of a recording."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.running import Lane, RunError, run
from benchmarks.planted.scripts import Script

_GAPLESS: Final = (sys.executable, "-m", "gapless")
_FINDING_KEYS: Final = (
    "code",
    "name",
    "summary",
    "speedup",
    "share",
    "unpredicted",
    "at_most",
    "odds",
)
_ASKING_S: Final = 120.0
_AROUND_CHECK_S: Final = 40.0  # to start and end it


def record(script: Script, root: Path, lane: Lane, target: Path, seconds: float) -> None:
    """Check a script and pack what was recorded. Raises ``RunError``."""
    runs = lane.folder / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    check(script, root, lane, runs, seconds)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # an archive that is there is not overwritten
    pack = [*_GAPLESS, "runs", "--in", str(runs), "pack", "last", "-o", str(target)]
    printed = run(pack, lane.folder, (lane.environment(script, root), lane.cores), _ASKING_S)
    shutil.rmtree(runs, ignore_errors=True)
    if not target.exists():
        raise RunError(f"the recording was not packed: {printed}")


def check(script: Script, root: Path, lane: Lane, runs: Path, seconds: float) -> None:
    """Check a script for some seconds, into a folder. Raises ``RunError``."""
    command = [*_GAPLESS, "check", "--quiet", "--out", str(runs), "--seconds", f"{seconds:.0f}"]
    command += [sys.executable, *script.command(lane.device)]
    placement = lane.environment(script, root), lane.cores
    with lane.exclusive:
        printed = run(command, root / script.cwd, placement, seconds + _AROUND_CHECK_S)
    if not runs.exists() or not any(runs.iterdir()):
        raise RunError(f"nothing was recorded: {printed}")
    if not any(runs.glob("*/windows/*")):
        raise RunError(f"no window was recorded: {printed}")


def ask(recording: Path) -> dict[str, Any]:
    """Return what gapless says of a packed recording: its findings, what it would try, its step.

    ``refused`` holds the end of what it printed where it could not report.
    """
    with tempfile.TemporaryDirectory(prefix="gapless-planted-") as folder:
        for words in (
            ["runs", "--in", folder, "unpack", str(recording)],
            ["report", "--in", folder, "--json", "--no-cache", "last"],
        ):
            try:
                process = subprocess.run(
                    [*_GAPLESS, *words],
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    check=False,
                    timeout=_ASKING_S,
                )
            except subprocess.TimeoutExpired:
                return {"refused": f"gapless {words[0]} took more than {_ASKING_S:.0f} s"}
            if process.returncode:
                return {"refused": (process.stdout + process.stderr)[-600:]}
    return extract_answer(json.loads(process.stdout))


def extract_answer(report: Mapping[str, Any]) -> dict[str, Any]:
    """Take out of a report what is judged."""
    return {
        "findings": [_finding(row) for row in report.get("findings") or ()],
        "to_try": [_finding(row) for row in report.get("to_try") or ()],
        "outlook": report.get("outlook"),
        "rehearsal": (report.get("rehearsal") or {}).get("refused"),
        "steps": (report.get("step_account") or {}).get("steps"),
    }


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    location = row.get("where")
    short_location = None
    if location is not None:
        short_location = {"file": Path(location["file"]).name, "line": location["line"]}
    helps = row.get("helps") or row.get("fixes") or ()
    fields = {name: row.get(name) for name in _FINDING_KEYS}
    return fields | {"where": short_location, "helps": [_fix(fix) for fix in helps]}


def _fix(request: str) -> str:
    """Return the name of a fix; no workers is another fix than more workers."""
    name, _, value = request.partition("=")
    return "no-workers" if name.partition("@")[0] == "more-workers" and value == "0" else name
