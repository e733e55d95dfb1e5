"""Gates whose arms step in turns, of equal revisions and of planted slow-downs of 5 %.

``python -m benchmarks.gating_in_turns --out FILE --home DIR``: lanes side by side, each with
processors of its own and a repository of its own. On a GPU some lanes gate a training that the GPU
bounds; these take the GPU one after the other. No gate begins or goes on after ``--seconds``.
What is in the file is kept: another call adds to it.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from benchmarks.gating import LEAVES, Case, plant, summarize
from benchmarks.machine import machine, versions, write_result
from benchmarks.switching import cut_lanes
from gapless.gate.figures import BASE, NEW

TRAININGS: Final = Path(__file__).parent / "trainings"
SHARE: Final = 0.05
MIN_S: Final = {False: 60.0, True: 120.0}  # that a gate takes at least; with something planted
PASSES: Final = 1000  # over the ballast, whose time is measured
TIMED: Final = f"""
import time, torch
from gated_on_gpu import make_ballast
ballast = make_ballast()
sync = torch.cuda.synchronize if ballast.is_cuda else lambda: None
for _ in range(3):
    sync(); start = time.perf_counter()
    for _ in range({PASSES}): ballast.add_(1)
    sync(); seconds = (time.perf_counter() - start) / {PASSES}
