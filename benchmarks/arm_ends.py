"""What fresh arms of a trial spend on their start, on their steps and after the last one.

``python -m benchmarks.arm_ends OUT.json [--device cuda]``: arms of a few trainings, one after the
other, as ``gapless try`` runs them. What comes after the last step (the device drained, workers and
processes ended, records collected and read) is all that another arm's start could lie beside
without disturbing what is measured: its share is the most that such an overlap could save.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, versions, write_result
from gapless.verify.arms import arm
from gapless.verify.arms.steady import read_steps
from gapless.verify.specs import UNEDITED, ArmSpec

TRAININGS: Final = Path(__file__).parent / "trainings"
SMALL: Final = ("--batch", "8", "--size", "16", "--wide", "16", "--deep", "1", "--workers", "2")
COMMANDS: Final = {  # by device: name, script, options
    "cpu": {"without workers": ("gated.py",), "with workers": ("ten_faults.py", *SMALL)},
    "cuda": {"without workers": ("gated_on_gpu.py",), "with workers": ("ten_faults.py",)},
}
MAX_STEPS: Final = 10**6  # arms end by time


def measure_arm(plan: arm.ArmPlan, index: int, seconds: float) -> dict[str, float]:
    """Run an arm; return the seconds of each part of it."""
    begun_s = time.monotonic()
    outcome, recording = arm.run(plan, ArmSpec(UNEDITED, index, (), MAX_STEPS, seconds))
    steps = None if recording is None else read_steps(recording)
    if steps is None:
        raise SystemExit(f"{outcome.failed} ({outcome.folder})")
    all_s = time.monotonic() - begun_s
    stepping_s = float(steps.ends[-1] - steps.ends[0]) / 1e9
    start_s = steps.start_ns / 1e9
    parts = {"all": all_s, "start": start_s, "steps": stepping_s}
    parts["after"] = all_s - start_s - stepping_s
    return {name: round(part_s, 3) for name, part_s in parts.items()}


def summarize(arms: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the medians of some arms, and the share that an overlap could save at most."""
    medians = {name: round(statistics.median(arm[name] for arm in arms), 3) for name in arms[0]}
    saving = statistics.median(min(arm["after"], arm["start"]) / arm["all"] for arm in arms)
    return {"medians": medians, "most_saved": round(saving, 4), "arms": list(arms)}


def main() -> None:
    """Measure, and write what arms spent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu", choices=tuple(COMMANDS))
    parser.add_argument(
        "--arms", type=int, default=4, help="of each training; one more is not kept"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of stepping")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": {**machine(), "torch": versions(("torch",))["torch"]}}
    for name, (script, *more) in COMMANDS[options.device].items():
        words = [*more, "--device", options.device] if script == "ten_faults.py" else more
        with tempfile.TemporaryDirectory() as scratch:
            command = (sys.executable, str(TRAININGS / script), *words)
            plan = arm.ArmPlan(command, Path(scratch), private_folder=TRAININGS)
            arms = [measure_arm(plan, index, options.seconds) for index in range(options.arms + 1)]
        result[name] = summarize(arms[1:])
        print(name, result[name]["medians"], result[name]["most_saved"], flush=True)
        write_result(result, options.out)


if __name__ == "__main__":
    main()
