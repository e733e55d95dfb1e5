"""How often trials are wrong: ``python -m benchmarks.trials_noise --out FILE``.

Trials of an edit that does nothing, and of a known delay that makes a step 10 % longer or shorter,
on a training whose steps mostly wait (its A/A noise is small on shared machines, too). What was
wrong: a verdict of the first but *nothing* or *undecided*; a wrong sign, or *undecided*, of the
second. A file that is there is gone on with. Docs: benchmarks/README.md.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.machine import machine, versions, write_result
from gapless.model.edit import Applicability, Edit, SetArgument, SetEnv
from gapless.model.trial import Trial, TrialVerdict
from gapless.verify import lengths
from gapless.verify.arms import arm
from gapless.verify.arms.steady import read_steps
from gapless.verify.plan import INTERRUPTED, conduct
from gapless.verify.specs import ArmRun, Candidate, TrialSettings

TRAINING: Final = Path(__file__).parent / "trainings" / "waiting.py"
COMMAND: Final = (sys.executable, str(TRAINING))
WAIT_MS: Final = 8.0  # a step, as usual
DELAY: Final = 0.1  # of a step
MAX_QUIET_NOISE: Final = 0.02  # A/A noise of a trial that ought to decide
NOTHING: Final = "nothing"
RIGHT_VERDICTS: Final = {  # the verdicts that are not wrong, and not undecided
    NOTHING: {TrialVerdict.NOTHING},
    "slower": {TrialVerdict.WORSE},
    "faster": {TrialVerdict.CONFIRMED},
}
Row = dict[str, Any]


def edit_of(kind: str, wait_ms: float, step_ms: float) -> Edit:
    """Return the edit of a kind of trial."""
    if kind == NOTHING:  # it has no workers as it is
        return SetArgument("torch.utils.data.DataLoader", "num_workers", 0)
    # 10 % more of a step's time, or 10 % less.
    change = DELAY if kind == "slower" else -DELAY
    return SetEnv("STEP_WAIT_MS", f"{wait_ms + change * step_ms:.4f}")


def mix_trials(nothing: int, delays: int) -> Iterator[tuple[str, int]]:
    """Return kind and number of each trial, mixed: so all meet the same weather."""
    kinds = [(NOTHING, number) for number in range(nothing)]
    kinds += [(("slower", "faster")[number % 2], number) for number in range(delays)]
    yield from sorted(
        kinds, key=lambda trial: trial[1] / (delays if trial[0] != NOTHING else nothing)
    )


def run_trial(
    kind: str, options: argparse.Namespace, first_arm: ArmRun, step_ms: float, folder: Path
) -> Trial:
    """Run one trial; ``first`` is the discarded arm of all of them."""
    edit = edit_of(kind, options.wait, step_ms)
    candidate = Candidate((kind,), kind, (edit,), Applicability.IDENTICAL)
    settings = TrialSettings(
        kind, COMMAND, budget_s=options.budget, windows=False, steps=options.steps
    )
    run_arm = arm.make_runner(_plan(options, folder))
    return conduct((candidate,), settings, run_arm, lambda _: None, first_arm)


def _plan(options: argparse.Namespace, folder: Path) -> arm.ArmPlan:
    return arm.ArmPlan(COMMAND, folder, variables={"STEP_WAIT_MS": str(options.wait)})


def row_of(kind: str, wait_ms: float, number: int, trial: Trial) -> Row:
    """Return what is kept of a trial."""
    (side,) = trial.sides
    speedup = side.speedup
    return {
        "kind": kind,
        "wait_ms": wait_ms,
        "number": number,
        "verdict": side.verdict.value,
        "speedup": None if speedup is None else [speedup.low, speedup.mid, speedup.high],
        "noise": trial.noise,
        "order": trial.order,
        "step_ns": [trial.step_ns, side.step_ns],
        "parity": side.parity.value,
        "disturbed": sum(
            str(arm_result.failed).startswith("disturbed") for arm_result in trial.arms
        ),
        "notes": trial.notes,
        "spent_s": round(trial.spent_s, 2),
    }


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return a line for each kind of trial, and time that a step waits."""
    lines = list[Row]()
    for kind, wait_ms in sorted({(row["kind"], row["wait_ms"]) for row in rows}):
        right_verdicts = RIGHT_VERDICTS[kind]
        kind_rows = [row for row in rows if (row["kind"], row["wait_ms"]) == (kind, wait_ms)]
        verdicts = Counter(row["verdict"] for row in kind_rows)
        n_undecided = verdicts[TrialVerdict.UNDECIDED]
        noises = [row["noise"] for row in kind_rows if row["noise"] is not None]
        quiet = [row for row in kind_rows if (row["noise"] or 1.0) <= MAX_QUIET_NOISE]
        lines.append(
            {
                "kind": kind,
                "wait_ms": wait_ms,
                "trials": len(kind_rows),
                "verdicts": dict(verdicts),
                "undecided": n_undecided,
                "wrong": len(kind_rows)
                - n_undecided
                - sum(verdicts[verdict] for verdict in right_verdicts),
                "noise": float(np.median(noises)) if noises else None,
                "quiet": len(quiet),
                "undecided_of_quiet": sum(
                    row["verdict"] == TrialVerdict.UNDECIDED for row in quiet
                ),
                "speedup": _median_speedup(kind_rows),
                "seconds": float(np.median([row["spent_s"] for row in kind_rows])),
            }
        )
    return lines


