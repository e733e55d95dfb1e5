"""Trainings with more than one fault, tuned: ``python -m benchmarks.tuning OUT.json``.

Each of ``tuned/`` is recorded, tuned (``gapless tune``), patched (``gapless fix --apply``), run as
patched, and restored; its bytes are compared. A step that fails is in the result, with what it
printed last. Docs: benchmarks/README.md.
"""

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, versions, write_result

TRAININGS: Final = Path(__file__).parent / "tuned"
_TIMEOUT_S: Final = 400.0
_TAIL: Final = 600  # characters of what a failed step printed
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A folder with one training alone, and what was done in it."""

    folder: Path
    script: str
    steps: list[Row]
    processors: Sequence[int]

    def run(self, name: str, *words: str) -> str | None:
        """Run a step; return what it printed, or ``None`` if it failed, which is kept."""
        start_s = time.monotonic()
        prefix = ("taskset", "-c", ",".join(map(str, self.processors)))
        try:
            done = subprocess.run(
                (*prefix, sys.executable, *words), cwd=self.folder, capture_output=True, text=True,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
            code, printed = done.returncode, done.stdout + done.stderr
            output = done.stdout
        except subprocess.TimeoutExpired:
            code, printed, output = None, "it was not done in time", ""
        row: Row = {"step": name, "code": code, "spent_s": round(time.monotonic() - start_s, 1)}
        if code != 0:
            row["printed"] = printed[-_TAIL:]
        self.steps.append(row)
        return output if code == 0 else None


def measure(script: Path, budget: str, processors: Sequence[int]) -> Row:
    """Tune, patch and restore one training on ``processors``; return what came of it."""
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), script.name, [], processors)
        copy = bench.folder / script.name
        shutil.copy(script, copy)
        gapless = ("-m", "gapless")
        bench.run("record", *gapless, "check", "--quiet", sys.executable, script.name)
        printed = bench.run(
            "tune",
            *gapless,
            "tune",
            "--yes",
            "--json",
            "--budget",
            budget,
            "--",
            sys.executable,
            script.name,
        )
        row: Row = {"training": script.stem, "steps": bench.steps}
        if printed is None:
            return row
        row |= _summarise(json.loads(printed))
        if not row["fixes"]:
            return row
        original = copy.read_bytes()
        if bench.run("fix --apply", *gapless, "fix", "--apply", "--force", "--yes") is not None:
            row["patched"] = copy.read_bytes() != original
            bench.run("patched", script.name)
            bench.run("fix --undo", *gapless, "fix", "--undo")
            row["restored"] = copy.read_bytes() == original
        return row


def _summarise(tuning: Row) -> Row:
    """Return what a tuning says, without its edits and arms."""
    return {
        **{name: tuning[name] for name in ("proven", "speedup", "before_ns", "after_ns")},
        "spent_s": tuning["spent_s"],
        "end": tuning["end"],
        "fixes": [fix["summary"] for fix in tuning["fixes"]],
        "tries": [
            {name: attempt[name] for name in ("fix", "predicted", "speedup", "verdict", "is_kept")}
            for attempt in tuning["tries"]
        ],
        "remaining": tuning["remaining"],
    }


def describe(row: Row) -> str:
    """Return a line on one training."""
    failed = [step["step"] for step in row["steps"] if step["code"] != 0]
    gain = row.get("speedup")
    words = [row["training"], "no gain proven" if gain is None else f"{gain['mid']:.2f}×"]
    if gain is not None:
        words.append(f"[{gain['low']:.2f} … {gain['high']:.2f}]")
    words.append(f"{row.get('spent_s', 0):.0f} s: {', '.join(row.get('fixes', ()))}")
    return " ".join(words) + (f" (failed: {', '.join(failed)})" if failed else "")


def main() -> None:
    """Measure all trainings, and write the result after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    parser.add_argument("--budget", metavar="TIME", default="90s")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time")
    options = parser.parse_args()
    scripts = [
        script
        for script in sorted(TRAININGS.glob("*.py"))
        if not options.only or script.stem in options.only
    ]
    rows: list[Row] = []
    for row in measure_all(scripts, options.budget, options.jobs):
        rows.append(row)
        print(describe(row), flush=True)
        result = {
            "budget": options.budget,
            "jobs": options.jobs,
            "machine": machine(),
            "versions": versions(("gapless", "torch")),
            "load_before": os.getloadavg()[0],
            "trainings": rows,
        }
        write_result(result, options.out)


def measure_all(scripts: Sequence[Path], budget: str, n_jobs: int) -> Iterator[Row]:
    """Yield what came of each training; each of ``n_jobs`` at a time has its own processors."""
    processors = sorted(os.sched_getaffinity(0))
    n_each = len(processors) // n_jobs
    lanes: queue.Queue[Sequence[int]] = queue.Queue()
    for number in range(n_jobs):
        lanes.put(processors[n_each * number :][:n_each])

    def run(script: Path) -> Row:
        lane = lanes.get()
        try:
            return measure(script, budget, lane)
        finally:
            lanes.put(lane)

    with ThreadPoolExecutor(n_jobs) as pool:
        for future in as_completed([pool.submit(run, script) for script in scripts]):
            yield future.result()


if __name__ == "__main__":
    main()
