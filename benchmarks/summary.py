"""Samples of whole processes → medians, extremes, ratios within rounds; and as tables."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.watch import CommandRun

FIGURES = ("wall_s", "cpu_s", "peak_bytes")


@dataclass(frozen=True)
class Sample:
    """One run of one subject on one input."""

    input_name: str
    subject: str
    command: str
    round: int
    run: CommandRun

    def rename(self, input_name: str, rounds_before: int) -> "Sample":
        """Return the sample as a later round of another name."""
        return replace(self, input_name=input_name, round=self.round + rounds_before)

    def figure(self, name: str) -> float | None:
        """Return a figure of the run; ``None`` where it was not measured or the run failed."""
        return getattr(self.run, name) if self.run.exit_code == 0 else None


def spread(values: Iterable[float | None]) -> dict[str, float] | None:
    """Return median and extremes of what was measured."""
    measured = [value for value in values if value is not None]
    if not measured:
        return None
    return {"median": statistics.median(measured), "min": min(measured), "max": max(measured)}


def _ratios(samples: list[Sample], subject: str, figure: str) -> dict[str, float] | None:
    base_by_round = {
        sample.round: sample.figure(figure) for sample in samples if sample.subject == "gapless"
    }
    return spread(
        value / base
        for sample in samples
        if sample.subject == subject
        and (value := sample.figure(figure)) is not None
        and (base := base_by_round.get(sample.round))
    )


def _row(samples: list[Sample], subject: str) -> dict[str, Any]:
    subject_samples = [sample for sample in samples if sample.subject == subject]
    row: dict[str, Any] = {
        "what": subject_samples[0].input_name,
        "subject": subject,
        "command": subject_samples[0].command,
        "runs": len(subject_samples),
        "failed": sum(sample.run.exit_code != 0 for sample in subject_samples),
    }
    for figure in FIGURES:
        row[figure] = spread(sample.figure(figure) for sample in subject_samples)
    if any(sample.subject == "gapless" for sample in samples) and subject != "gapless":
        row["times_gapless"] = {figure: _ratios(samples, subject, figure) for figure in FIGURES}
    return row


def document(samples: list[Sample]) -> dict[str, Any]:
    """Return the summary and all samples, ready for JSON."""
    summary: list[dict[str, Any]] = []
    for input_name in dict.fromkeys(sample.input_name for sample in samples):
        input_samples = [sample for sample in samples if sample.input_name == input_name]
        summary += [
            _row(input_samples, subject)
            for subject in dict.fromkeys(sample.subject for sample in input_samples)
        ]
    return {
        "summary": summary,
        "samples": [
            {
                "what": sample.input_name,
                "subject": sample.subject,
                "round": sample.round,
                "peak_bytes": sample.run.peak_bytes,
                **asdict(sample.run),
            }
            for sample in samples
        ],
    }


def _cell(figure: dict[str, float] | None, write: Callable[[float], str]) -> str:
    if figure is None:
        return "–"
    if figure["min"] == figure["max"]:
        return write(figure["median"])
    return f"{write(figure['median'])} ({write(figure['min'])}–{write(figure['max'])})"


def _line(row: dict[str, Any]) -> str:
    times = (row.get("times_gapless") or {}).get("wall_s")
    cells = [
        row["what"],
        row["subject"],
        f"{row['runs']}{' (' + str(row['failed']) + ' failed)' if row['failed'] else ''}",
        _cell(row["wall_s"], "{:.2f}".format),
        _cell(row["cpu_s"], "{:.2f}".format),
        _cell(row["peak_bytes"], lambda value: f"{value / 1e6:,.0f}"),
        _cell(times, "{:.1f}×".format),
    ]
    return f"| {' | '.join(cells)} |"


def tables(summary_document: dict[str, Any]) -> str:
    """Write the summary as a Markdown table: median (min–max)."""
    head = (
        "| input | subject | runs | wall s | CPU s | peak MB | wall, times gapless |\n"
        "|---|---|--:|--:|--:|--:|--:|"
    )
    return "\n".join([head, *(_line(row) for row in summary_document["summary"])])
