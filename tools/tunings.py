"""What tuning gave on trainings made for it, as a table, from what a benchmark measured."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parents[1] / "benchmarks/results"
HEAD: Final = ("| training | on | a step, ms | gain | kept | time |", "|---|---|--:|--:|---|--:|")


def tuning_table(results: Path = RESULTS) -> str:
    """Return a row for each training that was tuned, all results together."""
    paths = sorted(results.glob("tuning*.json"))
    return "\n".join([*HEAD, *(row for path in paths for row in _rows(path))])


def _rows(path: Path) -> Iterator[str]:
    result: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    place = "a GPU, " if "gpu" in path.stem else ""
    for training in result["trainings"]:
        yield _row(training, f"{place}{result['machine']['cores']} processors")


def _row(training: Mapping[str, Any], place: str) -> str:
    speedup = training.get("speedup")
    if speedup is None:
        step, gain = "–", "not proven"
    else:
        step = f"{training['before_ns'] / 1e6:.1f} → {training['after_ns'] / 1e6:.1f}"
        gain = f"{speedup['mid']:.2f}× [{speedup['low']:.2f} … {speedup['high']:.2f}]"
    kept = ", ".join(f"`{attempt['fix']}`" for attempt in training["tries"] if attempt["is_kept"])
    seconds = f"{training['spent_s']:.0f} s"
    return f"| {training['training']} | {place} | {step} | {gain} | {kept or '–'} | {seconds} |"
