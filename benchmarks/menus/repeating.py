"""Measure a menu again, with fresh processes: what ``gapless try`` would say of each line."""

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.menus.blocks import Interval
from benchmarks.menus.recording import ROOT, command
from gapless.model.edit import Applicability, from_json
from gapless.verify.arm import ArmPlan, runner
from gapless.verify.plan import conduct
from gapless.verify.wanted import Candidate, TrialSettings
from tests.zoo.cases import CASES

ENDLESS_S = 3600.0  # a training that its trial ends


def repeat(record: Path, device: str, budget_s: float, say: Callable[[str], None]) -> str:
    """Try the edits of a record's menu, add what came of it, and give that in a line."""
    path = record / "menu.json"
    menu = json.loads(path.read_text())
    some = [line for line in menu["menu"] if line["edits"] and line["speedup"] is not None]
    case = CASES[menu["case"]]
    line = command(case, device, ENDLESS_S)
    line[line.index("tests/zoo/run.py")] = str(ROOT / "tests" / "zoo" / "run.py")
    with tempfile.TemporaryDirectory(prefix="gapless-zoo-") as place:
        settings = TrialSettings("zoo", tuple(line), budget_s=budget_s, windows=False)
        run_arm = runner(ArmPlan(tuple(line), Path(place)))
        trial = conduct(tuple(map(_candidate, some)), settings, run_arm, say)
    told = [_told(one, side.speedup, side.why) for one, side in zip(some, trial.sides, strict=True)]
    menu["repeated"] = told
    path.write_text(json.dumps(menu, indent=1) + "\n")
    return ", ".join(f"{one['name']} {_spoken(one)}" for one in told)


def _candidate(line: dict[str, Any]) -> Candidate:
    edits = json.loads(json.dumps(line["edits"]).replace('"/project/', f'"{ROOT}/'))
    return Candidate(
        (line["name"],), line["name"], tuple(map(from_json, edits)), Applicability.RISKY
    )


def _told(line: dict[str, Any], found: Interval | None, why: str | None) -> dict[str, Any]:
    before = Interval(**line["speedup"])
    return {
        "name": line["name"],
        "speedup": None if found is None else asdict(found),
        "agrees": None if found is None else agree(before, found),
        "why": why,
    }


def agree(one: Interval, other: Interval) -> bool:
    """Say whether two intervals differ by no more than their errors, taken together, allow."""
    apart = abs(math.log(one.mid / other.mid))
    halves = (math.log(each.high / each.low) / 2 for each in (one, other))
    return apart <= math.hypot(*halves)


def _spoken(told: dict[str, Any]) -> str:
    if told["speedup"] is None:
        return f"not measured ({told['why']})"
    word = "agrees" if told["agrees"] else "differs"
    return f"×{told['speedup']['mid']:.3f} {word}"
