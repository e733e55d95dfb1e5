"""What `gapless data` foretells of drop-ins for the input, and what their trials then measure.

``PYTHONPATH=src python -m benchmarks.input_trials --out FILE`` records ``trainings/photos.py``,
given two workers and one thread, and ``trainings/arrays.py``; measures their input; and tries every
drop-in of which the table foretells a step. Needs torch, Pillow and NumPy, and ten minutes of
processors that nobody else uses: others widen every interval.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.input_costs import ROOT, run_gapless
from benchmarks.machine import machine, write_result

SCRIPTS: Final = {"photos": "photos.py", "arrays": "arrays.py"}
WORKERS: Final = ("batch_size=16, shuffle=True)", "batch_size=16, shuffle=True, num_workers=2)")
ONE_THREAD: Final = (
    "    torch.manual_seed(0)\n    loader",
    "    torch.set_num_threads(1)\n    loader",
)
SECONDS, BUDGET = "20", "150s"


def write_training(name: str, target: Path) -> None:
    """Write a training with two workers and one thread."""
    text = (ROOT / "benchmarks/trainings" / SCRIPTS[name]).read_text(encoding="utf-8")
    for old, new in (WORKERS, ONE_THREAD):
        text = text.replace(old, new)
    target.write_text(text, encoding="utf-8")


def measure(folder: Path, epochs: int) -> dict[str, Any]:
    """Return what is foretold of each drop-in, and what a trial of it measures."""
    command = ("python", "train.py", "--epochs", str(epochs))
    run_gapless(folder, "run", "--quiet", *command)
    document = json.loads(run_gapless(folder, "data", "--yes", "--json", "--seconds", SECONDS))
    gains = {
        cost["fix"]: cost["step_speedup"]
        for cost in document["input"]["costs"]
        if cost["fix"] is not None and cost["step_speedup"] is not None
    }
    result = {"step_ns": document["input"]["run_step_ns"], "note": document["input"]["step_note"]}
    if not gains:
        return {**result, "fixes": {}}
    words = ("try", "--yes", "--risky", "--json", "--budget", BUDGET, "--fix", *gains)
    sides = json.loads(run_gapless(folder, *words))["trials"]
    fixes = {
        fix: {"foretold": gain, "measured": side["speedup"], "verdict": side["verdict"]}
        for (fix, gain), side in zip(gains.items(), sides, strict=True)
    }
    return {**result, "fixes": fixes}


def main() -> None:
    """Measure each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=SCRIPTS, nargs="*", default=list(SCRIPTS))
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    results: dict[str, Any] = {"machine": machine()}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            write_training(name, Path(folder) / "train.py")
            results[name] = measure(Path(folder), options.epochs)
        print(name, results[name], flush=True)
        write_result(results, options.out)


if __name__ == "__main__":
    main()
