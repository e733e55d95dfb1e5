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

from benchmarks.machine import keep, machine
from benchmarks.menus.recording import hidden
from benchmarks.shown_on_gpu import check

TRAINING: Final = Path(__file__).parent / "trainings" / "ahead.py"
ASKED: Final = {"products": "tf32", "encoder": "tf32", "pictures": "bf16"}
NEAR: Final = 0.05  # of the truth: what a measured gain may be off, beside its interval
TINY: Final = ("--device", "cpu", "--size", "64")


def shown(kind: str, edit: str, folder: Path, budget: int, *, cpu: bool) -> dict[str, Any]:
    """Return what is true of a training, and what gapless measured and recorded of it."""
    command = [sys.executable, str(TRAINING), "--kind", kind, *(TINY if cpu else ())]
    true = None if cpu else json.loads(output([*command, "--truth", edit], folder))
    _, page, study = check(folder, command)
    wish = [
        "--risky",
        "--fix",
        "fused" if cpu else edit,
        "--budget",
        f"{budget}s",
        "--yes",
        "--json",
    ]
    out = ["--out", str(folder / f"trial-{kind}")]
    ours = [sys.executable, "-m", "gapless", "try", "--yes", *wish, *out, "--", *command]
    trial = json.loads(output(ours, folder))["trials"][0]
    measured = trial["speedup"]
    step = study["step"]
    result = {
        "edit": edit,
        "truth": true,
        "step_ns": step and step["mean_ns"],
        "first_lines": page.splitlines()[:15],
        "trial": {key: trial[key] for key in trial if key not in {"runs", "edits", "account"}},
    }
    if true is not None and measured is not None:
        within = measured["low"] <= true["speedup"] <= measured["high"]
        result["holds"] = within or abs(measured["mid"] / true["speedup"] - 1) <= NEAR
    return result


def output(command: list[str], folder: Path) -> str:
    """Run a command and return what it printed. Raises ``CalledProcessError``."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", flush=True)
    done.check_returncode()
    return done.stdout


def main() -> None:
    """Measure the three trainings one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default=",".join(ASKED))
    parser.add_argument("--budget", type=int, default=75, help="of a trial, in s")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="gapless-ahead-") as place:
        for kind in options.only.split(","):
            told = shown(kind, ASKED[kind], Path(place), options.budget, cpu=options.cpu)
            result[kind] = json.loads(hidden(json.dumps(told).encode()))
            print(kind, told.get("holds"), told["truth"], told["trial"].get("speedup"), flush=True)
            keep(result, options.out)


if __name__ == "__main__":
    main()
