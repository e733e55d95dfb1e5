"""What exported models gave on a processor and on a GPU, as tables, from what was measured."""

import json
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parents[1] / "benchmarks/results"
_BATCHES: Final = ("1", "8", "32")
_MAX_SPREAD: Final = 4  # of an interval: wider ones say nothing


def cpu_table() -> str:
    """Return how five models fare on a processor."""
    return export_table(RESULTS / "exported_models.json")


def gpu_table() -> str:
    """Return how models fare on a GPU."""
    return export_table(RESULTS / "exported_models_gpu.json")


def export_table(result: Path) -> str:
    """Return a row for each model and way, what was refused with its reason, and the machine."""
    document: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    models: dict[str, Any] = document["models"]
    rows = [
        row
        for name, model in models.items()
        for way in model["ways"]
        if (row := _way_row(name, way)) is not None
    ]
    model, machine = next(iter(models.values())), document["machine"]
    place = model["processor"] if "cuda" in model["subject"]["device"] else machine["processor"]
    threads = f"{model['threads']} thread{'s' * (model['threads'] != 1)} of torch"
    source = f"[{result.name}](../benchmarks/results/{result.name})"
    return "\n".join(
        [
            "| model | way | file | same outputs | batch of 1 | of 8 | of 32 |",
            "|---|---|--:|---|---|---|---|",
            *rows,
            "",
            f"{place}, torch {model['torch']}, {threads}: {source}.",
        ]
    )


def _way_row(name: str, way: dict[str, Any]) -> str | None:
    """Return the cells of a way; ``None`` for a format that is not to be had there."""
    model = name if way["name"] == "eager" else ""
    if way["failure"] is not None:
        failure = way["failure"]
        reason = f"refused: {failure['construct']}, `{failure['source']}`"
        return f"| {model} | {way['name']} | – | {reason} | – | – | – |"
    if not way["costs"]:
        return None
    size = f"{sum(size for _, size in way['files']) / 1e6:.1f} MB" if way["files"] else "–"
    parity = way["parity"]
    sameness = "–"
    if parity is not None:
        sameness = f"{'yes' if parity['is_within'] else 'NO'}, to {parity['share']:.0e}"
        sameness = "the same" if parity["share"] == 0 else sameness
    costs = {cost["batch"]: _cost_cell(cost) for cost in way["costs"]}
    cells = [costs.get(batch, "–") for batch in _BATCHES]
    return f"| {model} | {way['name']} | {size} | {sameness} | {' | '.join(cells)} |"


def _cost_cell(cost: dict[str, Any]) -> str:
    if cost["p50_ns"] is None:
        return "not timed"
    median = f"{cost['p50_ns'] / 1e6:.2g} ms"
    speedup = cost["speedup"]
    if speedup is None:
        return median
    if speedup["high"] > _MAX_SPREAD * speedup["low"]:
        return f"{median}, ?"
    low, mid, high = (f"{speedup[key]:.2g}" for key in ("low", "mid", "high"))
    return f"{median}, {mid}× [{low}, {high}]"
