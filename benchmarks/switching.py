"""Whether edits switched in one process are measured as in fresh ones, and how long each way takes.

``python -m benchmarks.switching OUT.json [--device cuda] [--jobs N] [--only CASE …]``: of the menus
of the zoo's cases of one rank, every line that can be switched while a training runs. Cases run in
lanes, each on processors of its own. Written after each case; cases that are in the file are left
as they are.
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from benchmarks.menus.recording import ROOT, RecordingError, command, record
from benchmarks.menus.resolve import resolve_menu
from gapless.errors import GaplessError
from gapless.model.edit import Applicability, edit_from_json
from gapless.model.trial import Method, Side, Trial
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.arms.blocks import read_blocks
from gapless.verify.arms.switchable import explain_obstacle
from gapless.verify.in_process import conduct_both_ways
from gapless.verify.specs import ArmMode, Candidate, TrialSettings
from tests.zoo.cases import CASES, Case

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

RECORDED_S: Final = 6.0
TRAINING_S: Final = 1e6  # nothing but the arms ends it
MAX_GROWTH: Final = 3.0  # times the budget: to it a trial in fresh processes may grow
TOPOLOGY: Final = "/sys/devices/system/cpu/cpu{}/topology/{}"


def main() -> None:
    """Measure what is not in the file yet, and write how both ways agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", default=[], help="cases")
    parser.add_argument("--jobs", type=int, default=1, help="lanes: cases at the same time")
    parser.add_argument("--cores", type=int, default=2, help="processors of a lane")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds in fresh processes")
    parser.add_argument("--switched", type=float, default=45.0, help="seconds in one process")
    parser.add_argument(
        "--alone", type=int, default=7, help="cases whose first line also runs alone"
    )
    parser.add_argument("--minutes", type=float, help="after these no case begins")
    options = parser.parse_args()
    results = json.loads(options.out.read_text())["cases"] if options.out.exists() else {}
    cases = list_cases(options.device, options.only, results)
    end_s = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    spawn = multiprocessing.get_context("spawn")
    lanes: Queue[list[int]] = spawn.Queue()
    for lane in cut_lanes(options.jobs, options.cores):
        lanes.put(lane)
    budgets = options.budget, options.switched
    with ProcessPoolExecutor(options.jobs, spawn, bind, (lanes,)) as pool:
        waiting = {
            pool.submit(
                measure, case.name, options.device, budgets, end_s, alone=index < options.alone
            ): case.name
            for index, case in enumerate(cases)
        }
        for done in as_completed(waiting):
            measured, name = done.result(), waiting[done]
            if measured is not None:
                results[name] = measured
                write(options.out, results)
            print(name, measured and measured.get("seconds", measured), flush=True)
    print(json.dumps(summarise(results), indent=1))


def list_cases(device: str, only: Sequence[str], done: Mapping[str, Any]) -> list[Case]:
    """Return the cases that may have something to switch: those with the most lines of it first."""
    size = "g" if device == "cuda" else "c"
    cases = [
        case
        for case in CASES.values()
        if case.size == size and case.ranks == 1 and case.name not in done
        and (not only or case.name in only) and _count_switchable(case)
    ]  # fmt: skip
    return sorted(cases, key=_count_switchable, reverse=True)


def _count_switchable(case: Case) -> int:
    edits = [
        tuple(map(edit_from_json, choice.edits)) for choice in case.menu if choice.variant is None
    ]
    return sum(bool(line) and explain_obstacle(line) is None for line in edits)


# ── Lanes ───────────────────────────────────────────────────────────────────────────────────────


def cut_lanes(jobs: int, cores: int) -> list[list[int]]:
    """Return the processors of each lane, threads of one core side by side; one lane has all."""
    allowed = sorted(os.sched_getaffinity(0), key=_core)
    if jobs == 1 or jobs * cores > len(allowed):
        return [allowed] * jobs
    return [allowed[lane * cores : (lane + 1) * cores] for lane in range(jobs)]


def _core(processor: int) -> tuple[int, int, int]:
    names = ("physical_package_id", "core_id")
    paths = [Path(TOPOLOGY.format(processor, name)) for name in names]
    package, core = (int(path.read_text()) if path.exists() else 0 for path in paths)
    return package, core, processor


def bind(lanes: "Queue[list[int]]") -> None:
    """Bind this process, and all that it starts, to the processors of a lane."""
    os.sched_setaffinity(0, lanes.get())


# ── A case ──────────────────────────────────────────────────────────────────────────────────────


