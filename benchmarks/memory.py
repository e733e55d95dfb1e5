"""What recording takes of memory: ``python -m benchmarks.memory``.

A training with one worker runs plainly, with the light recorder and with windows, round by round.
Each process tells of itself at its end; the launcher is watched from outside. ``own`` is what no
other process shares, so it does not depend on what else runs. Docs: benchmarks/README.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

TRAINING: Final = Path(__file__).parent / "trainings" / "footprint.py"
ARMS: Final = ("plain", "light", "windows", "plain again")
SIZES: Final = {"small": (1, 900), "large": (8, 160)}  # layers, steps
MAX_ADDED_BYTES: Final = 50 << 20
MemoryByRole = dict[str, dict[str, int]]


def run_arm(arm: str, size: str) -> MemoryByRole:
    """Run one arm; give the memory of each of its processes, by role."""
    layers, steps = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--layers", str(layers), "--steps", str(steps), "--out", folder]
        plain = [sys.executable, str(TRAINING), *options]
        gapless = [sys.executable, "-m", "gapless", "run", "--out", f"{folder}/run"]
        command = plain if arm.startswith("plain") else [*gapless, *plain]
        if arm == "light":
            command.insert(len(gapless), "--no-windows")
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            peak = _watch_peak(process)
        if process.returncode:
            raise SystemExit(f"{arm} failed")
        memory_by_role: MemoryByRole = {
            role: json.loads((Path(folder) / f"{role}.json").read_text())
            for role in ("training", "worker")
        }
        if command is not plain:
            memory_by_role["launcher"] = {"peak": peak}
        return memory_by_role


def _watch_peak(process: subprocess.Popen[bytes]) -> int:
    """Return the most that was ever resident of a process, in bytes."""
    peak = 0
    while process.poll() is None:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10
        time.sleep(0.01)
    return peak


def measure_events(size: str) -> dict[str, int]:
    """Return how many events a step has, and what each takes when the profiler has stopped."""
    code = f"from benchmarks.memory import count; count({SIZES[size][0]})"
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    return json.loads(process.stdout)


def count(layers: int) -> None:
    """Print how many events a step of the training has, and the bytes of one."""
    import torch
    from torch import nn

    from benchmarks.trainings.footprint import WIDTH, memory
    from gapless.payload.windows.capture import ProfilerCapture

    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 64, batch_first=True)
    net = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)

    def capture_steps(steps: int) -> tuple[int, int]:
        before = memory()["resident"]
        capture = ProfilerCapture(stacks=False)
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.ones(4, 8, WIDTH)).square().mean().backward()
            optimizer.step()
        result = capture.stop()
        return len(result.events()), memory()["resident"] - before

    capture_steps(1)
    events, _ = capture_steps(1)
    steps = max(3, 14_000 // events)
    taken_bytes = capture_steps(steps)[1]
    print(json.dumps({"events": events, "bytes": taken_bytes // (events * steps), "steps": steps}))


def added_bytes(rounds: list[dict[str, MemoryByRole]], arm: str, role: str) -> dict[str, float]:
    """Return the median of what an arm takes more than ``plain`` of the same round, in bytes."""
    return {
        kind: statistics.median(
            arms[arm][role][kind] - arms["plain"][role][kind] for arms in rounds
        )
        for kind in rounds[0][arm][role]
    }


def main() -> None:
    """Run all arms and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "bar_bytes": MAX_ADDED_BYTES, "sizes": {}}
    for size in SIZES:
        rounds = [{arm: run_arm(arm, size) for arm in ARMS} for _ in range(options.rounds)]
        size_result: dict[str, Any] = {"a_step": measure_events(size), "rounds": rounds}
        for arm in ARMS[1:]:
            size_result[arm] = {
                role: added_bytes(rounds, arm, role) for role in ("training", "worker")
            }
        size_result["launcher_peak"] = statistics.median(
            arms["windows"]["launcher"]["peak"] for arms in rounds
        )
        result["sizes"][size] = size_result
        print(
            size,
            json.dumps({key: size_result[key] for key in size_result if key != "rounds"}, indent=1),
        )
    write_result(result, options.out)


if __name__ == "__main__":
    main()
