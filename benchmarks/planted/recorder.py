"""Name the machine that records: what figures of planted faults depend on."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from benchmarks.machine import PACKAGES, machine, versions
from benchmarks.planted.running import Lane

_TRAINED_WITH: Final = ("torch", "torchvision")
_ASKING_S: Final = 20.0


def recorder(lane: Lane) -> dict[str, Any]:
    """Describe the machine of a lane, the versions that its trainings use, and its device."""
    return machine() | {
        "packages": versions((*PACKAGES, *_TRAINED_WITH)),
        "lane_cores": len(lane.cores),
        "lane_threads": lane.threads or len(lane.cores),
        "memory": dict(lane.memory),
        "device": _gpu() if lane.device == "cuda" else "cpu",
    }


@cache
def _gpu() -> str:
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return "cuda"
    command = [nvidia_smi, "--query-gpu=name", "--format=csv,noheader"]
    try:
        process = subprocess.run(
            command, capture_output=True, encoding="utf-8", check=False, timeout=_ASKING_S
        )
    except subprocess.TimeoutExpired:
        return "cuda"
    return process.stdout.strip().partition("\n")[0] or "cuda"


def count_machines(machines: list[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return each machine once, with the number of its recordings; those of none named last."""
    rows: list[dict[str, Any]] = []
    for recorder_facts in sorted(machines, key=lambda row: row is None):
        plain = {"unknown": True} if recorder_facts is None else dict(recorder_facts)
        row = next((row for row in rows if row["machine"] == plain), None)
        if row is None:
            rows.append({"recordings": 1, "machine": plain})
        else:
            row["recordings"] += 1
    return rows
