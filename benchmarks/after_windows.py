"""Measure what a window of torch's profiler leaves behind in a training once it is closed.

``PYTHONPATH=src python -m benchmarks.after_windows --out FILE [--cpu]``. A training of many short
kernels, which its host bounds, runs in one process an arm: blocks of steps before any window, after
one, after two. Arms: CUPTI left attached, as torch does by default; detached, that is
``TEARDOWN_CUPTI=1``; each with and without records of synchronisation; a profiler of the host
alone. Beside it a thread copies from pinned memory all the time, and at the end a CUDA graph is
captured and replayed: an arm that hangs or crashes is told as such. Needs torch and a GPU, about
three minutes; ``--cpu`` is a dry run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

ARMS: Final = {  # environment, records of synchronisation, activities of the device
    "attached": ({"TEARDOWN_CUPTI": "0"}, True, True),
    "attached, no syncs": ({"TEARDOWN_CUPTI": "0"}, False, True),
    "detached": ({"TEARDOWN_CUPTI": "1"}, True, True),
    "detached, no syncs": ({"TEARDOWN_CUPTI": "1"}, False, True),
    "host alone": ({}, True, False),
}
BLOCKS, WINDOWS, STEPS, WARM = 8, 3, 4, 30
BLOCK_S: Final = 0.25
PATIENCE_S: Final = 90
_Step = Callable[[], None]


class CopyThread:
    """A thread that copies pinned memory to the device, as a loader's does."""

    def __init__(self, device: str) -> None:
        import torch

        self._over = threading.Event()
        self._from = torch.zeros(1 << 16).pin_memory() if device == "cuda" else torch.zeros(1 << 16)
        self._device, self.count = device, 0
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        while not self._over.wait(0.005):
            self._from.to(self._device, non_blocking=True)
            self.count += 1

    def end(self) -> bool:
        """Return whether it could be ended."""
        self._over.set()
        self._thread.join(10)
        return not self._thread.is_alive()


def build_training(device: str) -> _Step:
    """Return a step of many short kernels, without a synchronisation."""
    import torch

    torch.manual_seed(0)
    layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(32, 64, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def measure_blocks(step: _Step, wait: _Step, count: int) -> list[float]:
    """Return the seconds a step of blocks of so many steps."""
    step_times = list[float]()
    for _ in range(BLOCKS):
        start_s = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        step_times.append((time.perf_counter() - start_s) / count)
    return step_times


def measure_window(step: _Step, syncs: bool, on_device: bool, path: Path) -> dict[str, Any]:  # noqa: FBT001
    """Open a window over some steps; give what it cost and what it holds."""
    from gapless.payload.windows import capture

    class Arm(capture.ProfilerCapture):
        def _activities(self, native: Any) -> set[Any]:  # noqa: ANN401
            return super()._activities(native) if on_device else {native.ProfilerActivity.CPU}

        def _extras(self, native: Any) -> Any:  # noqa: ANN401
            if syncs:
                return super()._extras(native)
            return native._ExperimentalConfig(**{capture.ALL_THREADS: True})  # noqa: SLF001

    begin_s = time.perf_counter()
    capture_window = Arm(stacks=False)
    started_s = time.perf_counter()
    for _ in range(STEPS):
        step()
    stopping_s = time.perf_counter()
    result = capture_window.stop()
    stopped_s = time.perf_counter()
    result.save(str(path))
    kinds = Counter(event.get("cat") for event in json.loads(path.read_text())["traceEvents"])
    return {
        "start_s": started_s - begin_s,
        "stop_s": stopped_s - stopping_s,
        "kernels": kinds["kernel"],
        "operators": kinds["cpu_op"],
    }


def replay_graph(step: _Step) -> bool:
    """Capture a CUDA graph and replay it."""
    import torch

    graph, out = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out += 1
    for _ in range(3):
        graph.replay()
        step()
    torch.cuda.synchronize()
    return bool((out == 3).all())  # noqa: PLR2004 - it was replayed three times


def measure(name: str, device: str) -> dict[str, Any]:
    """Be one arm: blocks, and windows between them."""
    import torch

    _, syncs, on_device = ARMS[name]
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    step, copy_thread = build_training(device), CopyThread(device)
    for _ in range(WARM):
        step()
    wait()
    (first_s,) = measure_blocks(step, wait, 10)[-1:]
    count = max(3, round(BLOCK_S / first_s))
    result: dict[str, Any] = {"steps_s": [measure_blocks(step, wait, count)], "windows": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(WINDOWS):
            path = Path(folder) / f"{number}.json"
            result["windows"].append(measure_window(step, syncs, on_device, path))
            result["steps_s"].append(measure_blocks(step, wait, count))
    result["graph_replays"] = replay_graph(step) if device == "cuda" else None
    result["copies"], result["copies_end"] = copy_thread.count, copy_thread.end()
    return result


def run_arm(name: str, device: str) -> dict[str, Any]:
    """Run an arm in a process of its own; how it failed, if it did."""
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99", **ARMS[name][0]}
    line = [sys.executable, "-m", "benchmarks.after_windows", "--arm", name]
    line += ["--cpu"] if device == "cpu" else []
    try:
        process = subprocess.run(
            line,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"it did not end within {PATIENCE_S} s"}
    if process.returncode:
        return {"failed": f"exit code {process.returncode}: {process.stderr[-1500:]}"}
    result = json.loads(process.stdout.splitlines()[-1])
    before, *after = (statistics.median(block) for block in result["steps_s"])
    return {
        "after_each": [round(step_s / before, 4) for step_s in after],
        "before_s": before,
        **result,
    }


def main() -> None:
    """Run the arms, twice each and in turns, and print what each leaves behind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cpu", action="store_true", help="a dry run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--arm", choices=list(ARMS), help="be one arm")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"
    if options.arm:
        print(json.dumps(measure(options.arm, device)))
        return
    rounds_by_arm: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    for number in range(options.rounds):
        for name in ARMS if number % 2 == 0 else reversed(ARMS):
            result = run_arm(name, device)
            rounds_by_arm[name].append(result)
            print(name, result.get("failed") or result["after_each"], flush=True)
    import torch

    kind = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    result = {"machine": machine(), "torch": torch.__version__, "device": kind}
    write_result({**result, "arms": rounds_by_arm}, options.out)


if __name__ == "__main__":
    main()
