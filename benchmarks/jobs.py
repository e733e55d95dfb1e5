"""Measure trainings of several ranks, and judge what is said of them (``tests/jobs``).

::

    python -m benchmarks.jobs record     # trains and records each: run.tar.zst
    python -m benchmarks.jobs measure    # what each change is worth: menu.json
    python -m benchmarks.jobs both --cores 0-3 4-7   # one after the other, a lane for each set
    python -m benchmarks.jobs judge      # benchmarks/results/jobs.json

Records are small: 100 steps (400 on GPUs), windows of 3, without stacks; times in windows are
multiples of 8 ns.
"""

import argparse
import fnmatch
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.judging import told
from benchmarks.judging.jobs import JobAnswer, answer_to_json, judge_record, summarize_answers
from benchmarks.machine import machine, write_result
from benchmarks.menus import recording
from benchmarks.menus.case import MeasureOptions, measure_menu
from benchmarks.menus.hosts import measure_on_hosts, record_on_hosts
from benchmarks.pack_records import pack_windows
from benchmarks.zoo import Lanes, parse_cores
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from tests.jobs.cases import CASES, DEVICES
from tests.zoo.case import Case

SOURCE: Final = "tests.jobs"
RECORDS: Final = Path(__file__).resolve().parents[1] / "tests" / "jobs" / "records"
RESULT: Final = Path(__file__).parent / "results" / "jobs.json"
_RECORDER_OPTIONS: Final = ("--window-steps", "3")
_HOSTS_OPTIONS: Final = ("--window-steps", "2")
_TICK_NS: Final = 8  # to which times in windows are rounded


def record_case(case: Case, options: argparse.Namespace) -> str:
    """Train and record a case, unless it was."""
    target = options.records / case.name / "run.tar.zst"
    if target.exists():
        return "is recorded"
    with tempfile.TemporaryDirectory(prefix="gapless-jobs-") as folder:
        for number, run in enumerate(_record(case, Path(folder))):
            part = target.with_name(f"run-{number}.tar.zst") if number else target
            part.parent.mkdir(parents=True, exist_ok=True)
            recording.keep(run, part, is_small=True)
            pack_windows(part, _TICK_NS)
    n_bytes = sum(part.stat().st_size for part in target.parent.glob("run*.tar.zst"))
    return f"recorded, {n_bytes} bytes"


def _record(case: Case, folder: Path) -> Sequence[Path]:
    """Train and record a case; give its run folder, or that of each host."""
    if case.options.get("hosts", 1) > 1:
        return record_on_hosts(case, folder, _HOSTS_OPTIONS)
    return [
        recording.record(
            case, DEVICES[case.size], 0.0, folder, SOURCE, recorder_options=_RECORDER_OPTIONS
        )
    ]


def measure_case(case: Case, options: argparse.Namespace) -> str:
    """Measure the menu of a case that was recorded, unless it was."""
    folder = options.records / case.name
    if (folder / "menu.json").exists() or not (folder / "run.tar.zst").exists():
        return "is measured, or not recorded yet"
    with tempfile.TemporaryDirectory(prefix="gapless-jobs-") as scratch:
        if case.options.get("hosts", 1) > 1:
            return measure_on_hosts(case, folder, Path(scratch), options.rounds)
        run_facts = facts(load(unpack(folder / "run.tar.zst", Path(scratch) / "run")))
        measure_options = MeasureOptions(
            device=DEVICES[case.size],
            out=options.records,
            work_folder=Path(scratch),
            rounds=options.rounds,
            block_s=options.block,
            limit_s=options.limit,
            recorded_s=0.0,
            source=SOURCE,
        )
        return measure_menu(case, measure_options, run_facts, lambda _: None)


def record_and_measure(case: Case, options: argparse.Namespace) -> str:
    """Do both, for a case after the other in a lane."""
    return f"{record_case(case, options)}; {measure_case(case, options)}"


def act_on_cases(
    act: Callable[[Case, argparse.Namespace], str], options: argparse.Namespace
) -> int:
    """Do something with each case that is asked for, and say what came of it."""
    names = [name for pattern in options.cases for name in fnmatch.filter(CASES, pattern)]
    cases = [CASES[name] for name in dict.fromkeys(names)]
    lanes = Lanes(cases, lambda case: act(case, options), options.budget)
    lanes.run(parse_cores(options.cores))
    return 1 if lanes.failed else 0


def judge(options: argparse.Namespace) -> int:
    """Ask about each record, and keep how often that was right; where none is, what was said."""
    kept = json.loads(RESULT.read_text())["cases"] if RESULT.exists() else {}
    by_case = {name: msgspec.convert(case, JobAnswer) for name, case in kept.items()}
    for folder in sorted(path.parent for path in options.records.glob("*/run.tar.zst")):
        if any(fnmatch.fnmatch(folder.name, pattern) for pattern in options.cases):
            with tempfile.TemporaryDirectory(prefix="gapless-jobs-") as scratch:
                by_case[folder.name] = judge_record(folder, Path(scratch))
            print(f"{folder.name}: {by_case[folder.name].first or 'nothing'}", flush=True)
    answers = [by_case[name] for name in sorted(by_case) if name in CASES]
    document = {
        "version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "figures": summarize_answers(answers),
        "cases": {answer.case: answer_to_json(answer) for answer in answers},
    }
    write_result(told.round_figures(document), RESULT)
    return 0


_ACTIONS: Final = {"record": record_case, "measure": measure_case, "both": record_and_measure}


def main() -> int:
    """Record, measure or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("action", choices=(*_ACTIONS, "judge"))
    add("--cases", nargs="+", default=["*"], metavar="PATTERN", help="names, or patterns of names")
    add("--records", type=Path, default=RECORDS, help="a folder of records")
    add("--cores", nargs="+", metavar="SET", help="0-3 4-7: a lane each, side by side")
    add("--budget", type=float, help="seconds of all: no case begins that might not end in time")
    add("--rounds", type=int, default=4)
    add("--block", type=float, default=0.6, help="seconds of a block")
    add("--limit", type=float, default=50.0, help="seconds of a menu")
    options = parser.parse_args()
    if options.action == "judge":
        return judge(options)
    return act_on_cases(_ACTIONS[options.action], options)


if __name__ == "__main__":
    sys.exit(main())
