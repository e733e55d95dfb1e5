"""What recording costs a training: ``python -m benchmarks.overhead [--device cuda]``.

Arms take turns, round by round (the order reversed in every second one), and ratios are taken
within a round: shared machines change their speed. ``plain`` runs twice in each round, so that the
spread of two equal arms stands beside every ratio. On the CPU a step's price is the processor time
of the training thread, on a GPU its wall time. Docs: benchmarks/README.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

TRAINING: Final = Path(__file__).parent / "trainings" / "steps.py"
GAPLESS: Final = (sys.executable, "-m", "gapless", "run", "--quiet", "--out")
SIZES: Final = {  # about the length of a step on one core: arguments of the training
    "1 ms": ["--width", "64", "--depth", "4", "--steps", "6000"],
    "8 ms": ["--width", "512", "--depth", "6", "--batch", "96", "--steps", "1200"],
}
DEVICE_SIZES: Final = {
    "2 ms": ["--width", "1024", "--depth", "12", "--batch", "512", "--steps", "4000"],
    "10 ms": ["--width", "4096", "--depth", "12", "--batch", "2048", "--steps", "800"],
}


@dataclass(frozen=True)
class ArmRun:
    """One run of one arm."""

    size: str
    arm: str
    round: int
    figures: dict[str, float]
    command_s: float  # the whole command, start and end included


def command_of(arm: str, training: list[str], folder: Path, traceml: str | None) -> list[str]:
    """Return the command line of an arm."""
    plain = [sys.executable, *training]
    match arm:
        case "light":
            return [*GAPLESS, str(folder), "--no-windows", *plain]
        case "windows":
            return [*GAPLESS, str(folder), *plain]
        case "torch.profiler":
            return [*plain, "--profiler"]
        case "traceml-ai":
            return [str(traceml), "run", training[0], "--args", *training[1:]]
        case _:
            return plain


def run_arm(arm: str, size: str, round_number: int, options: argparse.Namespace) -> ArmRun | None:
    """Run one arm; ``None`` if it failed."""
    sizes = SIZES if options.device == "cpu" else DEVICE_SIZES
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        training = [str(TRAINING), *sizes[size], "--device", options.device, "--out", str(out)]
        if arm == "torch.profiler":  # it keeps all events in memory: a tenth of the steps will do
            steps = training.index("--steps") + 1
            training[steps] = str(max(int(training[steps]) // 10, 500))
        command = command_of(arm, training, Path(folder) / "run", options.traceml)
        start_s = time.perf_counter()
        process = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        took_s = time.perf_counter() - start_s
        if process.returncode or not out.exists():
            print(f"{arm} failed: {process.stderr[-500:]}", file=sys.stderr)
            return None
        return ArmRun(size, arm, round_number, json.loads(out.read_text()), took_s)


def ratios(arms: list[ArmRun], size: str, arm: str, figure: str) -> dict[str, float] | None:
    """Return median and extremes of an arm's figure over ``plain`` of the same round."""
    base = {run.round: run for run in arms if run.size == size and run.arm == "plain"}
    values = [
        run.figures[figure] / base[run.round].figures[figure]
        for run in arms
        if run.size == size and run.arm == arm and run.round in base
    ]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(arms: list[ArmRun], figure: str) -> list[dict[str, Any]]:
    """Return a row for each size and arm."""
    rows: list[dict[str, Any]] = []
    for size, arm in dict.fromkeys((run.size, run.arm) for run in arms):
        arm_runs = [run for run in arms if (run.size, run.arm) == (size, arm)]
        plain = [run for run in arms if (run.size, run.arm) == (size, "plain")]
        base = statistics.median(run.figures[figure] for run in plain)
        ratio = ratios(arms, size, arm, figure)
        rows.append(
            {
                "size": size,
                "arm": arm,
                "runs": len(arm_runs),
                "step_ns": statistics.median(run.figures[figure] for run in arm_runs),
                "ratio": ratio,
                "added_ns": None if ratio is None else (ratio["median"] - 1) * base,
                "command_s": statistics.median(run.command_s for run in arm_runs),
                "added_to_command_s": statistics.median(run.command_s for run in arm_runs)
                - statistics.median(run.command_s for run in plain),
                "peak_bytes": statistics.median(run.figures["peak_bytes"] for run in arm_runs),
            }
        )
    return rows


def write(options: argparse.Namespace, arms: list[ArmRun]) -> list[dict[str, Any]]:
    """Write the result so far, if that is wanted, and give its summary."""
    figure = "thread_cpu_ns" if options.device == "cpu" else "wall_ns"
    rows = summary(arms, figure)
    result = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": options.device,
        "figure": figure,
        "summary": rows,
        "arms": [asdict(run) for run in arms],
    }
    write_result(result, options.out)
    return rows


def main() -> None:
    """Run all arms and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--traceml", help="the traceml command, if it is installed")
    parser.add_argument("--sizes", nargs="+")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = ["plain", "plain again", "light", "windows", "torch.profiler"]
    names += ["traceml-ai"] if options.traceml else []
    arms: list[ArmRun] = []
    for number in range(options.rounds):
        for size in options.sizes or (SIZES if options.device == "cpu" else DEVICE_SIZES):
            for arm in names if number % 2 == 0 else reversed(names):
                if arm == "torch.profiler" and number > 0:
                    continue  # far above all others: one run is enough
                run = run_arm(arm, size, number, options)
                if run is not None:
                    arms.append(run)
                    write(options, arms)  # what there is, if it is cut short
                    print(size, arm, number, run.figures, f"{run.command_s:.2f} s", flush=True)
    for row in write(options, arms):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
