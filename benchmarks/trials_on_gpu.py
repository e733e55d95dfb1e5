"""Try ceilings and edits on trainings on a GPU with ``gapless try``, and keep what it says.

``PYTHONPATH=src python -m benchmarks.trials_on_gpu --out FILE [--only ceilings,loader,compute]``
writes JSON after each trial. Needs torch, torchvision, Pillow and a GPU; ``--cpu`` with tiny sizes
is a dry run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, write_result

TRAININGS = Path(__file__).parent / "trainings"
PICTURES = ["pictures.py", "--steps", "100000", "--pictures", "2000"]
WORDS = ["words.py", "--steps", "100000"]
LOADER_FIXES = (
    "more-workers=12",
    "more-workers=12+non-blocking",
    "more-workers=12+device-prefetcher",
    "more-workers=12+channels-last+bf16",
)
COMPUTE_FIXES = ("tf32", "bf16", "fused", "compile", "pin-memory", "collector")
TRIALS: dict[
    str, tuple[list[str], tuple[str, ...], int]
] = {  # training, wish, budget in s; 0: the usual
    "ceilings": (PICTURES, ("--ceilings",), 0),
    "loader": (PICTURES, ("--risky", "--fix", *LOADER_FIXES), 420),
    "compute": (WORDS, ("--risky", "--fix", *COMPUTE_FIXES), 480),
}
SMALL = ("--device", "cpu", "--width", "64", "--depth", "2", "--length", "64", "--words", "100")
TINY = {
    "words.py": SMALL,
    "pictures.py": ("--device", "cpu", "--batch", "4", "--pictures", "64"),
}
DROPPED_KEYS = ("runs", "edits")  # of a trial's keys: long, and the same on every machine


def run_trial(name: str, *, cpu: bool, folder: Path, share: float) -> dict[str, Any]:
    """Run one trial; give what was said, as text and as numbers."""
    training, request, full_budget = TRIALS[name]
    budget = round(full_budget * share)
    extra = list(TINY[training[0]]) if cpu else []
    extra += ["--data", str(folder / "pictures")] if training is PICTURES else []
    command = [sys.executable, str(TRAININGS / training[0]), *training[1:], *extra]
    out = folder / name
    try_command = [sys.executable, "-m", "gapless", "try", "--yes", "--json", "--out", str(out)]
    process = subprocess.run(
        [*try_command, *(["--budget", f"{budget}s"] if budget else []), *request, "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        return {"code": process.returncode, "stderr": process.stderr[-2000:]}
    document = json.loads(process.stdout)
    trials = [
        {key: value for key, value in trial.items() if key not in DROPPED_KEYS}
        for trial in document["trials"]
    ]
    arms = [
        {key: arm[key] for key in ("side", "steps", "step_ns", "start_ns", "failed")}
        for arm in document["trials"][0]["runs"]
    ]
    refused = [proposal for proposal in document["proposals"] or () if proposal["refused"]]
    return {"wish": request, "budget_s": budget, "trials": trials, "arms": arms, "refused": refused}


def main() -> None:
    """Run the trials one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default=",".join(TRIALS))
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="gapless-trials-"))
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"machine": machine()}
    for name in options.only.split(","):
        result[name] = run_trial(name, cpu=options.cpu, folder=folder, share=options.share)
        for trial in result[name].get("trials", ()):
            print(name, trial["fixes"], trial["verdict"], trial["speedup"], flush=True)
        write_result(result, options.out)


if __name__ == "__main__":
    main()
