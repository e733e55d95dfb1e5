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
from importlib.util import find_spec
from pathlib import Path

from benchmarks.menus.case import Asked, MeasuringError, measure_case
from benchmarks.menus.repeating import repeat
from tests.zoo.cases import CASES, Case

RECORDS = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "records"
PATIENCE_S = 60.0  # beside the limit of a menu: imports, models, the recorded run
EACH = 10  # of so many menus, one is repeated
SIZES = {"cpu": "c", "cuda": "g"}


class Lanes:
    """Cases, measured one after another on each set of cores."""

    def __init__(self, cases: list[Case], asked: Asked, budget_s: float | None) -> None:
        self.waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in cases:
            self.waiting.put(case)
        self.asked, self.budget_s = asked, budget_s
        self.begun, self.count, self.lanes = time.monotonic(), len(cases), 1
        self.done: list[str] = []
        self.failed: list[str] = []
        self.left: list[str] = []

    def work(self, cores: frozenset[int] | None) -> None:
        """Measure cases until none is left; on these cores alone, children included."""
        if cores:
            os.sched_setaffinity(0, cores)  # of this thread, which children inherit
        while True:
            try:
                case = self.waiting.get_nowait()
            except queue.Empty:
                return
            if self.over():
                self.left.append(case.name)
                continue
            self._measure(case)

    def _measure(self, case: Case) -> None:
        begun = time.monotonic()
        try:
            found = measure_case(case, self.asked, lambda text: say(case.name, text))
        except MeasuringError as error:
            self.failed.append(case.name)
            say(case.name, f"failed: {error}")
        else:
            self.done.append(case.name)
            say(case.name, f"{found}; {time.monotonic() - begun:.0f} s")
        say("all", self.progress())

    def over(self) -> bool:
        """Say whether one more case might not end within the budget."""
        if self.budget_s is None:
            return False
        spent = time.monotonic() - self.begun
        each = spent / len(self.done) if self.done else PATIENCE_S
        return spent + 1.1 * each * self.lanes > self.budget_s

    def progress(self) -> str:
        """Say how many are done, and how long the others will take."""
        over = len(self.done) + len(self.failed)
        spent = time.monotonic() - self.begun
        rest = spent / over * (self.count - over)
        return f"{over} of {self.count}, about {rest / 60:.0f} min left"


def say(name: str, text: str) -> None:
    """Print a line at once."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {text}", flush=True)


def chosen(options: argparse.Namespace) -> list[Case]:
    """Give the cases that are asked for and not there yet."""
    size = SIZES[options.device]
    found = [case for case in CASES.values() if case.size == size and fits(case, options)]
    if options.cases:
        found = [one for one in found if any(fnmatch.fnmatch(one.name, p) for p in options.cases)]
    places = [options.out, *([RECORDS] if options.only_new else [])]
    there = {menu.parent.name for place in places for menu in place.glob("*/menu.json")}
    return [case for case in found if options.again or case.name not in there]


def fits(case: Case, options: argparse.Namespace) -> bool:
    """Say whether there are devices enough for a case's ranks, and the modules that it needs."""
    enough = options.device == "cpu" or case.ranks <= options.devices
    return enough and all(find_spec(module) is not None for module in case.needs)


def lanes_of(texts: list[str] | None) -> list[frozenset[int] | None]:
    """Read sets of cores: "0,1" or "0-3"."""
    found: list[frozenset[int] | None] = []
    for text in texts or []:
        cores: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            cores |= set(range(int(first), int(last or first) + 1))
        found.append(frozenset(cores))
    return found or [None]


def arguments() -> argparse.Namespace:
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


def repeat_some(options: argparse.Namespace) -> int:
    """Measure one menu in ten again, with fresh processes."""
    size = SIZES[options.device]
    found = sorted(one.parent for one in options.out.glob(f"*-{size}/menu.json"))
    for record in found[::EACH] if options.cases is None else found:
        if options.cases is None or any(fnmatch.fnmatch(record.name, p) for p in options.cases):
            tell = functools.partial(say, record.name)
            tell(repeat(record, options.device, options.limit, tell))
    return 0


def main() -> int:
    """Measure, and say what was left or failed."""
    options = arguments()
    if options.repeat:
        return repeat_some(options)
    cases = chosen(options)
    with tempfile.TemporaryDirectory(prefix="gapless-zoo-") as place:
        asked = Asked(
            device=options.device,
            out=options.out,
            place=Path(place),
            rounds=options.rounds,
            block_s=options.block,
            limit_s=options.limit,
            recorded_s=options.seconds,
        )
        work = Lanes(cases, asked, options.budget)
        lanes = lanes_of(options.cores)
        work.lanes = len(lanes)
        threads = [threading.Thread(target=work.work, args=(cores,)) for cores in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    say("all", f"{len(work.done)} measured, failed: {work.failed}, not begun: {work.left}")
    return 1 if work.failed else 0


if __name__ == "__main__":
    sys.exit(main())
