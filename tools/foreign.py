"""Which files of other profilers were opened, as a table, from what a benchmark found."""

import json
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).parents[1] / "benchmarks/results/foreign_traces.json"
_KINDS: Final = {
    "nsight": "Nsight Systems",
    "xla": "XLA",
    "rocprof": "rocprofv3",
    "perfetto": "Perfetto",
}


def opened_table(result: Path = RESULT) -> str:
    """Return a row for each kind: its files, where they are from, what is unknown in them."""
    document: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    rows = [
        "| | public | own | sum exactly | refused | unknown: median, worst | planted, shown |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind, title in _KINDS.items():
        files = [file for file in document["results"] if file["kind"] == kind]
        accounts = [file for file in files if "wall_ns" in file and "problem" not in file]
        unknown = sorted(file["unknown"] for file in accounts)
        planted = [file for file in files if "planted" in file]
        counts = document["files"][kind]
        shown = f"{len(planted)}, {sum(file['is_shown'] for file in planted)}" if planted else "–"
        rows.append(
            f"| {title} | {counts['public']} | {counts['own']} | {len(accounts)} | "
            f"{counts['refused']} | {unknown[len(unknown) // 2]:.1%}, {unknown[-1]:.1%} | {shown} |"
        )
    return "\n".join(rows)


def nsight_versions(result: Path = RESULT) -> str:
    """Return which versions of Nsight Systems wrote the public files that were opened."""
    document: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    versions = sorted(
        {
            tuple(tuple(map(int, part.split(".")[:2])) for part in file["version"].split())
            for file in document["results"]
            if file.get("version") and "wall_ns" in file
        }
    )
    first, last = (
        f"{year}.{month} (schema {major}.{minor})"
        for (year, month), (major, minor) in (versions[0], versions[-1])
    )
    return (
        f"Exports of {len(versions)} versions of nsys were opened, from {first} to {last}. Tables "
        "and columns that a version does not have are absent."
    )
