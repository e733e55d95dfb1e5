"""Record a planted script with ``gapless check``, and ask gapless what it says of a recording."""

import contextlib
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.running import Lane, RunError, run
from benchmarks.planted.scripts import Script
from gapless.errors import GaplessError
from gapless.recorded.machine.processors import processor_limits
from gapless.recorded.machine.samples import measure_contention
from gapless.recorded.training.processes import select_steppers, span_of_steps, trainings
from gapless.store.run.recordings import load
from gapless.verify.arms.loader_rounds import fact_values

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
_MAX_FOREIGN: Final = 0.05  # of the processors, that others take during a recording that counts
_MOST_AGAIN: Final = 2  # times that a recording is made again


def record(
    script: Script, root: Path, lane: Lane, target: Path, limits: tuple[float, float]
) -> dict[str, Any]:
    """Check a script for some seconds and pack that; tell what others took. Raises ``RunError``.

    Where that was 5 % of the processors or more it is made again, twice at most, if that would end
    by the second of ``limits``, a time of ``time.monotonic()``. The calmest one is kept; one of
    which it is not known only where there is no other: nothing is sampled on that machine.
    """
    seconds, until = limits
    runs = lane.folder / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    foreign_shares: dict[Path, float | None] = {}
    made_again = 0
    while True:
        attempt = runs / str(made_again)
        # One that failed beside others leaves those that were made before.
        with contextlib.suppress(RunError) if foreign_shares else contextlib.nullcontext():
            check(script, root, lane, attempt, seconds)
            foreign_shares[attempt] = foreign_share(attempt)
        kept, least = min(foreign_shares.items(), key=lambda row: _share_or_all(row[1]))
        is_calm = least is None or least < _MAX_FOREIGN
        is_late = time.monotonic() + seconds + _AROUND_CHECK_S > until
        if is_calm or is_late or made_again >= _MOST_AGAIN:
            break
        made_again += 1
    _pack(kept, target, (lane.environment(script, root), lane.cores))
    shutil.rmtree(runs, ignore_errors=True)
    return {"foreign": least, "made_again": made_again}


def _share_or_all(share: float | None) -> float:
    return math.inf if share is None else share


def foreign_share(runs: Path) -> float | None:
    """Return the share of its processors that others took while a recorded training stepped.

    ``None`` where it was not sampled, no steps were seen, or it cannot be read.
    """
    try:
        recording = load(next(path for path in sorted(runs.iterdir()) if path.is_dir()))
        ranks = select_steppers(trainings(recording))
    except (GaplessError, StopIteration):
        return None
    span = span_of_steps(ranks)
    machines = [fact_values(training, "machine", 0) for training in ranks]
    contention = measure_contention(recording.samples, processor_limits(machines), span)
    if span is None or contention is None or not contention.processors:
        return None
    return (contention.cores + (contention.stolen or 0.0)) / contention.processors


def _pack(runs: Path, target: Path, placement: tuple[Mapping[str, str], tuple[int, ...]]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # an archive that is there is not overwritten
    pack = [*_GAPLESS, "runs", "--in", str(runs), "pack", "last", "-o", str(target)]
    printed = run(pack, runs, placement, _ASKING_S)
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
