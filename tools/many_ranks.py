"""How many ranks are read, as a table, from what was measured."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks/results"


def ranks_table(name: str = "many_ranks.json") -> str:
    """Return a row for each number of ranks and way to read them."""
    document: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
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
            f"{ranks}, {place}: {source}. {sameness}."
            if len(jobs) > len({job["ranks"] for job in jobs})
            else f"{ranks}, {place}.",
        ]
    )


def joining_sentence() -> str:
    """Return what joins add to the memory of the process that asks, and how long they take."""
    document = json.loads((RESULTS / "joining.json").read_text(encoding="utf-8"))
    joins, joins_at_once = (
        [join for join in document["joins"] if join["by_group"] == by_group]
        for by_group in (True, False)
    )
    worlds, seconds, added = (
        " / ".join(f"{join[key] / unit:,.{digits}f}" for join in joins)
        for key, unit, digits in (("ranks", 1, 0), ("seconds", 1, 1), ("added_bytes", 1e6, 1))
    )
    megabytes_at_once = " / ".join(f"{join['added_bytes'] / 1e6:.0f}" for join in joins_at_once)
    return (
        f"Joining {worlds} ranks of 2,000 collectives, half of them of all ranks, takes {seconds} s"
        f" and adds {added} MB to the asking process (all at once in it: {megabytes_at_once} MB):"
        " [benchmarks/joining.py](../benchmarks/joining.py)."
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
