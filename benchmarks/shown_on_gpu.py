"""Show in one go that causes are named, foretold and proven on a GPU, and that nothing else is.

``PYTHONPATH=src python -m benchmarks.shown_on_gpu --out FILE`` does what a user would do: ``gapless
check`` on the reference story, ``gapless try`` on what it proposes first (is the measured gain
within the predicted interval?), ``gapless check`` on a script that reads twenty numbers back in
each step and loses nothing by it (is that called harmless?), and on a healthy one (is nothing
named?). Needs torch, torchvision, Pillow and a GPU, about eight minutes; ``--cpu`` is a dry run
with small trainings, where the story is that of the zoo.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import keep, machine
from benchmarks.menus.recording import hidden

Told = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parents[1]
TRAININGS: Final = ROOT / "benchmarks" / "trainings"
LONG: Final = ("--steps", "100000")  # they are stopped
TINY: Final = ("--device", "cpu", "--width", "512", "--batch", "256", "--threads", "1")
WORKS: Final = 0.9  # of a step, where nothing but the device bounds it
READS: Final = "G305"  # scalar-read
ALONE: Final = {"G801", "G802", "G804"}  # what the machine does, not the training


def story(*, cpu: bool, data: Path) -> list[str]:
    """Give the command of the reference story."""
    if cpu:
        zoo = str(ROOT / "tests" / "zoo" / "run.py")
        return [sys.executable, zoo, "pictures-main-process-c", *LONG]
    pictures = ["--pictures", "4000", "--data", str(data)]
    return [sys.executable, str(TRAININGS / "pictures.py"), *LONG, *pictures]


def tuned(*, cpu: bool, read: int) -> list[str]:
    """Give the command of the script that has nothing to gain, with or without its decoy."""
    tiny = TINY if cpu else ()
    return [sys.executable, str(TRAININGS / "tuned.py"), *LONG, "--read", str(read), *tiny]


def gapless(folder: Path, *arguments: str) -> str:
    """Run gapless, and give what it printed. Raises ``CalledProcessError``."""
    line = [sys.executable, "-m", "gapless", *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", flush=True)
        done.check_returncode()
    return done.stdout


def check(folder: Path, command: Sequence[str]) -> tuple[Path, str, Told]:
    """Check a command; give its run, the report, and the study as JSON tells it."""
    runs = folder / "runs"
    before = set(runs.glob("*/run.json"))
    gapless(folder, "check", "--quiet", "--out", str(runs), *command)
    run = next(iter(set(runs.glob("*/run.json")) - before)).parent
    page = gapless(folder, "report", str(run)).replace(sys.executable, "python")
    return run, page, json.loads(gapless(folder, "report", "--json", str(run)))


def short(study: Mapping[str, Any], page: str) -> Told:
    """Give what was said, without the account."""
    keys = ("code", "name", "summary", "where", "speedup", "helps", "no_remedy", "unpredicted")
    told: Told = {"report": page, "outlook": study["outlook"], "least": study["least"]}
    for how in ("findings", "to_try", "present"):
        told[how] = [{key: one[key] for key in keys if key in one} for one in study[how] or ()]
    proposals = study["proposals"] or ()
    told["proposals"] = [
        {key: value for key, value in one.items() if key != "edits"} for one in proposals
    ]
    return told


def named(told: Mapping[str, Any]) -> list[str]:
    """Give the codes of what a report puts forward of the training itself."""
    return [one["code"] for one in told["findings"] if one["code"] not in ALONE]


def show_story(folder: Path, command: Sequence[str], budget: int) -> Told:
    """Check the story, and try what is proposed first."""
    run, page, study = check(folder, command)
    told = short(study, page)
    tried = json.loads(
        gapless(folder, "try", str(run), "--yes", "--json", "--budget", f"{budget}s")
    )
    drop = ("runs", "edits")
    trials = [
        {key: value for key, value in one.items() if key not in drop} for one in tried["trials"]
    ]
    told |= {"trials": trials, "within": False, "overlaps": False}
    first: Told = trials[0] if trials else {}
    measured, foretold = first.get("speedup"), first.get("predicted")
    if measured is not None and foretold is not None:
        low, high = foretold["low"], foretold["high"]
        told["within"] = low <= measured["mid"] <= high
        told["overlaps"] = low <= measured["high"] and measured["low"] <= high
    told["holds"] = bool(named(told)) and told["within"]
    return told


def show_decoy(folder: Path, command: Sequence[str], *, cpu: bool) -> Told:
    """Check the script that reads twenty numbers a step: seen, and harmless."""
    _, page, study = check(folder, command)
    told = short(study, page)
    seen = {one["code"] for one in told["present"]}
    # Where numbers lie on the host already, there is nothing to see.
    told["holds"] = not named(told) and (cpu or READS in seen)
    return told


def show_healthy(folder: Path, command: Sequence[str], *, cpu: bool) -> Told:
    """Check the script that has nothing to gain: named as such, and its device seen at work."""
    _, page, study = check(folder, command)
    leaves: dict[str, int] = study["step_account"]["leaves"]
    worked = sum(ns for leaf, ns in leaves.items() if leaf.startswith("busy."))
    told = short(study, page) | {"worked": round(worked / (sum(leaves.values()) or 1), 4)}
    told["holds"] = not named(told) and (cpu or told["worked"] >= WORKS)
    return told


def main() -> int:
    """Show one after another, and keep each at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="healthy,decoy,story")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--budget", type=int, default=240, help="seconds of the trial")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="gapless-shown-"))
    folder.mkdir(parents=True, exist_ok=True)
    cpu: bool = options.cpu
    acts = {
        "story": lambda: show_story(folder, story(cpu=cpu, data=folder / "data"), options.budget),
        "decoy": lambda: show_decoy(folder, tuned(cpu=cpu, read=20), cpu=cpu),
        "healthy": lambda: show_healthy(folder, tuned(cpu=cpu, read=0), cpu=cpu),
    }
    result: Told = {"machine": machine()}
    for name in options.only.split(","):
        begun, told = time.monotonic(), Told()
        try:
            told |= acts[name]()
        except (subprocess.CalledProcessError, StopIteration) as error:
            told |= {"holds": False, "failed": str(error)[:500]}
        result[name] = {**told, "spent_s": round(time.monotonic() - begun, 1)}
        keep(json.loads(hidden(json.dumps(result).encode())), options.out)
        print(f"{name}: {'holds' if told['holds'] else 'does not hold'}", flush=True)
        print(told.get("report", ""), flush=True)
        for one in told.get("trials", ()):
            print(one["fixes"], one["verdict"], one["speedup"], "foretold", one["predicted"])
    return 0 if all(result[name]["holds"] for name in options.only.split(",")) else 1


if __name__ == "__main__":
    sys.exit(main())
