"""Whether edits switched in one process are measured as in fresh ones, and how long each way takes.

``python -m benchmarks.switching OUT.json [--device cuda] [--only CASE …] [--jobs N]``: of the menus
of the zoo's cases of one rank, every line that can be switched while a training runs. Written after
each case; cases that are in the file are left as they are.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.menus.recording import ROOT, RecordingError, command, record
from benchmarks.menus.resolve import resolve_menu
from gapless.errors import GaplessError
from gapless.model.edit import Applicability, edit_from_json
from gapless.model.trial import Method, Side, Trial
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.arms.switchable import explain_obstacle
from gapless.verify.in_process import conduct_both_ways
from gapless.verify.specs import Candidate, TrialSettings
from tests.zoo.cases import CASES, Case

RECORDED_S: Final = 8.0
TRAINING_S: Final = 1e6  # nothing but the arms ends it


def main() -> None:
    """Measure what is not in the file yet, and write how both ways agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", default=[], help="cases")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds of each way")
    options = parser.parse_args()
    size = "g" if options.device == "cuda" else "c"
    results = json.loads(options.out.read_text())["cases"] if options.out.exists() else {}
    cases = [
        case
        for case in CASES.values()
        if case.size == size and case.ranks == 1 and case.name not in results
        and (not options.only or case.name in options.only)
    ]  # fmt: skip
    with ThreadPoolExecutor(options.jobs) as pool:
        measurements = pool.map(lambda case: measure(case, options.device, options.budget), cases)
        for case, measured in zip(cases, measurements, strict=True):
            if measured is not None:
                results[case.name] = measured
                document = {"summary": summarise(results), "cases": results}
                options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(case.name, measured and measured.get("seconds"), flush=True)
    print(json.dumps(summarise(results), indent=1))


def measure(case: Case, device: str, budget_s: float) -> dict[str, Any] | None:
    """Measure a case both ways; ``None`` where nothing of its menu can be switched."""
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
            return compare(candidates, plan, budget_s)
        except (GaplessError, RecordingError) as error:
            return {"failed": str(error)[-300:]}


def compare(candidates: tuple[Candidate, ...], plan: ArmPlan, budget_s: float) -> dict[str, Any]:
    """Return what both ways say of some edits; and the time for all of them, for the first."""
    settings = TrialSettings(
        "", plan.command, windows=False, budget_s=budget_s, max_budget_s=4 * budget_s
    )
    trials: dict[str, Trial] = {}
    seconds: dict[str, float] = {}
    for name, tried, is_fresh in (
        ("fresh", candidates, True),
        ("in_process", candidates, False),
        ("first_alone", candidates[:1], False),
    ):
        begun_s = time.monotonic()
        trial_settings = replace(settings, id=name, is_fresh=is_fresh, is_in_process=not is_fresh)
        trials[name] = conduct_both_ways(tried, trial_settings, make_runner(plan), lambda _: None)
        seconds[name] = round(time.monotonic() - begun_s, 1)
    fresh = {side.fixes[0]: side for side in trials["fresh"].sides}
    switched = {side.fixes[0]: side for side in trials["in_process"].sides}
    return {
        "seconds": seconds,
        "notes": trials["in_process"].notes,
        "edits": {
            name: {"fresh": _describe(side), "in_process": _describe(switched.get(name))}
            for name, side in fresh.items()
        },
    }


def _describe(side: Side | None) -> dict[str, Any] | None:
    if side is None or side.speedup is None:
        return None
    is_switched = side.method is Method.IN_PROCESS
    return {**vars(side.speedup), "verdict": side.verdict.value, "is_switched": is_switched}


def summarise(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many intervals overlap, and how far their middles lie apart."""
    pairs = [
        (edit["fresh"], edit["in_process"])
        for result in results.values()
        for edit in result.get("edits", {}).values()
        if edit["fresh"] and edit["in_process"]
    ]
    differences = [abs(math.log(a["mid"] / b["mid"])) for a, b in pairs]
    times = [result["seconds"] for result in results.values() if "seconds" in result]
    return {
        "menus": len(times),
        "edits": len(pairs),
        "overlap": sum(a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in pairs),
        "median_difference": _median(differences),
        "median_seconds": {
            name: _median([seconds[name] for seconds in times])
            for name in ("fresh", "in_process", "first_alone")
        },
    }


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


if __name__ == "__main__":
    main()
