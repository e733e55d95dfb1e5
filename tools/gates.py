"""How often gates were right, as a table, from what benchmarks measured."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parents[1] / "benchmarks/results"
_COLUMNS: Final = (
    *("on", "arms", "equal", "of these red", "planted", "red", "visible", "of these red"),
    *("right leaf", "smallest visible, median"),
)
HEAD: Final = (f"| {' | '.join(_COLUMNS)} |", "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
Gate = Mapping[str, Any]


def gate_table(results: Path = RESULTS) -> str:
    """Return a row for each machine and way of running arms, all results together."""
    gates: dict[tuple[str, str], list[Gate]] = {}
    for path in sorted(results.glob("gating*.json")):
        for key, gate in _read(path):
            gates.setdefault(key, []).append(gate)
    return "\n".join([*HEAD, *(_row(*key, rows) for key, rows in sorted(gates.items()))])


def _read(path: Path) -> Iterator[tuple[tuple[str, str], Gate]]:
    result = json.loads(path.read_text(encoding="utf-8"))
    for gate in result["gates"]:
        if "error" not in gate and gate.get("mode") != "baseline":
            place = f"{result['machine']['cores']} processors"
            if str(gate.get("lane", "")).startswith("gpu"):
                is_timed_there = gate.get("on_device", False)
                place = "a GPU" if is_timed_there else "a GPU, mostly timed on the host"
            yield (place, "in turns" if gate.get("in_turns") else "one after the other"), gate


def _row(place: str, way: str, gates: Sequence[Gate]) -> str:
    equal = [gate for gate in gates if gate["place"] is None]
    planted = [gate for gate in gates if gate["place"] is not None]
    visible = [gate for gate in planted if gate["smallest_visible"] <= gate["share"]]
    counts = [len(equal), _count_red(equal), len(planted), _count_red(planted)]
    counts += [len(visible), _count_red(visible)]
    counts += [sum(gate.get("leaf_is_right", False) for gate in planted)]
    smallest = statistics.median(gate["smallest_visible"] for gate in gates)
    return f"| {place} | {way} | {' | '.join(map(str, counts))} | {smallest:.1%} |"


def _count_red(gates: Sequence[Gate]) -> int:
    return sum(gate["verdict"] == "red" for gate in gates)
