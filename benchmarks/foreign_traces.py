"""Open files of other profilers, and show that each sums, with what is unknown and its health.

``python -m benchmarks.foreign_traces --folder FOLDER`` opens what lies in FOLDER/KIND (nsight, xla,
perfetto, rocprof), writes ``results/foreign_traces.json`` and prints the table. Where a file came
from is in ``foreign_traces.toml``: public files by their address and SHA-256, own ones by the
script that records them.
"""

import argparse
import hashlib
import json
import sys
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import gapless
from benchmarks.machine import machine
from benchmarks.public_traces import find_imbalance, format_percent
from gapless.model.study import Study

FOLDER = Path(__file__).parent
LIST = FOLDER / "foreign_traces.toml"
RESULT = FOLDER / "results" / "foreign_traces.json"
_MAX_LETTERS = 40  # of the name of a range: some hold a whole call stack
NSYS_VERSIONS = "nsys", "nsys_schema"


@dataclass(frozen=True)
class ForeignFile:
    """A file: its kind, its name below FOLDER/KIND, where it is from, and what was planted."""

    kind: str
    name: str
    origin: str
    sha256: str | None = None  # of a public file
    planted: str | None = None  # the group or leaf that the file was made to show
    refused: str | None = None  # the error with which it is to be refused


@dataclass(frozen=True)
class OpenedFile:
    """What opening one file gave; ``problem`` says what went wrong, if anything."""

    kind: str
    name: str
    origin: str
    seconds: float
    problem: str | None = None
    refused: str | None = None  # the error with which it was refused, as it should be
    version: str | None = None  # of nsys and of its schema
    planted: str | None = None
    is_shown: bool | None = None  # the planted cause is the largest of what keeps it waiting
    events: int | None = None
    steps: int | None = None
    step_rule: str | None = None
    wall_ns: int | None = None
    unknown: float | None = None  # share of the wall time
    launches_recorded: float | None = None
    dropped: int | None = None
    truncated: bool | None = None
    groups: dict[str, float] | None = None  # shares of the wall time, those above one per cent


def read_list() -> tuple[ForeignFile, ...]:
    """Read the list."""
    return tuple(ForeignFile(**row) for row in tomllib.loads(LIST.read_text())["file"])


def open_file(file: ForeignFile, folder: Path) -> OpenedFile:
    """Open one file, past the cache. What gapless refuses is a problem; else it is let through."""
    path = folder / file.kind / file.name
    if not path.exists():
        return OpenedFile(file.kind, file.name, file.origin, 0.0, "not there")
    if file.sha256 not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
        return OpenedFile(file.kind, file.name, file.origin, 0.0, "another file")
    start_s = time.perf_counter()
    try:
        study = gapless.open(path, cache=False)
    except gapless.GaplessError as error:
        if error.slug == file.refused:
            return OpenedFile(file.kind, file.name, file.origin, 0.0, refused=error.slug)
        return OpenedFile(file.kind, file.name, file.origin, 0.0, f"{error.slug}: {error}")
    return file_figures(file, study, time.perf_counter() - start_s)


def file_figures(file: ForeignFile, study: Study, seconds: float) -> OpenedFile:
    """Take the figures of the table out of a study."""
    account, health = study.account, study.health
    shares = {group: ns / account.wall_ns for group, ns in account.groups.items()}
    waits = {group: share for group, share in shares.items() if group != "compute"}
    versions = dict(study.run.versions)
    largest = max(waits, key=waits.__getitem__, default=None)
    return OpenedFile(
        kind=file.kind,
        name=file.name,
        origin=file.origin,
        seconds=round(seconds, 2),
        problem=find_imbalance(account),
        version=" ".join(versions[key] for key in NSYS_VERSIONS if key in versions) or None,
        planted=file.planted,
        is_shown=None if file.planted is None else largest == file.planted,
        events=health.events,
        steps=account.steps,
        step_rule=study.steps.rule[:_MAX_LETTERS] if study.steps is not None else None,
        wall_ns=account.wall_ns,
        unknown=round(shares.get("unknown", 0.0), 4),
        launches_recorded=health.launches_recorded,
        dropped=health.dropped,
        truncated=health.truncated,
        groups={group: round(share, 3) for group, share in shares.items() if share > 0.01},  # noqa: PLR2004  one per cent
    )


def table_row(file: OpenedFile) -> str:
    """Write one row of the Markdown table."""
    if file.wall_ns is None:
        return f"| {file.kind} | {file.name} | {file.problem or file.refused} |" + " |" * 5
    planted = "" if file.planted is None else f"{file.planted}: {'yes' if file.is_shown else 'NO'}"
    cells = [
        file.kind,
        file.name,
        "–" if file.steps is None else f"{file.steps} ({file.step_rule})",
        f"{file.wall_ns / 1e6:,.1f}",
        format_percent(file.unknown),
        format_percent(file.launches_recorded),
        str(file.dropped),
        planted,
    ]
    return f"| {' | '.join(cells)} |"


def is_public(file: OpenedFile) -> bool:
    """Return whether a file can be had by its address."""
    return file.origin.startswith("https://")


def results_rows(results: list[OpenedFile]) -> list[dict[str, object]]:
    """Return what is kept of each file; where it is from stands in the list."""
    left_out = ("origin", "seconds")
    return [
        {
            key: value
            for key, value in asdict(file).items()
            if value is not None and key not in left_out
        }
        for file in results
    ]


def main() -> int:
    """Open all, write the result, print the table; give the number of problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the files lie")
    results = [open_file(file, parser.parse_args().folder) for file in read_list()]
    problems = [file for file in results if file.problem]
    counts = {
        kind: {
            "public": sum(file.kind == kind and is_public(file) for file in results),
            "own": sum(file.kind == kind and not is_public(file) for file in results),
            "refused": sum(file.kind == kind and file.refused is not None for file in results),
        }
        for kind in dict.fromkeys(file.kind for file in results)
    }
    document = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "files": counts,
        "problems": len(problems),
        "planted": sum(file.planted is not None for file in results),
        "planted_shown": sum(bool(file.is_shown) for file in results),
    }
    rows = [json.dumps(row, ensure_ascii=False) for row in results_rows(results)]
    head = json.dumps(document, indent=1, ensure_ascii=False).removesuffix("\n}")
    joined_rows = ",\n  ".join(rows)
    RESULT.write_text(f'{head},\n "results": [\n  {joined_rows}\n ]\n}}\n')
    print("| kind | file | steps | wall ms | unknown | launches | dropped | planted |")
    print("|---|---|---|--:|--:|--:|--:|---|")
    print("\n".join(map(table_row, results)))
    n_refused = sum(file.refused is not None for file in results)
    n_open = len(results) - len(problems) - n_refused
    print(f"\n{n_open} of {len(results)} open and sum, {n_refused} are refused as they should be.")
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