print(seconds)
"""


@dataclass(frozen=True)
class Kind:
    """A training, how its arms are run, where something is planted, and the leaf that is right."""

    script: str
    options: tuple[str, ...]
    leaves: Mapping[str, str]


KINDS: Final = {
    "processor": Kind("gated.py", ("--arm", "4s"), LEAVES),
    "gpu": Kind(
        "gated_on_gpu.py",
        ("--arm", "2s"),
        {"loop": "busy.elementwise", "optimizer": "busy.optimizer"},
    ),
}


@dataclass(frozen=True)
class Lane:
    """A repository and its processors; ``pass_s``: the time of a pass over the GPU's ballast."""

    name: str
    kind: Kind
    folder: Path
    processors: Sequence[int]
    environment: Mapping[str, str]
    pass_s: float
    budget_s: float  # of a set of arms

    def make(self) -> None:
        """Make the repository."""
        self.folder.mkdir(parents=True)
        shutil.copy(TRAININGS / self.kind.script, self.folder)
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "training")):
            subprocess.run(("git", *words), cwd=self.folder, check=True)  # noqa: S607

    def write(self, case: Case, step_ns: float) -> int | None:
        """Write the source of a case; return the number of the planted line."""
        text = (TRAININGS / self.kind.script).read_text(encoding="utf-8")
        number = None
        if case.place is not None and self.kind is KINDS["gpu"]:
            passes = math.ceil(case.share * step_ns / 1e9 / self.pass_s)
            mark = f"# what is planted in the {case.place} stands here"
            name = "self.ballast" if case.place == "optimizer" else "ballast"
            number = text[: text.index(mark)].count("\n") + 1
            text = text.replace(mark, f"[{name}.add_(1) for _ in range({passes})]")
        elif case.place is not None:
            text, number = plant(text, case, step_ns)
        (self.folder / self.kind.script).write_text(text, encoding="utf-8")
        return number

    def gate(self, options: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run ``gapless gate`` there."""
        bound = ("taskset", "-c", ",".join(map(str, self.processors)), sys.executable)
        words = ("-m", "gapless", "gate", "--against", "git:HEAD", "--json", *options)
        return subprocess.run(
            (*bound, *words, *self.kind.options, "--", sys.executable, self.kind.script),
            cwd=self.folder, env=dict(self.environment), capture_output=True, text=True,
            check=False, timeout=seconds,
        )  # fmt: skip


def judge(lane: Lane, case: Case, step_ns: float, seconds: float, target: str) -> dict[str, Any]:
    """Run a gate; return what it said, and whether that is right."""
    number = lane.write(case, step_ns)
    start_s = time.monotonic()
    row: dict[str, Any] = {"lane": lane.name, "place": case.place, "share": case.share}
    budget = f"{min(seconds / 2, lane.budget_s):.0f}s"
    options = ("--target", target, "--budget", budget, "--save", "measured.json")
    try:
        process = lane.gate(options, seconds)
    except subprocess.TimeoutExpired:
        return {**row, "error": "no time was left"}
    row["seconds"] = round(time.monotonic() - start_s, 1)
    if process.returncode not in {0, 1}:
        return {**row, "error": f"{process.returncode}: {process.stderr[-1500:]}"}
    said = json.loads(process.stdout)
    keys = ("verdict", "suspected", "slowdown", "smallest_visible", "step_ns", "arms", "notes")
    row |= {key: said[key] for key in keys}
    measured = json.loads((lane.folder / "measured.json").read_text(encoding="utf-8"))
    row["in_turns"] = all(arm["alternates"] for arm in measured["arms"] if not arm["windowed"])
    row["on_device"] = all(arm["is_on_device"] for arm in measured["arms"] if not arm["windowed"])
    row["pairs"] = list(compare_pairs(measured["arms"]))
    if case.place is not None and said["verdict"] == "red":
        row["leaf"] = said["grown"][0]["leaf"] if said["grown"] else None
        row["leaf_is_right"] = lane.kind.leaves[case.place] in str(row["leaf"])
        row["line"] = said["line"] and said["line"]["line"]
        row["line_is_right"] = row["line"] == number
    return row


def compare_pairs(arms: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """Yield of each pair the median of its slices' ratios (logarithms), and their spread."""
    blocks = {(arm["turn"], arm["side"]): arm["blocks"] for arm in arms if not arm["windowed"]}
    for turn, side in blocks:
        if side == NEW and (turn, BASE) in blocks:
            sides = zip(blocks[turn, NEW], blocks[turn, BASE], strict=False)
            ratios = [math.log(new / base) for new, base in sides]
            yield round(statistics.median(ratios), 4), round(statistics.pstdev(ratios), 4)


def list_cases(lane_number: int, kind: Kind, count: int, *, plants_all: bool) -> list[Case]:
    """Return the gates of a lane: one of equal revisions, one with something planted, in turns.

    ``plants_all``: none of equal revisions.
    """
    places = list(kind.leaves)
    if plants_all:
        return [Case("git", places[(lane_number + n) % len(places)], SHARE) for n in range(count)]
    return [
        Case("git", places[(lane_number + n // 2) % len(places)], SHARE) if n % 2 else Case("git")
        for n in range(count)
    ]


def make_lanes(options: argparse.Namespace, home: Path) -> list[Lane]:
    """Make the lanes, those of the GPU first."""
    kinds = ["gpu"] * options.gpu_lanes + ["processor"] * options.lanes
    shares = cut_lanes(len(kinds), options.cores)
    pass_s = _time_pass() if options.gpu_lanes else 0.0
    lanes: list[Lane] = []
    for number, (kind, processors) in enumerate(zip(kinds, shares, strict=True)):
        name = f"{kind}-{number}"
        variables = {"GATED_HOME": str(home), "GATED_LANE": name, "PYTHONFAULTHANDLER": "1"}
        environment = {**os.environ, **variables}
        lanes.append(
            Lane(name, KINDS[kind], home / name, processors, environment, pass_s, options.budget)
        )
        lanes[-1].make()
    return lanes


def _time_pass() -> float:
    process = subprocess.run(
        (sys.executable, "-c", TIMED), cwd=TRAININGS, capture_output=True, text=True, check=True
    )
    return float(process.stdout)


def main() -> None:
    """Run the gates and write what came out."""
    options = _read_options()
    end_s = time.monotonic() + options.seconds
    rows = [row for path in (options.out, *options.merge) for row in _read_rows(path)]
    writing = Lock()
    if options.merge:
        print(write_result(describe(rows), options.out))
        return

    def run_lane(numbered: tuple[int, Lane]) -> None:
        number, lane = numbered
        step_ns = options.step_ms * 1e6
        plants_all = step_ns > 0
        for case in list_cases(number, lane.kind, options.gates, plants_all=plants_all):
            seconds = end_s - time.monotonic()
            if seconds < MIN_S[case.place is not None] * options.scale:
                continue
            if case.place is not None and not step_ns:
                continue
            row = judge(lane, case, step_ns, seconds, options.target)
            step_ns = step_ns or (row.get("step_ns") or {}).get("base") or 0.0
            with writing:
                rows.append(row)
                print(json.dumps(row), flush=True)
                write_result(describe(rows), options.out)

    # arms of a gate that was out of time may still write there
    with tempfile.TemporaryDirectory(dir=options.home, ignore_cleanup_errors=True) as scratch:
        lanes = make_lanes(options, Path(scratch))
        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(run_lane, enumerate(lanes)))
    print(json.dumps(describe(rows)["summary"]))


def _read_rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["gates"] if path.exists() else []


def describe(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is written of some gates."""
    timed = [row for row in rows if row.get("error") != "no time was left"]
    torch = versions(("torch",))["torch"]
    by_kind = {
        kind: summarize([row for row in timed if row["lane"].startswith(kind)]) for kind in KINDS
    }
    return {
        "machine": {**machine(), "torch": torch},
        "summary": {**summarize(timed), "by_kind": by_kind},
        "gates": timed,
    }


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--merge", type=Path, nargs="+", default=[], help="only add these files")
    parser.add_argument("--home", type=Path, help="the folder of the repositories")
    parser.add_argument("--gpu-lanes", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=1, help="of the processors alone")
    parser.add_argument("--cores", type=int, default=2, help="processors of a lane")
    parser.add_argument("--gates", type=int, default=4, help="of a lane")
    parser.add_argument(
        "--step-ms",
        type=float,
        default=0.0,
        help="of the training as it is, where that is known: all gates have something planted",
    )
    parser.add_argument("--target", default="3.5%")
    parser.add_argument("--seconds", type=float, default=480.0, help="all of it")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds of a set of arms")
    parser.add_argument("--scale", type=float, default=1.0, help="of the time a gate needs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
