"""Small traces as torch.profiler writes them, for tests that read them back. Times are µs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
DEVICE: Event = {"id": 0, "name": "NVIDIA Test", "computeMajor": 9, "computeMinor": 0}


def host(cat: str, name: str, start: float, end: float, *, tid: int = 1, **args: Any) -> Event:  # noqa: ANN401
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 100,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def op(name: str, start: float, end: float, *, dims: object = None, tid: int = 1) -> Event:
    args = {} if dims is None else {"Input Dims": dims, "Input type": ["float"] * len(list(dims))}  # type: ignore[call-overload]
    return host("cpu_op", name, start, end, tid=tid, **args)


def annotation(name: str, start: float, end: float) -> Event:
    return host("user_annotation", name, start, end)


def python(name: str, start: float, end: float) -> Event:
    return host("python_function", name, start, end)


def call(number: int, start: float, end: float, name: str = "cudaLaunchKernel") -> Event:
    return host("cuda_runtime", name, start, end, correlation=number)


def activity(
    cat: str,
    name: str,
    number: int,
    start: float,
    end: float,
    *,
    stream: int = 7,
    device: int = 0,
    **args: Any,  # noqa: ANN401
) -> Event:
    track_args = {"device": device, "stream": stream, "correlation": number}
    event = host(cat, name, start, end, tid=stream, **track_args, **args)
    return {**event, "pid": device}


def kernel(name: str, number: int, start: float, end: float, **args: Any) -> Event:  # noqa: ANN401
    return activity("kernel", name, number, start, end, **args)


def memory(time_us: float, size: int, allocated: int, reserved: int) -> Event:
    args = {
        "Addr": 1,
        "Device Id": 0,
        "Device Type": 1,
        "Bytes": size,
        "Total Allocated": allocated,
        "Total Reserved": reserved,
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": time_us,
        "args": args,
    }


def write(path: Path, events: Iterable[Event], **top: Any) -> Path:  # noqa: ANN401
    """Write a trace; further keys stand beside the events."""
    document = {
        "schemaVersion": 1,
        "deviceProperties": [DEVICE],
        **top,
        "traceEvents": list(events),
    }
    path.write_text(json.dumps(document))
    return path


def step(number: int, *, late: float = 0) -> list[Event]:
    """Return the events of one training step of 1,000 µs, ``late`` µs of it spent in Python.

    Two kernels (200 and 20 µs) and a pinned copy (40 µs, 1 MB), each launched by an operator.
    """
    start = number * 1000.0
    n = number * 10
    return [
        annotation(f"ProfilerStep#{number}", start, start + 1000),
        annotation("forward", start + 100, start + 300),
        op("aten::linear", start + 110, start + 200, dims=[[64, 128], [256, 128]]),
        op("aten::addmm", start + 120, start + 180, dims=[[256], [64, 128], [128, 256]]),
        call(n + 1, start + 130, start + 140),
        kernel(
            "sm90_xmma_gemm_bf16bf16_tensorop",
            n + 1,
            start + 150,
            start + 350,
            grid=[2, 1, 1],
            block=[128, 1, 1],
            **{"registers per thread": 90, "est. achieved occupancy %": 25},
        ),
        op("aten::relu", start + 210, start + 240, dims=[[64, 256]]),
        call(n + 2, start + 215, start + 220),
        kernel("vectorized_elementwise_kernel", n + 2, start + 350, start + 370),
        op("aten::copy_", start + 400 + late, start + 440 + late, dims=[[64, 256]]),
        call(n + 3, start + 405 + late, start + 410 + late, "cudaMemcpyAsync"),
        activity(
            "gpu_memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            n + 3,
            start + 420 + late,
            start + 460 + late,
            bytes=1_000_000,
        ),
    ]


def training(steps: int = 8, slow: int | None = None) -> list[Event]:
    """Return some steps, one of which may take 300 µs more in Python before its copy."""
    events = [
        python("train.py(10): main", 0, steps * 1000.0),
        python("torch/nn/modules/linear.py(5): forward", 0, 1),
    ]
    for number in range(steps):
        events += step(number, late=300 if number == slow else 0)
    return events
