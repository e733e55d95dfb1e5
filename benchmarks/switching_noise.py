"""How often edits switched in one process are judged wrongly: ``… switching_noise --out FILE``.

Trials in one process of an edit that does nothing, the threads set to what they are; wrong is any
verdict but *nothing* and *undecided*. A file that is there is gone on with. Docs:
benchmarks/README.md.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from benchmarks.machine import machine, versions, write_result
from gapless.model.edit import Applicability, SetGlobal
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.in_process import conduct_both_ways
from gapless.verify.specs import ArmMode, Candidate, TrialSettings

TRAINING: Final = Path(__file__).parent / "trainings" / "stepping.py"
THREADS: Final = 1
RIGHT: Final = {"nothing", "undecided"}


def main() -> None:
    """Measure what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of each")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["trials"] if options.out.exists() else []
    while len(rows) < options.trials:
        rows.append(measure(options.budget))
        print(json.dumps(rows[-1]), flush=True)
        verdicts = Counter(row["verdict"] for row in rows)
        wrong = sum(row["verdict"] not in RIGHT for row in rows)
        result = {
            "machine": {**machine(), "torch": versions(("torch",))["torch"]},
            "summary": {"trials": len(rows), "wrong": wrong, "verdicts": dict(verdicts)},
            "trials": rows,
        }
        write_result(result, options.out)


def measure(budget_s: float) -> dict[str, Any]:
    """Return what one trial says of an edit that does nothing."""
    edit = SetGlobal("torch.set_num_threads", THREADS)
    candidate = Candidate(("no-change",), "threads as they are", (edit,), Applicability.IDENTICAL)
    settings = TrialSettings(
        "noise", (sys.executable, str(TRAINING)), windows=False, budget_s=budget_s,
        mode=ArmMode.SWITCHED,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        variables = {"OMP_NUM_THREADS": str(THREADS), "PYTHONPATH": os.environ.get("PYTHONPATH")}
        plan = ArmPlan(settings.command, Path(folder), variables=variables)
        trial = conduct_both_ways((candidate,), settings, make_runner(plan), lambda _: None)
    if not trial.sides:
        return {"verdict": "not-measured", "why": "; ".join(trial.notes)}
    side = trial.sides[0]
    return {
        "verdict": side.verdict.value,
        "speedup": None if side.speedup is None else asdict(side.speedup),
        "noise": side.noise,
        "why": side.why,
        "spent_s": round(trial.spent_s, 1),
    }


if __name__ == "__main__":
    main()
