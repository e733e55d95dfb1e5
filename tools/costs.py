"""What reading costs, as a table for the README, from what ``benchmarks/reading.py`` measured."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).parents[1] / "benchmarks/results/reading.json"
INPUTS: Final = {  # the largest first
    "rich-1000.json.gz": "1 GB with stacks, shapes and memory events",
    "plain-1000.json.gz": "1 GB as Kineto writes it",
}
HEAD: Final = (
    "| a trace, from `.json.gz` to what is printed | | s | all processes, GB |",
    "|---|---|--:|--:|",
)
SUBJECTS: Final = {
    "gapless": "`gapless open`",
    "gapless, again": "again, from the cache",
    "json.load": "Python's `json.load` alone",
    "HTA": "HolisticTraceAnalysis",
    "torch-tb-profiler": "torch-tb-profiler",
}


def table(result: Path = RESULT) -> str:
    """Give the table of medians; without a result the sentence that there is none."""
    if not result.exists():
        return "Reading has not been measured yet (`benchmarks/reading.py`)."
    found: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    machine = found["machine"]
    where = f"{machine['cores']} cores of an {machine['processor']}, {found['date']}"
    source = "[benchmarks/reading.py](benchmarks/reading.py)"
    return "\n".join([*HEAD, *_lines(found["summary"]), "", f"Medians, {where}: {source}."])


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for name, what in INPUTS.items():
        here = {
            row["subject"]: row
            for row in rows
            if row["what"].removesuffix(" through the cache") == name and row["wall_s"] is not None
        }
        measured = [subject for subject in SUBJECTS if subject in here]
        for subject in measured:
            first = what if subject == measured[0] else ""
            yield _line(first, SUBJECTS[subject], here[subject])


def _line(what: str, called: str, row: Mapping[str, Any]) -> str:
    peak = row["peak_bytes"]
    memory = f"{peak['median'] / 1e9:.2f}" if peak is not None else "–"
    return f"| {what} | {called} | {row['wall_s']['median']:.1f} | {memory} |"
