"""Record a planted script with ``gapless check``, and ask gapless what it says of a recording."""

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.running import Lane, RunError, run
from benchmarks.planted.scripts import Script

_GAPLESS: Final = (sys.executable, "-m", "gapless")
_KEPT: Final = ("code", "name", "summary", "speedup", "share", "unpredicted", "at_most", "odds")
_ASKING_S: Final = 120.0
_TRYING_S: Final = 240.0


def record(script: Script, root: Path, lane: Lane, target: Path, seconds: float) -> None:
    """Check a script and pack what was recorded. Raises ``RunError``."""
    runs = lane.place / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    check = [*_GAPLESS, "check", "--quiet", "--out", str(runs), "--seconds", f"{seconds:.0f}"]
    command = [*check, sys.executable, *script.command(lane.device)]
    held = lane.environment(script, root), lane.cores
    said = run(command, root / script.cwd, held, seconds + 40)
    if not runs.exists() or not any(runs.iterdir()):
        raise RunError(f"nothing was recorded: {said}")
    target.parent.mkdir(parents=True, exist_ok=True)
    pack = [*_GAPLESS, "runs", "--in", str(runs), "pack", "last", "-o", str(target)]
    said = run(pack, lane.place, held, _ASKING_S)
    shutil.rmtree(runs, ignore_errors=True)
    if not target.exists():
        raise RunError(f"the recording was not packed: {said}")


def prove(script: Script, root: Path, lane: Lane, fixes: Sequence[str]) -> dict[str, Any]:
    """Check a script here, and try the fixes that were named, by ``gapless try``: what each gives.

    A fix that cannot be tried has no entry. Raises ``RunError`` where nothing could be recorded.
    """
    runs = lane.place / "proofs"
    shutil.rmtree(runs, ignore_errors=True)
    held, cwd = (lane.environment(script, root), lane.cores), root / script.cwd
    check = [*_GAPLESS, "check", "--quiet", "--out", str(runs), sys.executable]
    said = run([*check, *script.command(lane.device)], cwd, held, _ASKING_S)
    if not runs.exists():
        raise RunError(f"nothing was recorded: {said}")
    proofs: dict[str, Any] = {}
    for fix in fixes:
        trial = ["try", "--in", str(runs), "last", "--fix", fix, "--risky", "--yes", "--json"]
        output = lane.place / "proof.json"
        shell = f"exec {shlex.join([*_GAPLESS, *trial])} > {shlex.quote(str(output))}"
        run(["sh", "-c", shell], cwd, held, _TRYING_S)
        with contextlib.suppress(OSError, ValueError):
            for told in json.loads(output.read_text())["trials"] or ():
                proofs[fix] = {name: told[name] for name in ("speedup", "verdict", "arms")}
        output.unlink(missing_ok=True)
    shutil.rmtree(runs, ignore_errors=True)
    return proofs


def ask(recording: Path) -> dict[str, Any]:
    """Give what gapless says of a packed recording: its findings, what it would try, its step.

    ``refused`` holds the end of what it printed where it could not report.
    """
    with tempfile.TemporaryDirectory(prefix="gapless-planted-") as place:
        for words in (
            ["runs", "--in", place, "unpack", str(recording)],
            ["report", "--in", place, "--json", "--no-cache", "last"],
        ):
            try:
                done = subprocess.run(
                    [*_GAPLESS, *words],
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    check=False,
                    timeout=_ASKING_S,
                )
            except subprocess.TimeoutExpired:
                return {"refused": f"gapless {words[0]} took more than {_ASKING_S:.0f} s"}
            if done.returncode:
                return {"refused": (done.stdout + done.stderr)[-600:]}
    return answer(json.loads(done.stdout))


def answer(report: Mapping[str, Any]) -> dict[str, Any]:
    """Take out of a report what is judged."""
    return {
        "findings": [_finding(one) for one in report.get("findings") or ()],
        "to_try": [_finding(one) for one in report.get("to_try") or ()],
        "outlook": report.get("outlook"),
        "rehearsal": (report.get("rehearsal") or {}).get("refused"),
        "steps": (report.get("step_account") or {}).get("steps"),
    }


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    where = row.get("where")
    place = None
    if where is not None:
        place = {"file": Path(where["file"]).name, "line": where["line"]}
    helps = row.get("helps") or row.get("fixes") or ()
    kept = {name: row.get(name) for name in _KEPT}
    return kept | {"where": place, "helps": [_fix(one) for one in helps]}


def _fix(asked: str) -> str:
    """Give the name of a fix; that there should be no workers is another one than more of them."""
    name, _, value = asked.partition("=")
    return "no-workers" if name.partition("@")[0] == "more-workers" and value == "0" else name
