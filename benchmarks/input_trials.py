"""What `gapless data` foretells of drop-ins for the input, and what their trials then measure.

``PYTHONPATH=src python -m benchmarks.input_trials --out FILE`` records trainings whose input costs
something, measures it, and tries every drop-in of which the table foretells a step, and those that
a training was written for, one after another: ``trainings/photos.py`` given two workers and one
thread, ``trainings/arrays.py``, and three of ``trainings/fed.py``. Each trial is written at once.
Needs torch, Pillow and NumPy, and 15 minutes of processors that nobody else uses: others widen
every interval. ``--only pictures bytes handmade`` are for a GPU: ``trainings/pictures.py``,
ResNet-50 on JPEG files by eight workers, needs torchvision; ``--only jpegs`` needs that and DALI.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.input_costs import ROOT, run_gapless
from benchmarks.machine import machine, write_result


class Training(NamedTuple):
    """A script below ``trainings/``, what it is started with, and what it was written for."""

    script: str
    words: tuple[str, ...]
    fixes: tuple[str, ...] = ()


TRAININGS: Final = {
    "photos": Training("photos", ("--epochs", "16")),
    "arrays": Training("arrays", ("--epochs", "24")),
    "mounted": Training(
        "fed", ("--kind", "mounted", "--epochs", "10"), ("file-cache={folder}/near",)
    ),
    "cold": Training("fed", ("--kind", "cold", "--epochs", "8"), ("read-ahead",)),
    "padded": Training("fed", ("--kind", "padded", "--epochs", "30"), ("length-buckets",)),
    "jpegs": Training("fed", ("--kind", "jpegs", "--epochs", "2"), ("decode-by-dali",)),
    "bytes": Training(
        "fed", ("--kind", "bytes", "--device", "cuda", "--epochs", "20"), ("uint8-in-loop",)
    ),
    "handmade": Training(
        "fed", ("--kind", "handmade", "--device", "cuda", "--epochs", "20"), ("uint8-by-hand",)
    ),
    "pictures": Training("pictures", ("--workers", "8", "--steps", "250")),
}
CPU_TRAININGS: Final = ("photos", "arrays", "mounted", "cold", "padded")
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


def measure(folder: Path, training: Training, options: argparse.Namespace) -> Iterator[Any]:
    """Yield what is foretold of each drop-in, and what trials of them measured until then."""
    run_gapless(folder, "run", "--quiet", sys.executable, "train.py", *training.words)
    document = json.loads(run_gapless(folder, "data", "--yes", "--json", "--seconds", SECONDS))
    foretold = {
        cost["fix"]: cost["step_speedup"]
        for cost in document["input"]["costs"]
        if cost["fix"] is not None and cost["step_speedup"] is not None
    }
    trials: dict[str, Any] = {}
    result = {"step_ns": document["input"]["run_step_ns"], "note": document["input"]["step_note"]}
    for fix in dict.fromkeys(options.fix or (*training.fixes, *foretold)):
        measured = try_fix(folder, fix.format(folder=folder), options.budget)
        trials[fix] = {"foretold": foretold.get(fix), **measured}
        yield {**result, "fixes": trials}


def try_fix(folder: Path, fix: str, budget: str) -> dict[str, Any]:
    """Return what a trial of a drop-in measured, and how it differs from the unedited training."""
    words = ("try", "--yes", "--risky", "--json", "--budget", budget, "--fix", fix)
    try:
        document = json.loads(run_gapless(folder, *words))
    except SystemExit as error:
        return {"failed": str(error)[-300:].strip()}
    if not document["trials"]:
        return {"failed": "refused"}
    (side,) = document["trials"]
    keys = ("speedup", "verdict", "why", "noise", "parity", "parity_note", "data", "notes")
    return {key: side[key] for key in keys}


def main() -> None:
    """Measure each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=TRAININGS, nargs="*", default=CPU_TRAININGS)
    parser.add_argument("--budget", default="2m", help="of each trial")
    parser.add_argument("--fix", nargs="*", default=[], help="these, in this order")
    options = parser.parse_args()
    folders = (str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    results: dict[str, Any] = {"machine": machine()}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            write_training(TRAININGS[name].script, Path(folder) / "train.py")
            for result in measure(Path(folder), TRAININGS[name], options):
                results[name] = result
                print(name, list(result["fixes"].items())[-1], flush=True)
                write_result(results, options.out)


if __name__ == "__main__":
    main()
