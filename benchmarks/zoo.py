"""Measure the menus of the zoo's cases and record them: ``python -m benchmarks.zoo``.

Each case is recorded as any training is, then its menu is measured in a process of its own, and
both are kept below ``--out``, a folder a case. What is there is not measured again.
Format: docs/zoo-format.md. How it is measured: benchmarks/menus/measure.py.
"""

import argparse
import fnmatch
import functools
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.menus.case import MeasureOptions, MeasuringError, measure_case
from benchmarks.menus.recording import RecordingError
from benchmarks.menus.repeating import repeat
from tests.zoo.cases import CASES, Case

RECORDS = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "records"
PATIENCE_S = 60.0  # beside the limit of a menu: imports, models, the recorded run
REPEAT_PERIOD = 10  # of so many menus, one is repeated
SIZES = {"cpu": "c", "cuda": "g"}


class Lanes:
    """Cases, each measured by a function, one after another on each set of cores."""

    def __init__(
        self, cases: list[Case], measure: Callable[[Case], str], budget_s: float | None
    ) -> None:
        self.waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in cases:
            self.waiting.put(case)
        self.measure, self.budget_s = measure, budget_s
        self.begun, self.count = time.monotonic(), len(cases)
        self.done: dict[str, float] = {}  # with the seconds that each took
        self.failed: list[str] = []
        self.left: list[str] = []

    def run(self, lanes: list[frozenset[int] | None]) -> None:
        """Measure all, in as many lanes as there are sets of cores; say what was left or failed."""
        threads = [threading.Thread(target=self.work, args=(cores,)) for cores in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report_progress(
            "all",
            f"{len(self.done)} measured, failed: {self.failed}, not begun: {self.left}",
        )

    def work(self, cores: frozenset[int] | None) -> None:
        """Measure cases until none is left; on these cores alone, children included."""
        if cores:
            os.sched_setaffinity(0, cores)  # of this thread, which children inherit
        while True:
            try:
                case = self.waiting.get_nowait()
            except queue.Empty:
                return
            if self.is_over():
                self.left.append(case.name)
                continue
            self._measure(case)

    def _measure(self, case: Case) -> None:
        start_s = time.monotonic()
        try:
            summary = self.measure(case)
        except (RecordingError, MeasuringError) as error:
            self.failed.append(case.name)
            report_progress(case.name, f"failed: {error}")
        else:
            self.done[case.name] = time.monotonic() - start_s
            report_progress(case.name, f"{summary}; {self.done[case.name]:.0f} s")
        report_progress("all", self.progress())

    def is_over(self) -> bool:
        """Return whether one more case might not end within the budget."""
        if self.budget_s is None:
            return False
        spent_s = time.monotonic() - self.begun
        case_s = max(self.done.values(), default=PATIENCE_S)
        return spent_s + 1.1 * case_s > self.budget_s

    def progress(self) -> str:
        """Say how many are done, and how long the others will take."""
        n_over = len(self.done) + len(self.failed)
        spent_s = time.monotonic() - self.begun
        rest_s = spent_s / n_over * (self.count - n_over)
        return f"{n_over} of {self.count}, about {rest_s / 60:.0f} min left"


def report_progress(name: str, text: str) -> None:
    """Print a line at once."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {text}", flush=True)


def choose_cases(options: argparse.Namespace) -> list[Case]:
    """Return the cases that are asked for and not there yet."""
    size = SIZES[options.device]
    cases = [case for case in CASES.values() if case.size == size and is_runnable(case, options)]
    if options.cases:
        cases = [
            case for case in cases if any(fnmatch.fnmatch(case.name, p) for p in options.cases)
        ]
    folders = [options.out, *([RECORDS] if options.only_new else [])]
    existing = {menu.parent.name for folder in folders for menu in folder.glob("*/menu.json")}
    return [case for case in cases if options.again or case.name not in existing]


def is_runnable(case: Case, options: argparse.Namespace) -> bool:
    """Return whether there are devices enough for a case's ranks, and the modules that it needs."""
    has_devices = options.device == "cpu" or case.ranks <= options.devices
    return has_devices and all(find_spec(module) is not None for module in case.needs)


def parse_cores(texts: list[str] | None) -> list[frozenset[int] | None]:
    """Read sets of cores: "0,1" or "0-3"."""
    lanes: list[frozenset[int] | None] = []
    for text in texts or []:
        cores: set[int] = set()
        for segment in text.split(","):
            first_core, _, last_core = segment.partition("-")
            cores |= set(range(int(first_core), int(last_core or first_core) + 1))
        lanes.append(frozenset(cores))
    return lanes or [None]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--device", default="cpu", choices=sorted(SIZES))
    add("--devices", type=int, default=1, help="GPUs there are: cases of more ranks are left out")
    add("--cases", nargs="+", metavar="PATTERN", help="names, or patterns of names")
    add("--out", type=Path, default=RECORDS, help="a folder for the records")
    add("--only-new", action="store_true", help="leave out what the repository has a record of")
    add("--again", action="store_true", help="measure what is there, too")
    add("--cores", nargs="+", metavar="SET", help="0,1 2,3: a lane each, measured side by side")
    add("--rounds", type=int, default=5, help="then one more where an interval is wide")
    add("--block", type=float, default=1.5, help="seconds of a block")
    add("--limit", type=float, default=150.0, help="seconds of a menu")
    add("--budget", type=float, help="seconds of all: no case begins that might not end in time")
    add("--repeat", action="store_true", help="measure one record in ten again: fresh processes")
    add("--seconds", type=float, default=10.0, help="of the recorded run")
    return parser.parse_args()


def repeat_menus(options: argparse.Namespace) -> int:
    """Measure one menu in ten again, with fresh processes."""
    size = SIZES[options.device]
    records = sorted(path.parent for path in options.out.glob(f"*-{size}/menu.json"))
    for record in records[::REPEAT_PERIOD] if options.cases is None else records:
        if options.cases is None or any(fnmatch.fnmatch(record.name, p) for p in options.cases):
            report = functools.partial(report_progress, record.name)
            report(repeat(record, options.device, options.limit, report))
    return 0


def main() -> int:
    """Measure, and say what was left or failed."""
    options = parse_arguments()
    if options.repeat:
        return repeat_menus(options)
    cases = choose_cases(options)
    with tempfile.TemporaryDirectory(prefix="gapless-zoo-") as folder:
        measure_options = MeasureOptions(
            device=options.device,
            out=options.out,
            work_folder=Path(folder),
            rounds=options.rounds,
            block_s=options.block,
            limit_s=options.limit,
            recorded_s=options.seconds,
        )
        case_lanes = Lanes(
            cases,
            lambda case: measure_case(
                case, measure_options, lambda text: report_progress(case.name, text)
            ),
            options.budget,
        )
        case_lanes.run(parse_cores(options.cores))
    return 1 if case_lanes.failed else 0


if __name__ == "__main__":
    sys.exit(main())
