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

FOLDER = Path(__file__).parent
RESULT = FOLDER / "results" / "reading.json"
GAPLESS = str(Path(sys.executable).with_name("gapless"))
SMALL, LARGE = 250, 1000  # megabytes
RANKS = (8, 64)
QUICK_ROUNDS = 10  # of what takes well under a second


@dataclass(frozen=True)
class Subject:
    """Something to measure: ``command`` as it is run, ``shown`` as it is told."""

    name: str
    command: list[str]
    display: str
    environment: dict[str, str] | None = None
    parallel: bool = False  # uses all cores, so that sampling its memory costs it time

    def run(self) -> watch.CommandRun:
        """Run it, and measure that."""
        measure = watch.run_twice if self.parallel else watch.run
        return measure(self.command, self.environment)


def open_subject(path: Path) -> Subject:
    """Return ``gapless open`` past the cache."""
    command = [GAPLESS, "open", str(path), "--no-cache"]
    display = f"gapless open {path.name} --no-cache"
    return Subject("gapless", command, display, parallel=True)


def peer_subjects(path: Path, python: str | None) -> list[Subject]:
    """Return the other readers of the same file."""
    readers = [("json.load", sys.executable, "json_load")]
    if python:
        readers += [
            ("HTA", python, "hta_breakdown"),
            ("torch-tb-profiler", python, "tensorboard_profile"),
        ]
    return [
        Subject(
            name,
            [interpreter, str(FOLDER / "peers" / f"{script}.py"), str(path)],
            f"python benchmarks/peers/{script}.py {path.name}",
        )
        for name, interpreter, script in readers
    ]


def measure_subjects(subjects: list[Subject], rounds: int, input_name: str) -> list[Sample]:
    """Run the subjects in turn, so many rounds."""
    samples: list[Sample] = []
    for number in range(rounds):
        for subject in subjects:
            subject_run = subject.run()
            samples.append(Sample(input_name, subject.name, subject.display, number, subject_run))
            print(
                f"{input_name} round {number + 1}/{rounds} {subject.name}: "
                f"{subject_run.wall_s:.2f} s, "
                f"{subject_run.cpu_s:.2f} CPU s, {subject_run.peak_bytes / 1e6:,.0f} MB, "
                f"exit {subject_run.exit_code}",
                file=sys.stderr,
                flush=True,
            )
    return samples


def measure_size(options: argparse.Namespace, form: str, size: int) -> list[Sample]:
    """Measure one big trace: gapless often, the peers as often as asked."""
    path = inputs.big_trace(options.folder, form, size, getattr(options, form))
    inputs.warm(path)
    rounds = options.rounds if size == SMALL else options.large_rounds
    shared_rounds = rounds if size == SMALL else min(rounds, options.large_peer_rounds)
    subjects = [open_subject(path), *peer_subjects(path, options.peers)]
    samples = measure_subjects(subjects, shared_rounds, path.name)
    extra = measure_subjects([open_subject(path)], rounds - shared_rounds, f"{path.name} (alone)")
    return samples + [sample.rename(path.name, shared_rounds) for sample in extra]


def measure_quick(options: argparse.Namespace) -> list[Sample]:
    """Measure opening again through the cache, help, and an empty Python beside them."""
    samples: list[Sample] = []
    empty = Subject("python -c pass", [sys.executable, "-c", "pass"], "python -c pass")
    help_subject = Subject("gapless --help", [GAPLESS, "--help"], "gapless --help")
    samples += measure_subjects([help_subject, empty], QUICK_ROUNDS, "start")
    for form in ("rich", "plain"):
        path = inputs.big_trace(options.folder, form, options.largest, getattr(options, form))
        with tempfile.TemporaryDirectory() as cache:
            cached = Subject(
                "gapless, again",
                [GAPLESS, "open", str(path)],
                f"gapless open {path.name}",
                {"XDG_CACHE_HOME": cache},
                parallel=True,
            )
            filling = replace(cached, name="gapless, filling its cache", parallel=False)
            samples += measure_subjects([filling], 1, f"{path.name} through the cache")
            samples += measure_subjects([cached], QUICK_ROUNDS, f"{path.name} through the cache")
    return samples


def measure_ranks(options: argparse.Namespace) -> list[Sample]:
    """Measure folders of 8 and of 64 ranks of 20 MB each."""
    subjects: list[Subject] = []
    for count in RANKS:
        folder = inputs.rank_folder(options.folder, count, options.plain)
        subjects.append(
            Subject(
                f"{count} ranks",
                [GAPLESS, "open", str(folder), "--no-cache"],
                f"gapless open {folder.name} --no-cache",
            )
        )
    return measure_subjects(subjects, options.large_rounds, "ranks of 20 MB")


def parse_arguments() -> argparse.Namespace:
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
    options = parse_arguments()
    load = os.getloadavg()[0]
    samples: list[Sample] = []
    for name, size in (("small", SMALL), ("large", LARGE)):
        if name in options.only:
            for form in ("rich", "plain"):
                samples += measure_size(options, form, size)
    samples += measure_quick(options) if "quick" in options.only else []
    samples += measure_ranks(options) if "ranks" in options.only else []
    conditions = {
        "machine": machine(),
        "peers": inputs.peer_versions(options.peers),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_before": round(load, 2),
        "inputs": [asdict(trace_input) for trace_input in inputs.describe_inputs(options.folder)],
    }
    summary = document(samples)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({**conditions, **summary}, indent=1) + "\n")
    print(tables(summary))


if __name__ == "__main__":
    main()
