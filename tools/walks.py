"""How long it takes from a clone to a proven fix, as a table, from what a benchmark measured."""

import json
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).parents[1] / "benchmarks/results/walk.json"


def walk_table(result: Path = RESULT) -> str:
    """Return a row for each command with its seconds, and what was proven below."""
    walk: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    rows = [f"| `{part['command']}` | {part['seconds']:.1f} s |" for part in walk["parts"]]
    best = max(walk["trials"], key=lambda trial: trial["speedup"]["low"])
    low, mid, high = (best["speedup"][name] for name in ("low", "mid", "high"))
    machine = walk["machine"]
    place = f"{machine['cores']} cores of an {machine['processor']}"
    verdict = (
        f"The trial's verdict: {best['verdict']}, {mid:.2f}× [{low:.2f} … {high:.2f}]. A small "
        f"network that decodes photographs, {place}, with nothing else on the machine: "
        "[benchmarks/walk.py](../benchmarks/walk.py). On a machine that others use, a trial may "
        "decide nothing."
    )
    total = f"| **all** | **{walk['seconds']:.0f} s** |"
    return "\n".join(["| command | took |", "|---|--:|", *rows, total, "", verdict])
