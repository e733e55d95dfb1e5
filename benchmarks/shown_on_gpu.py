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

from benchmarks.machine import machine, write_result
from benchmarks.menus.recording import hide_machine

Document = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parents[1]
TRAININGS: Final = ROOT / "benchmarks" / "trainings"
LONG: Final = ("--steps", "100000")  # they are stopped
TINY_OPTIONS: Final = ("--device", "cpu", "--width", "512", "--batch", "256", "--threads", "1")
MIN_BUSY_SHARE: Final = 0.9  # of a step, where nothing but the device bounds it
SCALAR_READ: Final = "G305"  # scalar-read
MACHINE_CAUSES: Final = {"G801", "G802", "G804"}  # what the machine does, not the training


def story_command(*, cpu: bool, data: Path) -> list[str]:
    """Return the command of the reference story."""
    if cpu:
        zoo = str(ROOT / "tests" / "zoo" / "run.py")
        return [sys.executable, zoo, "pictures-main-process-c", *LONG]
    pictures = ["--pictures", "4000", "--data", str(data)]
    return [sys.executable, str(TRAININGS / "pictures.py"), *LONG, *pictures]


def tuned_command(*, cpu: bool, read: int) -> list[str]:
    """Return the command of the script that has nothing to gain, with or without its decoy."""
    tiny = TINY_OPTIONS if cpu else ()
    return [sys.executable, str(TRAININGS / "tuned.py"), *LONG, "--read", str(read), *tiny]


def gapless(folder: Path, *arguments: str) -> str:
    """Run gapless, and give what it printed. Raises ``CalledProcessError``."""
    line = [sys.executable, "-m", "gapless", *arguments]
    process = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        print(process.stdout[-2000:], process.stderr[-2000:], sep="\n", flush=True)
        process.check_returncode()
    return process.stdout


def check_command(folder: Path, command: Sequence[str]) -> tuple[Path, str, Document]:
    """Check a command; give its run, the report, and the study as JSON tells it."""
    runs = folder / "runs"
    before = set(runs.glob("*/run.json"))
    gapless(folder, "check", "--quiet", "--out", str(runs), *command)
    run = next(iter(set(runs.glob("*/run.json")) - before)).parent
    page = gapless(folder, "report", str(run)).replace(sys.executable, "python")
    return run, page, json.loads(gapless(folder, "report", "--json", str(run)))


def summarize(study: Mapping[str, Any], page: str) -> Document:
    """Return what was said, without the account."""
    keys = ("code", "name", "summary", "where", "speedup", "helps", "no_remedy", "unpredicted")
    document: Document = {"report": page, "outlook": study["outlook"], "least": study["least"]}
    for outcome in ("findings", "to_try", "present"):
        document[outcome] = [
            {key: row[key] for key in keys if key in row} for row in study[outcome] or ()
        ]
    proposals = study["proposals"] or ()
    document["proposals"] = [
        {key: value for key, value in proposal.items() if key != "edits"} for proposal in proposals
    ]
    return document


def codes_named(document: Mapping[str, Any]) -> list[str]:
    """Return the codes of what a report puts forward of the training itself."""
    return [
        finding["code"] for finding in document["findings"] if finding["code"] not in MACHINE_CAUSES
    ]


def show_story(folder: Path, command: Sequence[str], budget: int) -> Document:
    """Check the story, and try what is proposed first."""
    run, page, study = check_command(folder, command)
    document = summarize(study, page)
    trial_document = json.loads(
        gapless(folder, "try", str(run), "--yes", "--json", "--budget", f"{budget}s")
    )
    drop = ("runs", "edits")
    trials = [
        {key: value for key, value in trial.items() if key not in drop}
        for trial in trial_document["trials"]
    ]
    document |= {"trials": trials, "within": False, "overlaps": False}
    first_trial: Document = trials[0] if trials else {}
    measured, foretold = first_trial.get("speedup"), first_trial.get("predicted")
    if measured is not None and foretold is not None:
        low, high = foretold["low"], foretold["high"]
        document["within"] = low <= measured["mid"] <= high
        document["overlaps"] = low <= measured["high"] and measured["low"] <= high
    document["holds"] = bool(codes_named(document)) and document["within"]
    return document


def show_decoy(folder: Path, command: Sequence[str], *, cpu: bool) -> Document:
    """Check the script that reads twenty numbers a step: seen, and harmless."""
    _, page, study = check_command(folder, command)
    document = summarize(study, page)
    codes_present = {row["code"] for row in document["present"]}
    # Where numbers lie on the host already, there is nothing to see.
    document["holds"] = not codes_named(document) and (cpu or SCALAR_READ in codes_present)
    return document


def show_healthy(folder: Path, command: Sequence[str], *, cpu: bool) -> Document:
    """Check the script that has nothing to gain: named as such, and its device seen at work."""
    _, page, study = check_command(folder, command)
    leaves: dict[str, int] = study["step_account"]["leaves"]
    busy_ns = sum(ns for leaf, ns in leaves.items() if leaf.startswith("busy."))
    document = summarize(study, page) | {"worked": round(busy_ns / (sum(leaves.values()) or 1), 4)}
    document["holds"] = not codes_named(document) and (cpu or document["worked"] >= MIN_BUSY_SHARE)
    return document


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
        "story": lambda: show_story(
            folder, story_command(cpu=cpu, data=folder / "data"), options.budget
        ),
        "decoy": lambda: show_decoy(folder, tuned_command(cpu=cpu, read=20), cpu=cpu),
        "healthy": lambda: show_healthy(folder, tuned_command(cpu=cpu, read=0), cpu=cpu),
    }
    result: Document = {"machine": machine()}
    for name in options.only.split(","):
        start_s, document = time.monotonic(), Document()
        try:
            document |= acts[name]()
        except (subprocess.CalledProcessError, StopIteration) as error:
            document |= {"holds": False, "failed": str(error)[:500]}
        result[name] = {**document, "spent_s": round(time.monotonic() - start_s, 1)}
        write_result(json.loads(hide_machine(json.dumps(result).encode())), options.out)
        print(f"{name}: {'holds' if document['holds'] else 'does not hold'}", flush=True)
        print(document.get("report", ""), flush=True)
        for trial in document.get("trials", ()):
            print(
                trial["fixes"], trial["verdict"], trial["speedup"], "foretold", trial["predicted"]
            )
    return 0 if all(result[name]["holds"] for name in options.only.split(",")) else 1


if __name__ == "__main__":
    sys.exit(main())
