"""Measure a menu again, with fresh processes: what ``gapless try`` would say of each line."""

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from benchmarks.menus.blocks import Estimate
from benchmarks.menus.recording import ROOT, command, record
from benchmarks.menus.resolve import resolve_menu
from gapless.model.edit import Applicability, Edit, edit_from_json
from gapless.model.trial import Side, TrialVerdict
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.plan import conduct
from gapless.verify.specs import Candidate, TrialSettings
from tests.zoo.cases import CASES, Case
from tests.zoo.menus import CEILING

ENDLESS_S = 3600.0  # a training that its trial ends
RECORDED_S: Final = 5.0  # of the run that tells where the edits go


def repeat(
    folder: Path, device: str, budget_s: float, report_progress: Callable[[str], None]
) -> str:
    """Try the edits of a record's menu, add what came of it, and give that in a line.

    The lines that a kept run has its edits at may have moved since: a short new one tells where
    they are today. Raises ``RecordingError``.
    """
    path = folder / "menu.json"
    menu = json.loads(path.read_text())
    case = CASES[menu["case"]]
    command_line = command(case, device, ENDLESS_S)
    command_line[command_line.index("tests/zoo/run.py")] = str(ROOT / "tests" / "zoo" / "run.py")
    with tempfile.TemporaryDirectory(prefix="gapless-zoo-") as scratch:
        report_progress("recording, to see where the edits go")
        edits = edits_today(case, device, Path(scratch))
        measured = [row for row in menu["menu"] if edits.get(row["name"]) and row["speedup"]]
        settings = TrialSettings("zoo", tuple(command_line), budget_s=budget_s, windows=False)
        run_arm = make_runner(ArmPlan(tuple(command_line), Path(scratch)))
        candidates = tuple(_candidate(row, edits[row["name"]]) for row in measured)
        trial = conduct(candidates, settings, run_arm, report_progress)
    repeats = [repeated_row(row, side) for row, side in zip(measured, trial.sides, strict=True)]
    menu["repeated"] = repeats
    path.write_text(json.dumps(menu) + "\n")
    return ", ".join(f"{row['name']} {_describe(row)}" for row in repeats)


def edits_today(case: Case, device: str, folder: Path) -> dict[str, tuple[Edit, ...]]:
    """Return the edits of each line of a case's menu, as a new run of it has them."""
    run_facts = facts(load(record(case, device, RECORDED_S, folder / "recorded")))
    return {
        line.choice.name: tuple(map(edit_from_json, line.edits))
        for line in resolve_menu(case, run_facts)
    }


def _candidate(line: Mapping[str, Any], edits: tuple[Edit, ...]) -> Candidate:
    name: str = line["name"]
    applicability = Applicability.ABLATION if line["role"] == CEILING else Applicability.RISKY
    return Candidate((name,), name, edits, applicability)


def repeated_row(line: Mapping[str, Any], side: Side) -> dict[str, Any]:
    """Return what a trial says of a line; a side that was not what it should be has no figure."""
    before = Estimate(**line["speedup"])
    speedup = None if side.verdict is TrialVerdict.REFUSED or side.why is not None else side.speedup
    return {
        "name": line["name"],
        "speedup": None if speedup is None else asdict(speedup),
        "agrees": None if speedup is None else is_agreed(before, speedup),
        "why": side.why,
    }


def is_agreed(earlier: Estimate, later: Estimate) -> bool:
    """Return whether two intervals differ by no more than their errors, taken together, allow."""
    distance = abs(math.log(earlier.mid / later.mid))
    halves = (math.log(estimate.high / estimate.low) / 2 for estimate in (earlier, later))
    return distance <= math.hypot(*halves)


def _describe(row: dict[str, Any]) -> str:
    if row["speedup"] is None:
        return f"not measured ({row['why']})"
    word = "agrees" if row["agrees"] else "differs"
    return f"×{row['speedup']['mid']:.3f} {word}"
