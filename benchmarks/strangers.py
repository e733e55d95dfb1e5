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
from benchmarks.judging.looking import inspect_record, study_record
from benchmarks.judging.metrics import JudgedCases
from benchmarks.judging.ours import ask_gapless
from benchmarks.judging.told import GAPLESS
from benchmarks.machine import machine, write_result
from benchmarks.menus import recording
from benchmarks.menus.case import MeasureOptions, MeasuringError, measure_menu
from benchmarks.menus.resolve import resolve_menu
from gapless.model.facts import Facts
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from tests.strangers.cases import CASES
from tests.strangers.more_cases import SECOND_SET
from tests.zoo.cases import Case

SOURCE: Final = "tests.strangers"
RECORDS: Final = records.STRANGERS
RESULT: Final = Path(__file__).parent / "results" / "strangers.json"
AGAIN_RESULT: Final = RESULT.with_name("strangers_again.json")


def record_case(case: Case, _options: argparse.Namespace) -> str:
    """Train and record a case."""
    target = RECORDS / case.name / "run.tar.zst"
    if target.exists():
        return "is recorded"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as folder:
        run = recording.record(case, "cpu", 0.0, Path(folder), SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        left_out = recording.keep(run, target)
    return f"recorded, {target.stat().st_size} bytes; left out: {', '.join(left_out) or 'nothing'}"


def answer_case(case: Case, _options: argparse.Namespace) -> str:
    """Write down what gapless says of a case, before anybody knows what is true of it."""
    folder = RECORDS / case.name
    if (folder / "menu.json").exists():
        return "is measured already: too late to answer"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as scratch:
        record = records.record_from_menu(_unmeasured_menu(case, folder), folder / "run.tar.zst")
        _, prices = study_record(record, Path(scratch))
        checked = ask_gapless(prices, record)
    hashes = {
        "thresholds": frozen.thresholds_hash(),
        "fitted": frozen.residuals_hash(),
        "judge": frozen.judge_hash(),
    }
    document = told.round_figures({**hashes, "said": told.answer_to_json(checked.answer)})
    (folder / "answer.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
    return (
        "; ".join(recommendation.says for recommendation in checked.answer.named)
        or checked.answer.refused
        or "nothing"
    )


def _unmeasured_menu(case: Case, folder: Path) -> Mapping[str, Any]:
    """Return the menu of a case as it will be, without what it is worth."""
    menu_lines = [
        {
            "name": line.choice.name,
            "role": line.choice.role,
            "fix": line.choice.fix,
            "variant": line.choice.variant,
            "edits": list(line.edits),
            "speedup": None,
            "smallest_seen": None,
        }
        for line in resolve_menu(case, _facts(folder))
    ]
    return {"case": case.name, "family": case.family, "menu": menu_lines}


def _facts(folder: Path) -> Facts:
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as scratch:
        return facts(load(unpack(folder / "run.tar.zst", Path(scratch))))


def measure_case(case: Case, options: argparse.Namespace) -> str:
    """Measure the menu of a case that was answered."""
    folder = RECORDS / case.name
    if not (folder / "answer.json").exists():
        return "is not answered yet"
    if (folder / "menu.json").exists():
        return "is measured"
    with tempfile.TemporaryDirectory(prefix="gapless-strangers-") as work_folder:
        measure_options = MeasureOptions(
            device="cpu",
            out=RECORDS,
            work_folder=Path(work_folder),
            rounds=options.rounds,
            block_s=options.block,
            limit_s=options.limit,
            recorded_s=0.0,
            source=SOURCE,
        )
        return measure_menu(
            case, measure_options, _facts(folder), lambda text: report_progress(case.name, text)
        )


def judge() -> int:
    """Judge the answers that were written down by the menus that were measured."""
    judged = [
        (
            record,
            told.answer_from_json(
                json.loads((record.run.parent / "answer.json").read_text())["said"]
            ),
        )
        for record in records.read_records(RECORDS)
    ]
    if not judged:
        sys.exit("nothing is measured yet")
    hashes = {
        json.loads((record.run.parent / "answer.json").read_text())["thresholds"]
        for record, _ in judged
    }
    print(write_result(told.round_figures(_result(judged, ", ".join(sorted(hashes)))), RESULT))
    return 0


def judge_again() -> int:
    """Ask today's rules. They have seen these trainings by now: no figure of strangers."""
    case_records = records.read_records(RECORDS)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        answers = [inspection.answer for inspection in pool.map(inspect_record, case_records)]
    judged = list(zip(case_records, answers, strict=True))
    print(write_result(told.round_figures(_result(judged, frozen.thresholds_hash())), AGAIN_RESULT))
    return 0


def _result(judged: JudgedCases, thresholds: str) -> dict[str, object]:
    """Put answers, judged by what was measured, into the form that is kept."""
    truths = Counter(record.truth for record, _ in judged)
    return {
        "version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "thresholds": thresholds,
        "records": {
            "all": len(judged),
            **{name: truths[name] for name in ("faulty", "sound", "undecided")},
            "matter": sum(record.matters for record, _ in judged),
        },
        "tools": {GAPLESS: figures.figure_table(judged), **_figures_by_set(judged)},
        "worst": told.worst_misses(judged, told.CAUSES),
        "cases": {record.case: told.case_to_json(record, answer) for record, answer in judged},
    }


def _figures_by_set(judged: JudgedCases) -> Mapping[str, object]:
    """Return the figures of each set by itself: their authors knew of different things."""
    second = {case.name for case in SECOND_SET}
    return {
        f"{GAPLESS}, {name} set": figures.figure_table(subset)
        for name, subset in (
            ("first", [pair for pair in judged if pair[0].case not in second]),
            ("second", [pair for pair in judged if pair[0].case in second]),
        )
        if subset
    }


def report_progress(name: str, text: str) -> None:
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
        return judge() if options.act == "judge" else judge_again()
    failed = 0
    for case in CASES.values():
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases):
            try:
                report_progress(case.name, ACTS[options.act](case, options))
            except (MeasuringError, recording.RecordingError) as error:
                failed += 1
                report_progress(case.name, f"failed: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
