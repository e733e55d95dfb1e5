"""What recording adds to a whole command of three steps: ``python -m benchmarks.command_cost``.

``plain``, ``run``, ``run``, ``plain``, round by round, so that a drift of the machine cancels, and
differences are taken within a round; the two plain runs of a round against one another tell what
such a difference is worth. Docs: benchmarks/README.md.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

TRAINING: Final = Path(__file__).parent / "trainings" / "nearly_empty.py"
ROUND: Final = ("plain", "run", "run again", "plain again")
BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"  # with it set, each process compiles all that is ours


@dataclass(frozen=True)
class CommandCost:
    """Seconds of one command."""

    wall: float
    cpu: float  # of all its processes
    begun: float  # until the first line of the training


def run_once(arm: str, *, bytecode: bool) -> CommandCost:
    """Run one arm."""
    with tempfile.TemporaryDirectory() as folder:
        begin_file = Path(folder) / "begun"
        plain = [sys.executable, str(TRAINING), str(begin_file)]
        gapless = [str(Path(sys.executable).with_name("gapless")), "run", "--out", folder]
        variables = {name: value for name, value in os.environ.items() if name != BYTECODE}
        if not bytecode:
            variables[BYTECODE] = "1"
        before, start = _processor_seconds(), time.monotonic_ns()
        subprocess.run(
            plain if arm.startswith("plain") else [*gapless, *plain],
            env=variables,
            check=True,
            capture_output=True,
        )
        end = time.monotonic_ns()
        begun_ns = int(begin_file.read_text()) - start
    return CommandCost((end - start) / 1e9, _processor_seconds() - before, begun_ns / 1e9)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, quartiles and extremes."""
    ordered = sorted(values)
    low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive")
    figures = {"median": middle, "p25": low, "p75": high, "min": ordered[0], "max": ordered[-1]}
    return {name: round(value, 4) for name, value in figures.items()}


def differences(rounds: list[dict[str, CommandCost]], figure: str) -> dict[str, Any]:
    """Return what recording adds, within rounds, and how far two equal arms are apart."""
    figures = [{arm: getattr(arms[arm], figure) for arm in ROUND} for arms in rounds]
    plain = [
        (round_figures["plain"] + round_figures["plain again"]) / 2 for round_figures in figures
    ]
    run = [(round_figures["run"] + round_figures["run again"]) / 2 for round_figures in figures]
    return {
        "plain_s": spread(plain),
        "run_s": spread(run),
        "added_s": spread(b - a for a, b in zip(plain, run, strict=True)),
        "added_to_fastest_s": round(
            min(min(round_figures["run"], round_figures["run again"]) for round_figures in figures)
            - min(
                min(round_figures["plain"], round_figures["plain again"])
                for round_figures in figures
            ),
            4,
        ),
        "ratio": spread(b / a for a, b in zip(plain, run, strict=True)),
        "two_plain_apart_s": spread(
            round_figures["plain again"] - round_figures["plain"] for round_figures in figures
        ),
    }


def main() -> None:
    """Run all rounds and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--no-bytecode", action="store_true", help=f"with {BYTECODE}=1")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bytecode = not options.no_bytecode
    for arm in ROUND[:2]:
        run_once(arm, bytecode=bytecode)  # files come into memory, bytecode onto the disk
    rounds: list[dict[str, CommandCost]] = []
    for index in range(options.rounds):
        order = ROUND if index % 2 == 0 else (*ROUND[1::-1], *ROUND[:1:-1])
        rounds.append({arm: run_once(arm, bytecode=bytecode) for arm in order})
        print(index, {arm: round(cost.wall, 3) for arm, cost in rounds[-1].items()}, flush=True)
    result = {
        "machine": machine(),
        "bytecode": bytecode,
        **{figure: differences(rounds, figure) for figure in ("wall", "cpu", "begun")},
        "rounds": [{arm: asdict(cost) for arm, cost in costs.items()} for costs in rounds],
    }
    for figure in ("wall", "cpu", "begun"):
        print(figure, json.dumps(result[figure]))
    write_result(result, options.out)


if __name__ == "__main__":
    main()
