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

from benchmarks.machine import keep, machine

TRAINING: Final = Path(__file__).parent / "trainings" / "nearly_empty.py"
ROUND: Final = ("plain", "run", "run again", "plain again")
BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"  # with it set, each process compiles all that is ours


@dataclass(frozen=True)
class Figures:
    """Seconds of one command."""

    wall: float
    cpu: float  # of all its processes
    begun: float  # until the first line of the training


def command_once(arm: str, *, bytecode: bool) -> Figures:
    """Run one arm."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "begun"
        plain = [sys.executable, str(TRAINING), str(told)]
        gapless = [str(Path(sys.executable).with_name("gapless")), "run", "--out", folder]
        variables = {name: value for name, value in os.environ.items() if name != BYTECODE}
        if not bytecode:
            variables[BYTECODE] = "1"
        before, start = _processor(), time.monotonic_ns()
        subprocess.run(
            plain if arm.startswith("plain") else [*gapless, *plain],
            env=variables,
            check=True,
            capture_output=True,
        )
        end = time.monotonic_ns()
        begun = int(told.read_text()) - start
    return Figures((end - start) / 1e9, _processor() - before, begun / 1e9)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spread(values: Iterable[float]) -> dict[str, float]:
    """Give median, quartiles and extremes."""
    all_of = sorted(values)
    low, middle, high = statistics.quantiles(all_of, n=4, method="inclusive")
    named = {"median": middle, "p25": low, "p75": high, "min": all_of[0], "max": all_of[-1]}
    return {name: round(value, 4) for name, value in named.items()}


def differences(rounds: list[dict[str, Figures]], figure: str) -> dict[str, Any]:
    """Give what recording adds, within rounds, and how far two equal arms are apart."""
    taken = [{arm: getattr(one[arm], figure) for arm in ROUND} for one in rounds]
    plain = [(one["plain"] + one["plain again"]) / 2 for one in taken]
    run = [(one["run"] + one["run again"]) / 2 for one in taken]
    return {
        "plain_s": spread(plain),
        "run_s": spread(run),
        "added_s": spread(b - a for a, b in zip(plain, run, strict=True)),
        "added_to_fastest_s": round(
            min(min(one["run"], one["run again"]) for one in taken)
            - min(min(one["plain"], one["plain again"]) for one in taken),
            4,
        ),
        "ratio": spread(b / a for a, b in zip(plain, run, strict=True)),
        "two_plain_apart_s": spread(one["plain again"] - one["plain"] for one in taken),
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
        command_once(arm, bytecode=bytecode)  # files come into memory, bytecode onto the disk
    rounds: list[dict[str, Figures]] = []
    for at in range(options.rounds):
        order = ROUND if at % 2 == 0 else (*ROUND[1::-1], *ROUND[:1:-1])
        rounds.append({arm: command_once(arm, bytecode=bytecode) for arm in order})
        print(at, {arm: round(one.wall, 3) for arm, one in rounds[-1].items()}, flush=True)
    result = {
        "machine": machine(),
        "bytecode": bytecode,
        **{figure: differences(rounds, figure) for figure in ("wall", "cpu", "begun")},
        "rounds": [{arm: asdict(one) for arm, one in each.items()} for each in rounds],
    }
    for figure in ("wall", "cpu", "begun"):
        print(figure, json.dumps(result[figure]))
    keep(result, options.out)


if __name__ == "__main__":
    main()
