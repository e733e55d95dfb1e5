"""One profiled window of a training, and its pace without a profiler."""

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule

from benchmarks.recording.cases import Case, Step

WAIT, LEAD = 1, 3  # steps before the profiled ones: profiler off, then on but not kept


def open_group(device: torch.device, rank: int, ranks: int, meeting: str) -> None:
    """Join the process group; the processes meet at a file."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    bound_device = device if device.type == "cuda" else None
    dist.init_process_group(
        backend,
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=ranks,
        device_id=bound_device,
    )


def settle(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def pace(step: Step, device: torch.device, count: int) -> dict[str, int]:
    """Measure un-profiled steps: the median by device events (or the clock), the mean by clock."""
    cuda = device.type == "cuda"
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)] if cuda else []
    clock: list[int] = []
    settle(device)
    start_ns = time.perf_counter_ns()
    for index in range(count + 1):
        if cuda:
            events[index].record()
        clock.append(time.perf_counter_ns())
        if index < count:
            step(index)
    settle(device)
    wall = time.perf_counter_ns() - start_ns
    if cuda:
        steps = [round(a.elapsed_time(b) * 1e6) for a, b in pairwise(events)]
    else:
        steps = [b - a for a, b in pairwise(clock)]
    return {
        "steps": count,
        "median_step_ns": round(statistics.median(steps)),
        "mean_step_ns": wall // count,
    }


def window(case: Case, step: Step, device: torch.device, active: int) -> bytes:
    """Profile so many steps and give the trace as the profiler writes it."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    plan = schedule(wait=WAIT, warmup=LEAD, active=active, repeat=1) if case.scheduled else None
    # The only way to ask for synchronisation records, and the tests need them.
    with_syncs = _ExperimentalConfig(enable_cuda_sync_events=True)
    settle(device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=activities,
            schedule=plan,
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
            profile_memory=case.stacks,
            with_stack=case.stacks,
            experimental_config=with_syncs,
        ) as profiler:
            for index in range(active + (WAIT + LEAD if plan else 0)):
                step(index)
                if plan:
                    profiler.step()
        return path.read_bytes()
