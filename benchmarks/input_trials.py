"""What `gapless data` foretells of drop-ins for the input, and what their trials then measure.

``PYTHONPATH=src python -m benchmarks.input_trials --out FILE`` records ``trainings/photos.py``,
given two workers and one thread, and ``trainings/arrays.py``; measures their input; and tries every
drop-in of which the table foretells a step. Needs torch, Pillow and NumPy, and 15 minutes of
processors that nobody else uses: others widen every interval. ``--only pictures`` is for a GPU:
``trainings/pictures.py``, ResNet-50 on JPEG files by eight workers; it needs torchvision.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.input_costs import ROOT, run_gapless
from benchmarks.machine import machine, write_result

SCRIPTS: Final = {  # and what each is started with
    "photos": ("--epochs", "8"),
    "arrays": ("--epochs", "8"),
    "pictures": ("--workers", "8", "--steps", "600"),
}
CPU_SCRIPTS: Final = ("photos", "arrays")
WORKERS: Final = ("batch_size=16, shuffle=True)", "batch_size=16, shuffle=True, num_workers=2)")
ONE_THREAD: Final = (
    "    torch.manual_seed(0)\n    loader",
    "    torch.set_num_threads(1)\n    loader",
)
SECONDS: Final = "20"


def write_training(name: str, target: Path) -> None:
    """Write a training with two workers and one thread."""
    text = (ROOT / f"benchmarks/trainings/{name}.py").read_text(encoding="utf-8")
    for old, new in (WORKERS, ONE_THREAD):
        text = text.replace(old, new)
    target.write_text(text, encoding="utf-8")


def measure(
    folder: Path, words: Sequence[str], budget: str, fixes: Sequence[str]
) -> dict[str, Any]:
    """Return what is foretold of each drop-in, and what a trial of it measures."""
    run_gapless(folder, "run", "--quiet", sys.executable, "train.py", *words)
    document = json.loads(run_gapless(folder, "data", "--yes", "--json", "--seconds", SECONDS))
    gains = {
        cost["fix"]: cost["step_speedup"]
        for cost in document["input"]["costs"]
        if cost["fix"] is not None and cost["step_speedup"] is not None
        if not fixes or cost["fix"] in fixes
    }
    result = {"step_ns": document["input"]["run_step_ns"], "note": document["input"]["step_note"]}
    if not gains:
        return {**result, "fixes": {}}
    request = ("try", "--yes", "--risky", "--json", "--budget", budget, "--fix", *gains)
    sides = json.loads(run_gapless(folder, *request))["trials"]
    trials = {
        fix: {"foretold": gain, "measured": side["speedup"], "verdict": side["verdict"]}
        for (fix, gain), side in zip(gains.items(), sides, strict=True)
    }
    return {**result, "fixes": trials}


def main() -> None:
    """Measure each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=SCRIPTS, nargs="*", default=CPU_SCRIPTS)
    parser.add_argument("--budget", default="6m", help="of a trial of all drop-ins")
    parser.add_argument("--fix", nargs="*", default=[], help="only these; if none is named, all")
    options = parser.parse_args()
    folders = (str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    results: dict[str, Any] = {"machine": machine()}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            write_training(name, Path(folder) / "train.py")
            results[name] = measure(Path(folder), SCRIPTS[name], options.budget, options.fix)
        print(name, results[name], flush=True)
        write_result(results, options.out)


if __name__ == "__main__":
    main()
