"""Keep what ``gapless try`` said of jobs of two GPUs whose fault is left out by its variant.

``python -m benchmarks.job_trials --run FOLDER NAME=FILE …``: what ``gapless try
--set env.JOBS_VARIANT=… -- torchrun --nproc-per-node 2 tests/jobs/run.py CASE`` printed, by the
name of the case, which may have several. Beside it stands what is foretold of the recording of
that case (``results/jobs.json``).
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import write_result
from gapless.recorded.facts import facts as facts_of
from gapless.store.run.recordings import load

RESULTS: Final = Path(__file__).parent / "results"
_GAIN: Final = re.compile(r"env\.JOBS_VARIANT=(\w+)\s.*?([\d.]+)× \[([\d.]+) … ([\d.]+)\]\s+(\w+)")
_NOISE: Final = re.compile(r"A/A noise ± ([\d.]+) %")


def read_trial(case: str, text: str) -> dict[str, Any]:
    """Return what a trial measured, beside what is foretold of the case; absent is ``None``."""
    answer = json.loads((RESULTS / "jobs.json").read_text())["cases"][case]
    gain, noise = _GAIN.search(text), _NOISE.search(text)
    if gain is None or noise is None:
        raise SystemExit(f"{case}: the text holds no gain, or no noise")
    left_out, mid, low, high, verdict = gain.groups()
    return {
        "named": answer["first"],
        "foretold": answer["predicted"],
        "refused": answer["refused"],
        "left_out": left_out,
        "measured": {"low": float(low), "mid": float(mid), "high": float(high)},
        "verdict": verdict,
        "aa_noise": float(noise[1]) / 100,
    }


def main() -> None:
    """Read the texts, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="a run of these ranks that was recorded there")
    parser.add_argument("trials", nargs="+", metavar="NAME=FILE")
    options = parser.parse_args()
    facts = facts_of(load(options.run))
    pairs = [trial.split("=", 1) for trial in options.trials]
    cases: dict[str, list[dict[str, Any]]] = {}
    for case, path in pairs:
        cases.setdefault(case, []).append(read_trial(case, Path(path).read_text()))
    machine = f"{facts.world.ranks} × {facts.machine.device}"
    write_result({"machine": machine, "cases": cases}, RESULTS / "job_trials.json")


if __name__ == "__main__":
    main()
