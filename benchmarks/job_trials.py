"""Keep what ``gapless try`` said of jobs of two GPUs whose fault is left out by its variant.

``python -m benchmarks.job_trials --run FOLDER NAME=FILE …`` adds what ``gapless try --set
env.JOBS_VARIANT=… -- torchrun --nproc-per-node 2 tests/jobs/run.py CASE`` printed, by the name of
the case, to those on record. Beside it stands what is foretold of the recording of that case
(``results/jobs.json``), or, as ``NAME=FILE=RUN``, of a run recorded just before the trial. What was
tried may also be a fix, of another program (``two_gpus.py``: ``--fix nccl-backend``).
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.judging.jobs import describe, price_run
from benchmarks.machine import write_result
from gapless.pricing.diagnose import diagnose
from gapless.recorded.facts import facts as facts_of
from gapless.store.run.recordings import load

RESULTS: Final = Path(__file__).parent / "results"
_GAIN: Final = re.compile(
    r"  B  (?:env\.JOBS_VARIANT=)?([\w-]+)  .*?([\d.]+)× \[([\d.]+) … ([\d.]+)\]\s+(\w+)"
)
_NOISE: Final = re.compile(r"A/A noise ± ([\d.]+) %")


def ask_run(run: Path) -> dict[str, Any]:
    """Return what is named first of a run, and foretold of it; absent is ``None``."""
    diagnosis = diagnose(price_run(run))
    first = diagnosis.findings[0] if diagnosis.findings else None
    fidelity = diagnosis.fidelity
    return {
        "first": None if first is None else describe(first.detection),
        "predicted": None if first is None else msgspec.to_builtins(first.prediction.speedup),
        "refused": None if fidelity is None else fidelity.refused,
    }


def read_trial(case: str, path: Path, run: Path | None) -> dict[str, Any]:
    """Return what a trial measured, beside what is foretold of the case, or of a run of it."""
    kept = json.loads((RESULTS / "jobs.json").read_text())["cases"].get(case)
    answer, text = ask_run(run) if run is not None else kept, path.read_text()
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
    parser.add_argument("trials", nargs="+", metavar="NAME=FILE[=RUN]")
    options = parser.parse_args()
    facts = facts_of(load(options.run))
    out = RESULTS / "job_trials.json"
    cases: dict[str, list[dict[str, Any]]] = json.loads(out.read_text())["cases"]
    for trial in options.trials:
        case, path, *runs = trial.split("=")
        run = Path(runs[0]) if runs else None
        cases.setdefault(case, []).append(read_trial(case, Path(path), run))
    machine = f"{facts.world.ranks} × {facts.machine.device}"
    write_result({"machine": machine, "cases": cases}, out)


if __name__ == "__main__":
    main()
