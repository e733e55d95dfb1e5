"""Samples of whole processes → medians, extremes, ratios within rounds; and as tables."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.watch import Run

FIGURES = ("wall_s", "cpu_s", "peak_bytes")


@dataclass(frozen=True)
class Sample:
    """One run of one subject on one input."""

    what: str
    subject: str
    command: str
    round: int
    run: Run

    def renamed(self, what: str, rounds_before: int) -> "Sample":
        """Give the sample as a later round of another name."""
        return replace(self, what=what, round=self.round + rounds_before)

    def figure(self, name: str) -> float | None:
        """Give a figure of the run; ``None`` where it was not measured or the run failed."""
        return getattr(self.run, name) if self.run.exit_code == 0 else None


def spread(values: Iterable[float | None]) -> dict[str, float] | None:
    """Give median and extremes of what was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"median": statistics.median(known), "min": min(known), "max": max(known)}


def _ratios(samples: list[Sample], subject: str, figure: str) -> dict[str, float] | None:
    ours = {one.round: one.figure(figure) for one in samples if one.subject == "gapless"}
    return spread(
        value / base
        for one in samples
        if one.subject == subject
        and (value := one.figure(figure)) is not None
        and (base := ours.get(one.round))
    )


def _row(samples: list[Sample], subject: str) -> dict[str, Any]:
    own = [one for one in samples if one.subject == subject]
    row: dict[str, Any] = {
        "what": own[0].what,
        "subject": subject,
        "command": own[0].command,
        "runs": len(own),
        "failed": sum(one.run.exit_code != 0 for one in own),
    }
    for figure in FIGURES:
        row[figure] = spread(one.figure(figure) for one in own)
    if any(one.subject == "gapless" for one in samples) and subject != "gapless":
        row["times_gapless"] = {figure: _ratios(samples, subject, figure) for figure in FIGURES}
    return row


def document(samples: list[Sample]) -> dict[str, Any]:
    """Give the summary and all samples, ready for JSON."""
    summary: list[dict[str, Any]] = []
    for what in dict.fromkeys(one.what for one in samples):
        here = [one for one in samples if one.what == what]
        summary += [_row(here, subject) for subject in dict.fromkeys(one.subject for one in here)]
    return {
        "summary": summary,
        "samples": [
            {
                "what": one.what,
                "subject": one.subject,
                "round": one.round,
                "peak_bytes": one.run.peak_bytes,
                **asdict(one.run),
            }
            for one in samples
        ],
    }


def _cell(found: dict[str, float] | None, write: Callable[[float], str]) -> str:
    if found is None:
        return "–"
    if found["min"] == found["max"]:
        return write(found["median"])
    return f"{write(found['median'])} ({write(found['min'])}–{write(found['max'])})"


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


def tables(found: dict[str, Any]) -> str:
    """Write the summary as a Markdown table: median (min–max)."""
    head = (
        "| input | subject | runs | wall s | CPU s | peak MB | wall, times gapless |\n"
        "|---|---|--:|--:|--:|--:|--:|"
    )
    return "\n".join([head, *(_line(row) for row in found["summary"])])
