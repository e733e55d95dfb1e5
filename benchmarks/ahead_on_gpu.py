"""Whether trials and accounts of trainings whose host runs ahead are those of their device.

``PYTHONPATH=src python -m benchmarks.ahead_on_gpu --out FILE`` measures three trainings by events
(``trainings/ahead.py``), then asks ``gapless try`` for the same edit and ``gapless check`` for the
step. Needs a GPU and five minutes; ``--cpu`` is a dry run without truths.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result
from benchmarks.menus.recording import hide_machine
from benchmarks.shown_on_gpu import check_command

TRAINING: Final = Path(__file__).parent / "trainings" / "ahead.py"
EDITS: Final = {"products": "tf32", "encoder": "tf32", "pictures": "bf16"}
MAX_ERROR: Final = 0.05  # of the truth: what a measured gain may be off, beside its interval
TINY_OPTIONS: Final = ("--device", "cpu", "--size", "64")


def measure_training(
    kind: str, edit: str, folder: Path, budget: int, *, cpu: bool
) -> dict[str, Any]:
    """Return what is true of a training, and what gapless measured and recorded of it."""
    command = [sys.executable, str(TRAINING), "--kind", kind, *(TINY_OPTIONS if cpu else ())]
    truth = None if cpu else json.loads(run_command([*command, "--truth", edit], folder))
    _, page, study = check_command(folder, command)
    request = [
        "--risky",
        "--fix",
        "fused" if cpu else edit,
        "--budget",
        f"{budget}s",
        "--yes",
        "--json",
    ]
    out = ["--out", str(folder / f"trial-{kind}")]
    try_command = [sys.executable, "-m", "gapless", "try", "--yes", *request, *out, "--", *command]
    trial = json.loads(run_command(try_command, folder))["trials"][0]
    measured = trial["speedup"]
    step = study["step"]
    result = {
        "edit": edit,
        "truth": truth,
        "step_ns": step and step["mean_ns"],
        "first_lines": page.splitlines()[:15],
        "trial": {key: trial[key] for key in trial if key not in {"runs", "edits", "account"}},
    }
    if truth is not None and measured is not None:
        is_within = measured["low"] <= truth["speedup"] <= measured["high"]
        result["holds"] = is_within or abs(measured["mid"] / truth["speedup"] - 1) <= MAX_ERROR
    return result


def run_command(command: list[str], folder: Path) -> str:
    """Run a command and return what it printed. Raises ``CalledProcessError``."""
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        print(process.stdout[-2000:], process.stderr[-2000:], sep="\n", flush=True)
    process.check_returncode()
    return process.stdout


def main() -> None:
    """Measure the three trainings one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default=",".join(EDITS))
    parser.add_argument("--budget", type=int, default=75, help="of a trial, in s")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="gapless-ahead-") as folder:
        for kind in options.only.split(","):
            training = measure_training(
                kind, EDITS[kind], Path(folder), options.budget, cpu=options.cpu
            )
            result[kind] = json.loads(hide_machine(json.dumps(training).encode()))
            print(
                kind,
                training.get("holds"),
                training["truth"],
                training["trial"].get("speedup"),
                flush=True,
            )
            write_result(result, options.out)


if __name__ == "__main__":
    main()
