"""Measure reading: whole processes, from a compressed trace to what they print, in turn.

``python -m benchmarks.reading --folder FOLDER --rich BASE --plain BASE [--peers PYTHON]`` makes the
big traces in FOLDER where they are missing (BASE: a real trace with stacks, and one as Kineto
wrote it), measures, writes ``results/reading.json`` and prints the tables. ``--peers`` names a
Python that has HolisticTraceAnalysis and torch-tb-profiler; without it they are not measured.

Within a round every subject runs once, one after another, so that a machine that changes its
speed changes it for all of them; ratios are taken within a round. What uses all
cores is run twice, once for its time and once for its memory: the others leave a core to whoever
samples.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import inputs, watch
from benchmarks.machine import machine
from benchmarks.summary import Sample, document, tables

HERE = Path(__file__).parent
RESULT = HERE / "results" / "reading.json"
GAPLESS = str(Path(sys.executable).with_name("gapless"))
SMALL, LARGE = 250, 1000  # megabytes
RANKS = (8, 64)
QUICK_ROUNDS = 10  # of what takes well under a second


@dataclass(frozen=True)
class Subject:
    """Something to measure: ``command`` as it is run, ``shown`` as it is told."""

    name: str
    command: list[str]
    shown: str
    environment: dict[str, str] | None = None
    parallel: bool = False  # uses all cores, so that sampling its memory costs it time

    def run(self) -> watch.Run:
        """Run it, and measure that."""
        measure = watch.run_apart if self.parallel else watch.run
        return measure(self.command, self.environment)


def opening(path: Path) -> Subject:
    """Give ``gapless open`` past the cache."""
    command = [GAPLESS, "open", str(path), "--no-cache"]
    shown = f"gapless open {path.name} --no-cache"
    return Subject("gapless", command, shown, parallel=True)


def peers(path: Path, python: str | None) -> list[Subject]:
    """Give the other readers of the same file."""
    found = [("json.load", sys.executable, "json_load")]
    if python:
        found += [
            ("HTA", python, "hta_breakdown"),
            ("torch-tb-profiler", python, "tensorboard_profile"),
        ]
    return [
        Subject(
            name,
            [interpreter, str(HERE / "peers" / f"{script}.py"), str(path)],
            f"python benchmarks/peers/{script}.py {path.name}",
        )
        for name, interpreter, script in found
    ]


def measured(subjects: list[Subject], rounds: int, what: str) -> list[Sample]:
    """Run the subjects in turn, so many rounds."""
    samples: list[Sample] = []
    for number in range(rounds):
        for subject in subjects:
            found = subject.run()
            samples.append(Sample(what, subject.name, subject.shown, number, found))
            print(
                f"{what} round {number + 1}/{rounds} {subject.name}: {found.wall_s:.2f} s, "
                f"{found.cpu_s:.2f} CPU s, {found.peak_bytes / 1e6:,.0f} MB, "
                f"exit {found.exit_code}",
                file=sys.stderr,
                flush=True,
            )
    return samples


def of_size(options: argparse.Namespace, form: str, size: int) -> list[Sample]:
    """Measure one big trace: gapless often, the peers as often as asked."""
    path = inputs.big(options.folder, form, size, getattr(options, form))
    inputs.warm(path)
    rounds = options.rounds if size == SMALL else options.large_rounds
    shared = rounds if size == SMALL else min(rounds, options.large_peer_rounds)
    everyone = [opening(path), *peers(path, options.peers)]
    samples = measured(everyone, shared, path.name)
    more = measured([opening(path)], rounds - shared, f"{path.name} (alone)")
    return samples + [one.renamed(path.name, shared) for one in more]


def quick(options: argparse.Namespace) -> list[Sample]:
    """Measure opening again through the cache, help, and an empty Python beside them."""
    samples: list[Sample] = []
    empty = Subject("python -c pass", [sys.executable, "-c", "pass"], "python -c pass")
    helping = Subject("gapless --help", [GAPLESS, "--help"], "gapless --help")
    samples += measured([helping, empty], QUICK_ROUNDS, "start")
    for form in ("rich", "plain"):
        path = inputs.big(options.folder, form, options.largest, getattr(options, form))
        with tempfile.TemporaryDirectory() as cache:
            again = Subject(
                "gapless, again",
                [GAPLESS, "open", str(path)],
                f"gapless open {path.name}",
                {"XDG_CACHE_HOME": cache},
                parallel=True,
            )
            first = replace(again, name="gapless, filling its cache", parallel=False)
            samples += measured([first], 1, f"{path.name} through the cache")
            samples += measured([again], QUICK_ROUNDS, f"{path.name} through the cache")
    return samples


def many_ranks(options: argparse.Namespace) -> list[Sample]:
    """Measure folders of 8 and of 64 ranks of 20 MB each."""
    subjects: list[Subject] = []
    for count in RANKS:
        folder = inputs.ranks(options.folder, count, options.plain)
        subjects.append(
            Subject(
                f"{count} ranks",
                [GAPLESS, "open", str(folder), "--no-cache"],
                f"gapless open {folder.name} --no-cache",
            )
        )
    return measured(subjects, options.large_rounds, "ranks of 20 MB")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the big traces lie")
    parser.add_argument("--rich", type=Path, help="base with stacks, shapes and memory events")
    parser.add_argument("--plain", type=Path, help="base as Kineto wrote it, with collectives")
    parser.add_argument("--peers", help="a Python that has the other analysers")
    parser.add_argument("--rounds", type=int, default=5, help="at 250 MB, for all")
    parser.add_argument("--large-rounds", type=int, default=5, help="at 1 GB and with many ranks")
    parser.add_argument("--large-peer-rounds", type=int, default=1, help="of the peers at 1 GB")
    parser.add_argument("--only", nargs="*", default=["small", "large", "quick", "ranks"])
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    options.largest = LARGE if "large" in options.only else SMALL
    return options


def main() -> None:
    """Measure what was asked for, write it, print it."""
    options = arguments()
    load = os.getloadavg()[0]
    samples: list[Sample] = []
    for name, size in (("small", SMALL), ("large", LARGE)):
        if name in options.only:
            for form in ("rich", "plain"):
                samples += of_size(options, form, size)
    samples += quick(options) if "quick" in options.only else []
    samples += many_ranks(options) if "ranks" in options.only else []
    about = {
        "machine": machine(),
        "peers": inputs.peer_versions(options.peers),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_before": round(load, 2),
        "inputs": [asdict(one) for one in inputs.described(options.folder)],
    }
    found = document(samples)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    print(tables(found))


if __name__ == "__main__":
    main()
