"""GPUs and who computes on them, by a stand-in of NVML."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.live.gpus import GpuShare, held_reasons, open_gpus
from gapless.live.outside import attaching
from gapless.live.outside.attaching import Observer


class NVMLError(Exception):
    """What NVML's stand-in raises."""


def running(gpu: int) -> list[SimpleNamespace]:
    """Return who computes: this process on both GPUs, another, whose memory is hidden, on one."""
    if gpu == 1:
        return [SimpleNamespace(pid=os.getpid(), usedGpuMemory=7)]
    own = SimpleNamespace(pid=os.getpid(), usedGpuMemory=5)
    return [own, SimpleNamespace(pid=1, usedGpuMemory=None)]


def samples(gpu: int, since_us: int) -> list[SimpleNamespace]:
    """Return what pmon would show: two looks at this process on one GPU, one on the other."""
    assert since_us == 0
    percents = (20, 30) if gpu == 0 else (50,)
    return [SimpleNamespace(pid=os.getpid(), smUtil=percent) for percent in percents]


@pytest.fixture(autouse=True)
def nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in: Any = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda number: number,  # pyright: ignore[reportUnknownLambdaType]
        nvmlDeviceGetName=lambda _: b"NVIDIA H100",  # pyright: ignore[reportUnknownLambdaType]
        nvmlDeviceGetComputeRunningProcesses=running,
        nvmlDeviceGetProcessUtilization=samples,
    )
    monkeypatch.setitem(sys.modules, "pynvml", stand_in)


def test_who_computes_on_which_gpu() -> None:
    gpus = open_gpus()
    assert gpus is not None
    assert gpus.names() == {"gpu0": "NVIDIA H100", "gpu1": "NVIDIA H100"}
    assert gpus.use_by_process(0) == {os.getpid(): GpuShare(12, 0.75), 1: GpuShare(None, None)}
    assert gpus.used_by(frozenset({1})) == ("gpu0",)
    assert gpus.used_by(frozenset({os.getpid()})) == ("gpu0", "gpu1")


def test_what_holds_a_clock_back_is_named() -> None:
    figures = {"gpu0.throttle": 0x24, "gpu1.throttle": 0x1, "gpu0.sm": 4.0}
    assert held_reasons(figures) == {"gpu0": ("heat", "power"), "gpu1": ()}


def test_the_gpus_of_a_training_are_means_over_the_looks() -> None:
    observer = Observer(1)
    observer.figures += [
        {"gpu0.sm": 20.0, "gpu0.throttle": 0x4},
        {"gpu0.sm": 40.0, "gpu0.throttle": 0x20, "gpu0.power": 300.0},
    ]
    observer.processes[1] = None  # type: ignore[assignment]
    (gpu,) = attaching.gpu_uses(observer)
    assert (gpu.name, gpu.model, gpu.busy, gpu.power) == ("gpu0", "NVIDIA H100", 0.3, 300.0)
    assert gpu.memory_used is None
    assert gpu.held == ("power", "heat")
