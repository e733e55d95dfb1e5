"""What recording and reading cost, as tables for the README, from what benchmarks measured."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

WATCHING: Final = Path(__file__).parents[1] / "benchmarks/results/watching.json"
RECORDING: Final = Path(__file__).parents[1] / "benchmarks/results/overhead.json"
ARMS: Final = {
    "plain again": "nothing: the plain run once more",
    "light": "`gapless run --no-windows`",
    "windows": "`gapless run`",
    "torch.profiler": "`torch.profiler` on all the time",
    "traceml-ai": "traceml-ai",
}
BESIDE: Final = Path(__file__).parents[1] / "benchmarks/results/beside.json"
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


def reading_table(result: Path = RESULT) -> str:
    """Return the table of medians; without a result the sentence that there is none."""
    if not result.exists():
        return "Reading has not been measured yet (`benchmarks/reading.py`)."
    measurements: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    machine = measurements["machine"]
    conditions = f"{machine['cores']} cores of an {machine['processor']}, {measurements['date']}"
    source = "[benchmarks/reading.py](benchmarks/reading.py)"
    return "\n".join(
        [*HEAD, *_lines(measurements["summary"]), "", f"Medians, {conditions}: {source}."]
    )


def recording_table(result: Path = RECORDING) -> str:
    """Return the table of what is added to a training, its noise first."""
    if not result.exists():
        return "Recording has not been measured yet (`benchmarks/overhead.py`)."
    measurements: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    rows = {(row["size"], row["arm"]): row for row in measurements["summary"]}
    sizes = list(dict.fromkeys(size for size, _ in rows))
    steps = [f"a step of {rows[size, 'plain']['step_ns'] / 1e6:.2g} ms" for size in sizes]
    lines = [
        f"| what is added | {' | '.join(f'{step} takes' for step in steps)} | the command takes |",
        f"|---|{'--:|' * (len(sizes) + 1)}",
    ]
    for arm, label in ARMS.items():
        if not any((size, arm) in rows for size in sizes):  # it was not run
            continue
        cells = [_ratio(rows.get((size, arm))) for size in sizes]
        first_row = rows.get((sizes[0], arm))
        has_equal_steps = first_row is not None and arm != "torch.profiler"  # it made fewer of them
        cells.append(
            f"{first_row['added_to_command_s']:+.1f} s" if first_row and has_equal_steps else "–"
        )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    machine = measurements["machine"]
    place = f"{machine['cores']} cores of an {machine['processor']}, the CPU alone"
    conditions = f"{place}, {measurements['date']}"
    source = "[benchmarks/overhead.py](benchmarks/overhead.py)"
    return "\n".join(
        [*lines, "", f"Ratios to the plain run of the same round, {conditions}: {source}."]
    )


def _quote_name(row: str) -> str:
    """Return "name 24%" with the name as code."""
    name, _, share = row.rpartition(" ")
    return f"`{name}` {share.removesuffix('%')} %"


def beside_table(result: Path = BESIDE) -> str:
    """Return what tools show first of one training, and what they cost."""
    if not result.exists():
        return "Nothing has been run yet (`benchmarks/beside.py`)."
    measurements: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    lines = ["| tool | what it shows first | processor time |", "|---|---|--:|"]
    for name, tool in measurements["tools"].items():
        rows = tool["shows"] or [f"it failed: {tool['failed']}"]
        # Names are code: as text, Markdown would take their brackets and underscores for its own.
        is_text = name == "gapless" or not tool["shows"]
        shown = " · ".join(rows if is_text else map(_quote_name, rows)).replace("|", r"\|")
        version = f" {tool['version']}" if tool["version"] else ""
        lines.append(f"| {name}{version} | {shown} | × {tool['ratio']} |")
    machine = measurements["machine"]
    place = f"{machine['cores']} cores of an {machine['processor']}, {measurements['date']}"
    source = "[benchmarks/beside.py](../benchmarks/beside.py)"
    rounds = len(measurements["plain_cpu_s"])
    note = (
        f"Processor time of all processes, plain run = 1, median of {rounds} rounds; threads that "
        f"wait for one another spin, so that it differs by some tenths from day to day; "
        f"{place}: {source}."
    )
    return "\n".join([*lines, "", note])


def _ratio(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    ratio = row["ratio"]
    spread = f" ({ratio['min']:.2f}–{ratio['max']:.2f})" if row["runs"] > 1 else ""
    return f"× {ratio['median']:.2f}{spread}"


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for name, description in INPUTS.items():
        rows_by_subject = {
            row["subject"]: row
            for row in rows
            if row["what"].removesuffix(" through the cache") == name and row["wall_s"] is not None
        }
        measured = [subject for subject in SUBJECTS if subject in rows_by_subject]
        for subject in measured:
            first_cell = description if subject == measured[0] else ""
            yield _line(first_cell, SUBJECTS[subject], rows_by_subject[subject])


def _line(description: str, label: str, row: Mapping[str, Any]) -> str:
    peak = row["peak_bytes"]
    memory = f"{peak['median'] / 1e9:.2f}" if peak is not None else "–"
    return f"| {description} | {label} | {row['wall_s']['median']:.1f} | {memory} |"


def watching_sentence(result: Path = WATCHING) -> str:
    """Return what the screen of ``gapless watch`` takes of a processor."""
    if not result.exists():
        return "has not been measured yet (`benchmarks/watching.py`)."
    measurements: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    texts = [
        f"{cost['share'] * 100:.1f} % ({cost['view']}, {cost['columns']} × {cost['rows']})"
        for cost in measurements["costs"]
    ]
    if "attach" in measurements:
        texts.append(f"{measurements['attach']['share'] * 100:.1f} % (attach, while it looks)")
    machine, seconds = measurements["machine"], measurements["costs"][0]["measured_s"]
    return (
        f"so much of one core, measured over {seconds:.0f} s beside a training with "
        f"{measurements['workers']} workers: {', '.join(texts)}; {machine['cores']} cores of an "
        f"{machine['processor']} ([benchmarks/watching.py](../benchmarks/watching.py))."
    )
