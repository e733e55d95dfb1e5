"""Measure a menu again, with fresh processes: what ``gapless try`` would say of each line."""

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.menus.blocks import Interval
from benchmarks.menus.recording import ROOT, command, record
from benchmarks.menus.resolve import lines
from gapless.model.edit import Applicability, Edit, from_json
from gapless.model.trial import Side, Verdict
from gapless.store.recordings import load
from gapless.study.recorded.facts import facts
from gapless.verify.arm import ArmPlan, runner
from gapless.verify.plan import conduct
from gapless.verify.wanted import Candidate, TrialSettings
from tests.zoo.cases import CASES, Case
from tests.zoo.menus import CEILING

ENDLESS_S = 3600.0  # a training that its trial ends
RECORDED_S: Final = 5.0  # of the run that tells where the edits go


def repeat(kept: Path, device: str, budget_s: float, say: Callable[[str], None]) -> str:
    """Try the edits of a record's menu, add what came of it, and give that in a line.

    The lines that a kept run has its edits at may have moved since: a short new one tells where
    they are today. Raises ``RecordingError``.
    """
    path = kept / "menu.json"
    menu = json.loads(path.read_text())
    case = CASES[menu["case"]]
    line = command(case, device, ENDLESS_S)
    line[line.index("tests/zoo/run.py")] = str(ROOT / "tests" / "zoo" / "run.py")
    with tempfile.TemporaryDirectory(prefix="gapless-zoo-") as place:
        say("recording, to see where the edits go")
        edits = edits_today(case, device, Path(place))
        some = [one for one in menu["menu"] if edits.get(one["name"]) and one["speedup"]]
        settings = TrialSettings("zoo", tuple(line), budget_s=budget_s, windows=False)
        run_arm = runner(ArmPlan(tuple(line), Path(place)))
        wanted = tuple(_candidate(one, edits[one["name"]]) for one in some)
        trial = conduct(wanted, settings, run_arm, say)
    told = [told_of(one, side) for one, side in zip(some, trial.sides, strict=True)]
    menu["repeated"] = told
    path.write_text(json.dumps(menu, indent=1) + "\n")
    return ", ".join(f"{one['name']} {_spoken(one)}" for one in told)


def edits_today(case: Case, device: str, place: Path) -> dict[str, tuple[Edit, ...]]:
    """Give the edits of each line of a case's menu, as a new run of it has them."""
    known = facts(load(record(case, device, RECORDED_S, place / "recorded")))
    return {one.choice.name: tuple(map(from_json, one.edits)) for one in lines(case, known)}


def _candidate(line: Mapping[str, Any], edits: tuple[Edit, ...]) -> Candidate:
    name: str = line["name"]
    how = Applicability.TRIAL if line["role"] == CEILING else Applicability.RISKY
    return Candidate((name,), name, edits, how)


def told_of(line: Mapping[str, Any], side: Side) -> dict[str, Any]:
    """Give what a trial says of a line; a side that was not what it should be has no figure."""
    before = Interval(**line["speedup"])
    found = None if side.verdict is Verdict.REFUSED or side.why is not None else side.speedup
    return {
        "name": line["name"],
        "speedup": None if found is None else asdict(found),
        "agrees": None if found is None else agree(before, found),
        "why": side.why,
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