def measure(
    name: str, device: str, budgets: tuple[float, float], end_s: float, *, alone: bool
) -> dict[str, Any] | None:
    """Measure a case both ways; ``None`` where nothing of its menu can be switched."""
    if time.monotonic() > end_s:
        return None
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_facts = facts(load(record(case, device, RECORDED_S, Path(folder) / "run")))
            candidates = tuple(
                Candidate((line.choice.name,), "", edits, Applicability.EQUIVALENT)
                for line in resolve_menu(case, run_facts)
                if (edits := tuple(map(edit_from_json, line.edits)))
                and line.choice.variant is None
                and explain_obstacle(edits) is None
            )
            if not candidates:
                return None
            plan = ArmPlan(
                tuple(command(case, device, TRAINING_S)),
                Path(folder) / "arms",
                variables={"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
            )
            return compare(candidates, plan, budgets, alone=alone)
        except (GaplessError, RecordingError, OSError) as error:
            return {"failed": str(error)[-300:]}


def compare(
    candidates: tuple[Candidate, ...], plan: ArmPlan, budgets: tuple[float, float], *, alone: bool
) -> dict[str, Any]:
    """Return what both ways say of some edits, and what they take; of the first ``alone``, too."""
    trials: dict[str, Trial] = {}
    seconds: dict[str, float] = {}
    notes: dict[str, Any] = {}
    for name, tried, budget_s in (
        ("in_process", candidates, budgets[1]),
        ("first_alone", candidates[:1], budgets[1]),
        ("fresh", candidates, budgets[0]),
    ):
        if name == "first_alone" and not alone:
            continue
        begun_s = time.monotonic()
        settings = TrialSettings(
            name, plan.command, windows=False, budget_s=budget_s,
            max_budget_s=MAX_GROWTH * budget_s,
            mode=ArmMode.FRESH if name == "fresh" else ArmMode.SWITCHED,
        )  # fmt: skip
        try:
            trials[name] = conduct_both_ways(tried, settings, make_runner(plan), lambda _: None)
            notes[name] = trials[name].notes
        except GaplessError as error:
            notes[name] = [str(error)[-300:]]
        seconds[name] = round(time.monotonic() - begun_s, 1)
    sides = {name: {side.fixes[0]: side for side in trial.sides} for name, trial in trials.items()}
    lines = [candidate.fixes[0] for candidate in candidates]
    return {
        "seconds": seconds,
        "decided_s": {
            name: time_blocks(trials.get(name), tried)
            for name, tried in (("in_process", candidates), ("first_alone", candidates[:1]))
        },
        "notes": notes,
        "edits": {
            line: {name: _describe(sides.get(name, {}).get(line)) for name in trials}
            for line in lines
        },
    }


def time_blocks(trial: Trial | None, candidates: Sequence[Candidate]) -> float | None:
    """Return the seconds from the first step to the last one of a trial in one process."""
    folder = next((arm.folder for arm in trial.arms if arm.folder), None) if trial else None
    if folder is None:
        return None
    steps = read_blocks(load(Path(folder)), [len(side.edits) for side in candidates])
    return None if steps is None else round(steps.seconds, 1)


def _describe(side: Side | None) -> dict[str, Any] | None:
    if side is None or side.speedup is None:
        return None
    is_switched = side.method is Method.IN_PROCESS
    return {**asdict(side.speedup), "verdict": side.verdict.value, "is_switched": is_switched}


# ── All cases ───────────────────────────────────────────────────────────────────────────────────


def write(out: Path, results: Mapping[str, Any]) -> None:
    """Write the results so far; a run that is killed meanwhile leaves the former file."""
    part = out.with_suffix(".part")
    part.write_text(json.dumps({"summary": summarise(results), "cases": results}, indent=1) + "\n")
    part.replace(out)


def summarise(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many lines agree: their intervals overlap, or their verdicts are the same."""
    pairs = {
        f"{case}: {line}": (edit["fresh"], edit["in_process"])
        for case, result in results.items()
        for line, edit in result.get("edits", {}).items()
        if edit.get("fresh") and edit.get("in_process")
    }
    overlapping = [
        line for line, (a, b) in pairs.items() if a["low"] <= b["high"] and b["low"] <= a["high"]
    ]
    disagreeing = [
        f"{line}: fresh {_interval(a)}, in one process {_interval(b)}"
        for line, (a, b) in pairs.items()
        if line not in overlapping and a["verdict"] != b["verdict"]
    ]
    timed = [result for result in results.values() if "seconds" in result]
    compared = {line.partition(":")[0] for line in pairs}
    return {
        "menus": len(compared),
        "lines": len(pairs),
        "lines_not_compared": sum(len(result["edits"]) for result in timed) - len(pairs),
        "agree": len(pairs) - len(disagreeing),
        "overlap": len(overlapping),
        "same_verdict": sum(a["verdict"] == b["verdict"] for a, b in pairs.values()),
        "decided": sum(b["verdict"] != "undecided" for _, b in pairs.values()),
        "decided_fresh": sum(a["verdict"] != "undecided" for a, _ in pairs.values()),
        "disagreements": disagreeing,
        "median_difference": _median(
            [abs(math.log(a["mid"] / b["mid"])) for a, b in pairs.values()]
        ),
        "failed": {case: r["failed"] for case, r in results.items() if "failed" in r},
        "median_seconds": {
            name: _median([r["seconds"][name] for r in timed if name in r["seconds"]])
            for name in ("fresh", "in_process", "first_alone")
        },
        "seconds_after_first_step": {
            name: _spread([result["decided_s"][name] for result in timed])
            for name in ("in_process", "first_alone")
        },
    }


def _interval(edit: Mapping[str, Any]) -> str:
    return f"{edit['verdict']} {edit['low']:.3f} … {edit['high']:.3f}"


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {"median": _median(known), "most": max(known, default=None)}


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


if __name__ == "__main__":
    main()
