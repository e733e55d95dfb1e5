"""Measure windows of torch's profiler in a training that knows nothing of them, on a GPU.

``PYTHONPATH=src python -m benchmarks.windows_on_gpu [--steps 400] [--cpu]`` prints JSON. For each
way of saving: what start, stop, saving and freeing cost the training, how its steps ran beside the
saving, whether the files are whole and hold what they should, whether it ended as the plain one.
Needs torch, and psutil for the description of the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from gapless import wire

ROOT = Path(__file__).parents[1]
SITE = ROOT / "src" / "gapless" / "payload" / "site"
TRAINING = Path(__file__).parent / "trainings" / "small_resnet.py"
ARMS = ("plain", "no-windows", "place", "child", "auto")
PATIENCE_S = 300


def run_arm(arm: str, spool: Path, extra: list[str], period: int) -> dict[str, Any]:
    """Run the training under one arm; give how it ended and what it wrote."""
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99"}
    environment.pop("PYTHONPATH", None)
    if arm != "plain":
        options = {"windows": arm != "no-windows", "save": arm, "every": period, "most_windows": 4}
        environment |= {
            "PYTHONPATH": str(SITE),
            wire.SPOOL: str(spool),
            wire.OPTIONS: json.dumps(options),
        }
    start_s = time.monotonic()
    process = subprocess.run(
        [sys.executable, str(TRAINING), *extra],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    outcome: dict[str, Any] = {"code": process.returncode, "command_s": time.monotonic() - start_s}
    outcome |= {"stderr": process.stderr[-2000:], "printed": json.loads(process.stdout or "{}")}
    return outcome


def read_frames(spool: Path) -> list[wire.Frame]:
    """Return the frames of the training process's log."""
    log = spool / "rank0.log"
    return wire.frames(log.read_bytes())[0] if log.exists() else []


def marks(log: list[wire.Frame], kind: int) -> list[dict[str, Any]]:
    """Return the marks of a kind."""
    marks_of_all: list[dict[str, Any]] = [
        dict(zip(wire.MARK_FIELDS, mark, strict=True))
        for frame in log
        if frame.kind == wire.MARKS
        for mark in wire.MARK.iter_unpack(frame.body)
    ]
    return [mark for mark in marks_of_all if mark["kind"] == kind]


def contents(path: Path) -> dict[str, Any]:
    """Return what a file of a window holds; ``whole``: it is one JSON text."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return {"whole": False, "why": repr(error)}
    events = document["traceEvents"]
    kinds = Counter(event.get("cat") for event in events)
    launches = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "Launch" in event["name"]
    }
    kernels = {event["args"]["correlation"] for event in events if event.get("cat") == "kernel"}
    steps = [event for event in events if event.get("name") == "gapless:step"]
    return {
        "whole": True,
        "bytes": path.stat().st_size,
        "events": len(events),
        "kinds": {str(kind): count for kind, count in kinds.items()},
        "devices": len(document.get("deviceProperties") or ()),
        "steps": len(steps) - 1,
        "window": {
            key: document.get("gapless", {}).get(key) for key in ("first_step", "last_step")
        },
        "launches_without_kernel": len(launches - kernels),
        "kernels_without_launch": len(kernels - launches),
    }


def windows(spool: Path, log: list[wire.Frame]) -> list[dict[str, Any]]:
    """Return the last frame of each window, and what its file holds."""
    until = time.monotonic() + 40  # a child may outlive the training
    while list(spool.glob("windows/*.part*")) and time.monotonic() < until:
        time.sleep(0.1)
    frames_text = [frame.text() for frame in log if frame.kind == wire.WINDOW]
    last_by_number = {window["number"]: window for window in frames_text}
    for window in last_by_number.values():
        window.pop("readings", None)
        window["file"] = contents(spool / window["path"]) if window["path"] else None
    return list(last_by_number.values())


def step_times(log: list[wire.Frame]) -> dict[str, float]:
    """Return the step times, in ms: those that our own work touched, and the others."""
    own_marks = [mark for mark in marks(log, wire.OBSERVER) if mark["value"] != wire.OBSERVER_FLUSH]
    spans = [(mark["end"], mark["end"] + 2_000_000_000) for mark in own_marks]
    free_ns, near_ns = list[int](), list[int]()
    for before, after in pairwise(sorted(mark["end"] for mark in marks(log, wire.STEP))):
        if any(start < after and before < end for start, end in spans):
            near_ns.append(after - before)
        elif not any(mark["start"] < after and before < mark["end"] for mark in own_marks):
            free_ns.append(after - before)
    lengths = {"free_median_ms": free_ns, "within_2s_of_a_window_median_ms": near_ns}
    return {name: statistics.median(times) / 1e6 for name, times in lengths.items() if times}


def measure(arm: str, extra: list[str], period: int) -> dict[str, Any]:
    """Return everything about one arm."""
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder)
        outcome = run_arm(arm, spool, extra, period)
        log = read_frames(spool)
        own_marks = [
            mark for mark in marks(log, wire.OBSERVER) if mark["value"] != wire.OBSERVER_FLUSH
        ]
        return {
            **outcome,
            "windows": windows(spool, log),
            "held_ms": [(mark["end"] - mark["start"]) / 1e6 for mark in own_marks],
            "steps": step_times(log),
            "marked_steps": len(marks(log, wire.STEP)),
            "unseen": [frame.text() for frame in log if frame.kind == wire.UNOBSERVED],
        }


def main() -> None:
    """Measure every arm, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=80)
    parser.add_argument("--wide", type=int, default=64)
    parser.add_argument("--deep", type=int, default=16)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    options = parser.parse_args()
    extra = [f"--{name}={getattr(options, name)}" for name in ("steps", "wide", "deep")]
    extra += ["--cpu"] if options.cpu else []
    results = {arm: measure(arm, extra, options.every) for arm in options.arms}
    print(json.dumps({"machine": machine(), "command": extra, "arms": results}, indent=1))


if __name__ == "__main__":
    main()
