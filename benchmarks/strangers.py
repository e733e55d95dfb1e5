"""The test on strangers: trainings that the rules were not made with (``tests/strangers``).

In this order, each in a commit of its own::

    python -m benchmarks.strangers record    # trains and records each: run.tar.zst
    python -m benchmarks.strangers answer    # what gapless says of it: answer.json
    python -m benchmarks.strangers measure   # what each change is worth: menu.json
    python -m benchmarks.strangers judge     # benchmarks/results/strangers.json

    python -m benchmarks.strangers again     # today's rules, which know them: strangers_again.json

``answer`` refuses a record that has a menu, ``measure`` one that has no answer.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.judging import figures, frozen, records, told
from benchmarks.judging.looking import look, opened
from benchmarks.judging.metrics import Judged
from benchmarks.judging.ours import says
from benchmarks.judging.told import OURS
from benchmarks.machine import keep, machine
from benchmarks.menus import recording
from benchmarks.menus.case import Asked, MeasuringError, measure_menu
from benchmarks.menus.resolve import lines
from gapless.model.facts import Facts
from gapless.store.recordings import load
from gapless.store.unpack import unpack
from gapless.study.recorded.facts import facts
from tests.strangers.cases import CASES
from tests.strangers.more_cases import SECOND
from tests.zoo.cases import Case

SOURCE: Final = "tests.strangers"
RECORDS: Final = records.STRANGERS
RESULT: Final = Path(__file__).parent / "results" / "strangers.json"
AGAIN: Final = RESULT.with_name("strangers_again.json")


def record_case(case: Case, _options: argparse.Namespace) -> str:
    """Train and record a case."""
    target = RECORDS / case.name / "run.tar.zst"
    if target.exists():
        return "is recorded"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as place:
        run = recording.record(case, "cpu", 0.0, Path(place), SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        left = recording.keep(run, target)
    return f"recorded, {target.stat().st_size} bytes; left out: {', '.join(left) or 'nothing'}"


def answer_case(case: Case, _options: argparse.Namespace) -> str:
    """Write down what gapless says of a case, before anybody knows what is true of it."""
    folder = RECORDS / case.name
    if (folder / "menu.json").exists():
        return "is measured already: too late to answer"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as place:
        one = records.parsed(_unmeasured(case, folder), folder / "run.tar.zst")
        _, priced = opened(one, Path(place))
        said = says(priced, one)
    found = {
        "thresholds": frozen.thresholds(),
        "fitted": frozen.fitted(),
        "judge": frozen.judge(),
    }
    kept = told.rounded({**found, "said": told.plain(said.answer)})
    (folder / "answer.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return "; ".join(one.says for one in said.answer.named) or said.answer.refused or "nothing"


def _unmeasured(case: Case, folder: Path) -> Mapping[str, Any]:
    """Give the menu of a case as it will be, without what it is worth."""
    some = [
        {
            "name": one.choice.name,
            "role": one.choice.role,
            "fix": one.choice.fix,
            "variant": one.choice.variant,
            "edits": list(one.edits),
            "speedup": None,
            "smallest_seen": None,
        }
        for one in lines(case, _facts(folder))
    ]
    return {"case": case.name, "family": case.family, "menu": some}


def _facts(folder: Path) -> Facts:
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as place:
        return facts(load(unpack(folder / "run.tar.zst", Path(place))))


def measure_case(case: Case, options: argparse.Namespace) -> str:
    """Measure the menu of a case that was answered."""
    folder = RECORDS / case.name
    if not (folder / "answer.json").exists():
        return "is not answered yet"
    if (folder / "menu.json").exists():
        return "is measured"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as place:
        asked = Asked(
            device="cpu",
            out=RECORDS,
            place=Path(place),
            rounds=options.rounds,
            block_s=options.block,
            limit_s=options.limit,
            recorded_s=0.0,
            source=SOURCE,
        )
        return measure_menu(case, asked, _facts(folder), lambda text: say(case.name, text))


def judge() -> int:
    """Judge the answers that were written down by the menus that were measured."""
    judged = [
        (one, told.answer_of(json.loads((one.run.parent / "answer.json").read_text())["said"]))
        for one in records.all_of(RECORDS)
    ]
    if not judged:
        sys.exit("nothing is measured yet")
    hashes = {
        json.loads((one.run.parent / "answer.json").read_text())["thresholds"] for one, _ in judged
    }
    print(keep(told.rounded(_judged(judged, ", ".join(sorted(hashes)))), RESULT))
    return 0


def again() -> int:
    """Ask today's rules. They have seen these trainings by now: no figure of strangers."""
    some = records.all_of(RECORDS)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        answers = [one.answer for one in pool.map(look, some)]
    judged = list(zip(some, answers, strict=True))
    print(keep(told.rounded(_judged(judged, frozen.thresholds())), AGAIN))
    return 0


def _judged(judged: Judged, thresholds: str) -> dict[str, object]:
    """Put answers, judged by what was measured, into the form that is kept."""
    truths = Counter(one.truth for one, _ in judged)
    return {
        "version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "thresholds": thresholds,
        "records": {
            "all": len(judged),
            **{name: truths[name] for name in ("faulty", "sound", "undecided")},
            "matter": sum(one.matters for one, _ in judged),
        },
        "tools": {OURS: figures.table(judged), **_sets(judged)},
        "worst": told.worst(judged, told.CAUSES),
        "cases": {one.case: told.case(one, answer) for one, answer in judged},
    }


def _sets(judged: Judged) -> Mapping[str, object]:
    """Give the figures of each set by itself: their authors knew of different things."""
    second = {case.name for case in SECOND}
    return {
        f"{OURS}, {name} set": figures.table(some)
        for name, some in (
            ("first", [pair for pair in judged if pair[0].case not in second]),
            ("second", [pair for pair in judged if pair[0].case in second]),
        )
        if some
    }


def say(name: str, text: str) -> None:
    """Tell of the progress."""
    print(f"{name}: {text}", flush=True)


ACTS: Final[Mapping[str, Callable[[Case, argparse.Namespace], str]]] = {
    "record": record_case,
    "answer": answer_case,
    "measure": measure_case,
}


def main() -> int:
    """Do one of the five."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("act", choices=[*ACTS, "judge", "again"])
    add("--cases", nargs="+", metavar="PATTERN", default=["*"])
    add("--rounds", type=int, default=5)
    add("--block", type=float, default=1.5, help="seconds of a block")
    add("--limit", type=float, default=150.0, help="seconds of a menu")
    options = parser.parse_args()
    if options.act in ("judge", "again"):
        return judge() if options.act == "judge" else again()
    failed = 0
    for case in CASES.values():
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases):
            try:
                say(case.name, ACTS[options.act](case, options))
            except (MeasuringError, recording.RecordingError) as error:
                failed += 1
                say(case.name, f"failed: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
