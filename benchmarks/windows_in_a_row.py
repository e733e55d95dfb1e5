"""Whether windows end well while other threads of the training compute.

    PYTHONPATH=src python -m benchmarks.windows_in_a_row  # results/windows_in_a_row_cpu.json

A training opens and closes the recorder's windows again and again while two threads beside it run
operators. ``together``: the profiler records all threads, as it would if it knew of none;
``apart``: the training's thread alone, as the recorder does while there are others. Counted are
windows, and processes that a signal ended. Processes run side by side, two to a processor.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, versions, write_result

_RESULT: Final = Path(__file__).parent / "results" / "windows_in_a_row.json"
_ARMS: Final = ("together", "apart")
_SECONDS: Final = 60.0
_STACKS_EVERY: Final = 3  # windows
_EXTRA_S: Final = 60.0  # to begin and to end


def main() -> int:
    """Run processes of both arms side by side and count their windows and crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--arm", choices=_ARMS)
    options = parser.parse_args()
    if options.arm:
        _open_windows(options.arm, options.device, options.seconds)
        os._exit(
            0
        )  # threads that compute would be taken down with the interpreter, which may abort
    rows: dict[str, list[dict[str, Any]]] = {arm: [] for arm in _ARMS}
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        arms = [arm for _ in range(options.rounds) for arm in _ARMS]
        runs = pool.map(lambda arm: _run(arm, options.device, options.seconds), arms)
        for arm, row in zip(arms, runs, strict=True):
            rows[arm].append(row)
    result = {
        "machine": machine() | {"packages": versions(("torch",))},
        "device": options.device,
        **{
            arm: {
                "processes": len(arm_rows),
                "windows": sum(row["windows"] for row in arm_rows),
                "ended_by": [row["ended_by"] for row in arm_rows if row["ended_by"]],
            }
            for arm, arm_rows in rows.items()
        },
    }
    print(write_result(result, _RESULT.with_stem(f"{_RESULT.stem}_{options.device}")))
    return 0


def _run(arm: str, device: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.windows_in_a_row", "--arm", arm]
    command += ["--device", device, "--seconds", str(seconds)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + _EXTRA_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"windows": 0, "ended_by": "no end"}
    counts = [int(line) for line in process.stdout.splitlines() if line.isdigit()]
    code = process.returncode
    ended_by = signal.Signals(-code).name if code < 0 else f"exit {code}" if code else None
    return {"windows": max(counts, default=0), "ended_by": ended_by}


def _open_windows(arm: str, device: str, seconds: float) -> None:
    """Train under windows, one after the other; print how many there were, now and then."""
    import torch
    from torch import nn

    from gapless.payload.windows import capture

    if arm == "together":
        capture.others_may_compute = lambda: False
    torch.set_num_threads(1)
    layers = [module for _ in range(8) for module in (nn.Linear(128, 128), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(128, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        threading.Thread(target=_compute, args=(device,), daemon=True).start()

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(32, 128, device=device)).square().mean().backward()
        optimizer.step()

    number, until, choose = 0, time.monotonic() + seconds, random.Random(1)
    while time.monotonic() < until:
        window = capture.ProfilerCapture(stacks=number % _STACKS_EVERY == 0)
        for _ in range(choose.choice((1, 2, 4))):
            step()
        window.stop()
        number += 1
        print(number, flush=True)
        for _ in range(choose.choice((1, 3, 8))):
            step()


def _compute(device: str) -> None:
    import torch

    factor = torch.randn(64, 64, device=device)
    while True:
        torch.mm(factor, factor)


if __name__ == "__main__":
    sys.exit(main())
