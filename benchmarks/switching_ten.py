"""When each of ten edits is decided that are switched in one process of one training.

``python -m benchmarks.switching_ten --out FILE [--device cuda]``: the training is recorded for some
seconds, the edits are made for it as ``gapless try --fix`` makes them, and tried in one process;
then the first one alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict

from benchmarks.machine import machine, versions, write_result
from gapless import wire
from gapless.catalogue.declare.custom_settings import propose_setting
from gapless.catalogue.declare.listing import propose_named
from gapless.errors import GaplessError
from gapless.model.edit import Applicability
from gapless.model.facts import Facts
from gapless.model.trial import Trial
from gapless.recorded.facts import facts as facts_of
from gapless.store.run.recordings import load
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.arms.steady import read_steps
from gapless.verify.in_process import conduct_both_ways
from gapless.verify.specs import ArmMode, Candidate, TrialSettings

ROOT: Final = Path(__file__).resolve().parents[1]
SCRIPT: Final = ROOT / "benchmarks/trainings/ten_faults.py"
EDITS: Final = (  # those with a dot are settings, as for ``try --set``
    "bf16",
    "channels-last",
    "fused",
    "set-to-none",
    "no-synchronize",
    "no-empty-cache",
    "collector",
    "pin-memory+non-blocking",
    "no-logging",
    "torch.nn.utils.clip_grad_norm_(foreach)=True",
)
RECORDED_S: Final = 8.0
BUDGET_S: Final = 150.0  # more than the plan of ten sides takes


def main() -> None:
    """Measure, and write what was decided when."""
    options = _read_options()
    command = [sys.executable, str(SCRIPT), "--device", options.device, *options.more]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        facts = facts_of(load(record(command, home / "runs")))
        candidates, refused = make_candidates(facts)
        result: dict[str, Any] = {
            "machine": {**machine(), "torch": versions(("torch",))["torch"]},
            "device": facts.machine.device,
            "refused": refused,
        }
        for name, tried in (("all", candidates), ("first_alone", candidates[:1])):
            plan = ArmPlan(tuple(command), home / name)
            result[name] = measure(tried, plan, options.budget)
            write_result(result, options.out)
    print(json.dumps(result, indent=1))


def record(command: Sequence[str], out: Path) -> Path:
    """Record the training for some seconds; return its run folder."""
    words = (sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(out), "--")
    process = subprocess.Popen((*words, *command), stdout=subprocess.DEVNULL)
    try:
        while not list(out.glob("*/logs/rank0.log")):
            if process.poll() is not None:
                raise SystemExit("the training ended before its first step")
            time.sleep(0.5)
        time.sleep(RECORDED_S)
    finally:
        process.terminate()
        process.wait()
    return next(iter(out.glob("*/run.json"))).parent


def make_candidates(facts: Facts) -> tuple[tuple[Candidate, ...], dict[str, str]]:
    """Return the edits of this run, and why others cannot be made."""
    candidates: list[Candidate] = []
    refused: dict[str, str] = {}
    for name in EDITS:
        if "." in name:
            proposals = [propose_setting(name, facts, override=True)]
        else:
            parts = name.split("+")
            proposals = [p for part in parts for p in propose_named(part, facts, override=True)]
        edits = tuple(edit for proposal in proposals for edit in proposal.edits)
        reasons = [proposal.refused or proposal.summary for proposal in proposals]
        if edits:
            candidates.append(Candidate((name,), "", edits, Applicability.RISKY))
        else:
            refused[name] = "; ".join(reasons)
    return tuple(candidates), refused


def measure(candidates: tuple[Candidate, ...], plan: ArmPlan, budget_s: float) -> dict[str, Any]:
    """Return what one process shows of some edits, and when each was decided."""
    begun_s = time.monotonic()
    settings = TrialSettings(
        "ten", plan.command, windows=False, budget_s=budget_s, mode=ArmMode.SWITCHED
    )
    try:
        trial = conduct_both_ways(candidates, settings, make_runner(plan), lambda _: None)
    except GaplessError as error:
        return {"failed": str(error)[-500:]}
    ends_s = time_sides(trial, len(candidates))
    sides = {side.fixes[0]: side for side in trial.sides}
    rows: dict[str, Any] = {}
    for index, candidate in enumerate(candidates, 1):
        side = sides.get(candidate.fixes[0])
        rows[candidate.fixes[0]] = {
            "seconds": ends_s.get(index),
            "verdict": None if side is None else side.verdict.value,
            "gain": None if side is None or side.speedup is None else asdict(side.speedup),
        }
    known = [row["seconds"] for row in rows.values() if row["seconds"] is not None]
    return {
        "edits": rows,
        "tried": len(candidates),
        "measured": sum(row["gain"] is not None for row in rows.values()),
        "decided": sum(row["verdict"] not in {None, "undecided"} for row in rows.values()),
        "seconds_after_first_step": max(known, default=None),
        "step_ms": None if trial.step_ns is None else trial.step_ns / 1e6,
        "seconds": round(time.monotonic() - begun_s, 1),
        "notes": trial.notes,
    }


def time_sides(trial: Trial, count: int) -> dict[int, float]:
    """Return when the last block of each side was over: seconds after the first step."""
    folder = next((arm.folder for arm in trial.arms if arm.folder), None)
    recording = None if folder is None else load(Path(folder))
    steps = None if recording is None else read_steps(recording)
    if recording is None or steps is None:
        return {}
    marks = next(p for p in recording.processes if p.role == "training").marks
    rows = np.flatnonzero(marks.kind == wire.SWITCH)
    starts, sides = marks.start[rows], marks.subject[rows].astype(int)
    ends: dict[int, float] = {}
    for index, side in enumerate(sides.tolist()[:-1]):
        if 1 <= side <= count:
            ends[side] = round(float(starts[index + 1] - steps.ends[0]) / 1e9, 1)
    return ends


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=BUDGET_S)
    parser.add_argument("more", nargs="*", help="arguments of the training, after --")
    return parser.parse_args()


if __name__ == "__main__":
    main()
