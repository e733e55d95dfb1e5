"""How many ranks are read, as a table, from what was measured."""

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parents[1] / "benchmarks/results/many_ranks.json"


def ranks_table() -> str:
    """Return a row for each number of ranks and way to read them."""
    document: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    jobs: list[dict[str, Any]] = document["jobs"]
    megabytes = jobs[0]["trace_bytes"] / 1e6
    machine = document["machine"]
    source = "[benchmarks/many_ranks.py](../benchmarks/many_ranks.py)"
    place = f"{machine['cores']} cores of an {machine['processor']}"
    ranks = f"Ranks of {megabytes:.1f} MB of JSON, nothing in the cache"
    sameness = f"Studies of the same ranks, read either way, are {_sameness(jobs)}"
    return "\n".join(
        [
            "| ranks | read by | time | a rank | driver's memory | late ranks named | sums exact |",
            "|--:|---|--:|--:|--:|--:|---|",
            *map(_job_row, jobs),
            "",
            f"{ranks}, {place}: {source}. {sameness}.",
        ]
    )


def _job_row(job: dict[str, Any]) -> str:
    reader = job["reader"]
    if job["workers_killed"]:
        reader += f", {job['workers_killed']} worker killed midway"
    n_named = len(set(job["planted"]) & set(job["named"]))
    cells = (
        f"{job['ranks']:,}",
        reader,
        f"{job['seconds']:.0f} s",
        f"{job['seconds'] / job['ranks'] * 1e3:.0f} ms",
        f"{job['driver_peak_bytes'] / 1e6:.0f} MB",
        f"{n_named} of {len(job['planted'])}",
        "yes" if job["is_exact"] else "NO",
    )
    return f"| {' | '.join(cells)} |"


def _sameness(jobs: list[dict[str, Any]]) -> str:
    digests: dict[int, set[str]] = {}
    for job in jobs:
        digests.setdefault(job["ranks"], set()).add(job["digest"])
    return "equal" if all(len(values) == 1 for values in digests.values()) else "NOT equal"
