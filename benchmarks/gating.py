"""Gates of equal revisions, and of planted slow-downs: verdict, leaf and line.

Gates run against git and against a stored baseline, on a training in a repository made for it.
With ``--jobs`` each has its own processors. No gate begins after ``--seconds``.
"""

import argparse
import json
import math
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, versions, write_result
from gapless.gate.baseline import FILE, read_baseline

SOURCE = Path(__file__).parent / "trainings" / "gated.py"
SCRIPT = "gated.py"
BATCH = 8  # samples, each of which pays what is planted in the loader
SIZES = (0.05, 0.1, 0.2)  # of a step
LEAVES = {"loader": "idle.data", "optimizer": "optimizer", "loop": "host"}  # part of what is right
PLACES = tuple(LEAVES)
OPTIONS = ("--arm", "2s", "--budget", "60s", "--json")


@dataclass(frozen=True)
class Case:
    """One gate: ``place`` is None where nothing is planted."""

    mode: str  # "git" | "baseline"
    place: str | None = None
    share: float = 0.0


def plant(text: str, case: Case, step_ns: float) -> tuple[str, int]:
    """Return the source with a costly line at its mark, and the number of that line.

    The line keeps the processor busy for the planted share of ``step_ns``, to some microseconds:
    a sleep of so little would last twice as long.
    """
    lines = text.splitlines()
    (index,) = (row for row, line in enumerate(lines) if f"planted in the {case.place} " in line)
    seconds = case.share * step_ns / 1e9 / (BATCH if case.place == "loader" else 1)
    indentation = lines[index][: -len(lines[index].lstrip())]
    clock = "time.perf_counter()"
    busy = f"all(iter(lambda end={clock} + {seconds:.7f}: {clock} < end, False))"
    lines[index] = f"{indentation}{busy}"
    return "\n".join(lines) + "\n", index + 1


def list_cases(n_equal: int) -> Iterator[Case]:
    """List the gates: those with something planted first, then equal ones, both ways in turns."""
    for share in SIZES:
        for place in PLACES:
            yield Case("git", place, share)
    for place in PLACES:
        yield Case("baseline", place, SIZES[-1])
    for number in range(n_equal):
        yield Case(("git", "baseline")[number % 2])


@dataclass(frozen=True)
class Slot:
    """A repository of its own, the processors of its gates, and the step of its baseline."""

    folder: Path
    processors: frozenset[int]
    step_ns: float = math.nan

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program there."""
        prefix = ("taskset", "-c", ",".join(map(str, sorted(self.processors))))
        return subprocess.run(
            (*prefix, *words), cwd=self.folder, capture_output=True, text=True, check=False
        )

    def gate(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run ``gapless gate`` there."""
        words = ("-m", "gapless", "gate", *options, "--", sys.executable, SCRIPT)
        return self.run(sys.executable, *words)


def make_slot(folder: Path, processors: frozenset[int]) -> Slot:
    """Make the repository, and its baseline."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(SOURCE, folder / SCRIPT)
    slot = Slot(folder, processors)
    slot.run("git", "init", "-q")
    slot.run("git", "add", SCRIPT)
    slot.run(
        "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "training"
    )
    written = slot.gate("--update", "--arm", "2s")
    if written.returncode:
        raise SystemExit(f"no baseline could be made: {written.stderr}")
    (session,) = read_baseline(folder / FILE).sessions
    return replace(slot, step_ns=statistics.median(session.step_times))


def judge(slot: Slot, case: Case) -> dict[str, Any]:
    """Run a gate; return what it said, and whether that is right."""
    text = SOURCE.read_text(encoding="utf-8")
    number = None
    if case.place is not None:
        text, number = plant(text, case, slot.step_ns)
    (slot.folder / SCRIPT).write_text(text, encoding="utf-8")
    against = ("--against", "git:HEAD") if case.mode == "git" else ()
    start_s = time.monotonic()
    process = slot.gate(*against, *OPTIONS)
    row: dict[str, Any] = {**asdict(case), "code": process.returncode, "base_ns": slot.step_ns}
    row["seconds"] = round(time.monotonic() - start_s, 1)
    if process.returncode not in {0, 1}:
        return {**row, "error": process.stderr[-500:]}
    said = json.loads(process.stdout)
    keys = ("verdict", "suspected", "slowdown", "smallest_visible", "step_ns", "arms")
    row |= {key: said[key] for key in keys}
    if case.place is not None and said["verdict"] == "red":
        row["leaf"] = said["grown"][0]["leaf"] if said["grown"] else None
        row["leaf_is_right"] = LEAVES[case.place] in str(row["leaf"])
        row["line"] = said["line"] and said["line"]["line"]
        row["line_is_right"] = row["line"] == number
    return row


def summarize(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count what was right."""
    valid = [row for row in rows if "error" not in row]
    equal = [row for row in valid if row["place"] is None]
    planted = [row for row in valid if row["place"] is not None]
    red = [row for row in planted if row["verdict"] == "red"]
    due = [
        row
        for row in planted
        if row["smallest_visible"] is not None and row["smallest_visible"] <= row["share"]
    ]
    return {
        "equal": len(equal),
        "false_red": sum(row["verdict"] == "red" for row in equal),
        "planted": len(planted),
        "red": len(red),
        "visible": len(due),
        "visible_and_red": sum(row["verdict"] == "red" for row in due),
        "right_leaf": sum(row["leaf_is_right"] for row in red),
        "right_line": sum(row["line_is_right"] for row in red),
        "errors": len(rows) - len(valid),
    }


def main() -> None:
    """Run the gates and write what came out."""
    options = _read_options()
    cases = list(list_cases(options.equal))
    n_planted = len(cases) - options.equal
    cases = [*cases[:n_planted][: options.only], *cases[n_planted:]]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for row in run_cases(cases, options, options.keep or Path(scratch)):
            rows.append(row)
            print(json.dumps(row), flush=True)
            result = {
                "machine": {**machine(), "torch": versions(("torch",))["torch"]},
                "jobs": options.jobs,
                "summary": summarize(rows),
                "not_run": len(cases) - len(rows),
                "gates": rows,
            }
            write_result(result, options.out)
    print(json.dumps(summarize(rows)))


def run_cases(
    cases: Sequence[Case], options: argparse.Namespace, home: Path
) -> Iterator[dict[str, Any]]:
    """Yield what each gate said, several at a time."""
    end_s = time.monotonic() + options.seconds
    processors = sorted(os.sched_getaffinity(0))
    n_each = len(processors) // options.jobs  # side by side: threads of a core share a lane
    shares = [frozenset(processors[n_each * n :][:n_each]) for n in range(options.jobs)]
    free: queue.Queue[Slot] = queue.Queue()

    def run_case(case: Case) -> dict[str, Any] | None:
        if time.monotonic() > end_s:
            return None
        slot = free.get()
        try:
            return judge(slot, case)
        finally:
            free.put(slot)

    with ThreadPoolExecutor(options.jobs) as pool:
        for slot in pool.map(lambda n: make_slot(home / f"{n}", shares[n]), range(options.jobs)):
            free.put(slot)
        yield from (row for row in pool.map(run_case, cases) if row is not None)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="the folder of the repositories")
    parser.add_argument("--equal", type=int, default=30, help="gates of equal revisions")
    parser.add_argument("--only", type=int, help="the first so many of the planted ones")
    parser.add_argument("--seconds", type=float, default=420.0, help="no gate begins later")
    return parser.parse_args()


if __name__ == "__main__":
    main()