def _median_speedup(rows: Sequence[Row]) -> float | None:
    speedups = [row["speedup"][1] for row in rows if row["speedup"] is not None]
    return float(np.median(speedups)) if speedups else None


def result(rows: Sequence[Row], options: argparse.Namespace, took_s: float) -> Row:
    """Return what is written."""
    return {
        "machine": {**machine(), "torch": versions(("torch",))["torch"]},
        "asked": {"steps": options.steps, "budget_s": options.budget, "delay": DELAY},
        "summary": summary(rows),
        "seconds": round(took_s, 1),
        "trials": list(rows),
    }


def main() -> None:
    """Run the trials that are missing, and write the result after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nothing", type=int, default=40)
    parser.add_argument("--delays", type=int, default=20)
    parser.add_argument("--wait", type=float, default=WAIT_MS, help="milliseconds of a step")
    parser.add_argument("--steps", type=int, default=120, help="of an arm")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of a trial")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    before = json.loads(options.out.read_bytes()) if options.out.exists() else {}
    rows, start_s = before.get("trials", []), time.monotonic() - before.get("seconds", 0.0)
    done_keys = {(row["kind"], row["wait_ms"], row["number"]) for row in rows}
    with tempfile.TemporaryDirectory() as first_folder:
        length = lengths.first_arm(12 * options.budget, options.steps)
        first_arm = arm.make_runner(_plan(options, Path(first_folder) / "first"))(length)
        step_ms = first_step_ms(first_arm)
        for kind, number in mix_trials(options.nothing, options.delays):
            if (kind, options.wait, number) in done_keys:
                continue
            with tempfile.TemporaryDirectory() as folder:
                trial = run_trial(kind, options, first_arm, step_ms, Path(folder))
            if INTERRUPTED in trial.notes:
                break
            rows.append(row_of(kind, options.wait, number, trial))
            write_result(result(rows, options, time.monotonic() - start_s), options.out)
            print(json.dumps(rows[-1]), flush=True)
    for line in summary(rows):
        print(json.dumps(line))


def first_step_ms(first_arm: ArmRun) -> float:
    """Return the usual step of the discarded arm, by which delays are measured out."""
    steady = None if first_arm.recording is None else read_steps(first_arm.recording)
    if steady is None:
        raise SystemExit(f"the training was not measured: {first_arm.failure}")
    return float(np.median(steady.lengths)) / 1e6


if __name__ == "__main__":
    main()
