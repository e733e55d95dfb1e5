"""Windows that detach CUPTI, in a process of their own: ``python detaching_fit.py WHAT``.

``graphs``: beside threads that launch and copy all the time, graphs are captured before windows,
in one and behind one, and replayed throughout. ``ends``: the process ends right behind a window.
``profiled``: the user's profiler comes after windows. ``ranks``: NCCL, started by torchrun.
Prints what was seen as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from gapless.payload.windows import cupti
from gapless.payload.windows.capture import ProfilerCapture

WINDOWS, STEPS, BETWEEN = 25, 2, 3
Step = Callable[[], None]


class Saved(Protocol):
    """What a profiler gives."""

    def save(self, path: str, /) -> object: ...


def kernels(result: Saved, place: str) -> int:
    """Return how many kernels a result holds."""
    path = Path(place) / "window.json"
    result.save(str(path))
    return Counter(one.get("cat") for one in json.loads(path.read_text())["traceEvents"])["kernel"]


class Busy:
    """Threads that launch, copy from pinned memory, allocate and wait, each on its own stream."""

    def __init__(self, count: int) -> None:
        self.over, self.rounds = threading.Event(), [0] * count
        self.threads = [threading.Thread(target=self._work, args=(one,)) for one in range(count)]
        for thread in self.threads:
            thread.start()

    def _work(self, number: int) -> None:
        source = torch.zeros(1 << 14).pin_memory()
        with torch.cuda.stream(torch.cuda.Stream()):
            while not self.over.is_set():
                here = source.to("cuda", non_blocking=True)
                for _ in range(20):
                    here = here + 1
                torch.empty(1 << number, device="cuda")
                torch.cuda.current_stream().synchronize()
                assert here.sum().item() == 20 * (1 << 14)
                self.rounds[number] += 1

    def end(self) -> None:
        """End them; raises where one hangs."""
        self.over.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


def network() -> Step:
    """Return a step of a small training."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(32, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def window(step: Step, place: str) -> int:
    """Have a window over some steps, and give its kernels."""
    capture = ProfilerCapture(stacks=False)
    for _ in range(STEPS):
        step()
    return kernels(capture.stop(), place)


def counting_graph() -> tuple[Any, Any]:
    """Capture a graph that counts its replays."""
    total = torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        total += 1
    return graph, total


def graphs(place: str) -> dict[str, Any]:
    """Capture graphs and replay them, with windows all along."""
    step, seen, told = network(), list[int](), list[bool]()
    for _ in range(3):
        step()
    made, replays = [counting_graph()], [0]
    beside = Busy(3)

    def with_replays() -> None:
        step()
        for number, (graph, _) in enumerate(made):
            graph.replay()
            replays[number] += 1

    for number in range(WINDOWS):
        seen.append(window(with_replays, place))
        if number % 5 == 0:  # at once behind one: the first calls detach CUPTI
            made.append(counting_graph())
            replays.append(0)
        for _ in range(BETWEEN):
            with_replays()
    beside.end()
    torch.cuda.synchronize()
    told = [bool((total == count).all()) for (_, total), count in zip(made, replays, strict=True)]
    return {"kernels": seen, "right": told, "beside": beside.rounds}


def ends(place: str) -> dict[str, Any]:
    """Close a window and end."""
    step = network()
    step()
    seen = window(step, place)
    capture = ProfilerCapture(stacks=False)
    step()
    begun = time.perf_counter()
    capture.stop()
    return {"kernels": [seen], "stopped_s": time.perf_counter() - begun}


def profiled(place: str) -> dict[str, Any]:
    """Have windows, then sessions of the user's own profiler that follow each other at once."""
    step = network()
    step()
    before = os.environ.copy()
    ours = [window(step, place), window(step, place)]  # the second at once behind the first
    cupti.hand_back()
    theirs = list[int]()

    def ready(profiler: torch.profiler.profile) -> None:
        path = Path(place) / "theirs.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        theirs.append(Counter(one.get("cat") for one in events)["kernel"])

    schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=3)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=ready) as profiler:
        for _ in range(9):
            step()
            profiler.step()
    return {"kernels": ours, "theirs": theirs, "same": before == os.environ.copy()}


def ranks(place: str) -> dict[str, Any]:
    """Have windows between all-reduces of several ranks."""
    here = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(here)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", here))
    step, seen = network(), list[int]()
    total = torch.ones(1 << 16, device="cuda")

    def reduced() -> None:
        work = torch.distributed.all_reduce(total, async_op=True)
        step()
        work.wait()
        total.div_(torch.distributed.get_world_size())

    for _ in range(WINDOWS):
        seen.append(window(reduced, place))
        for _ in range(BETWEEN):
            reduced()
    right = bool((total == 1).all())
    torch.distributed.destroy_process_group()
    return {"kernels": seen, "right": right, "rank": here}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(globals()[sys.argv[1]](folder)) + "\n")  # at once: of ranks
