"""GPUs are sampled by NVML: here by a stand-in, since tests run where there is no GPU."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.launch import process_tree
from gapless.launch.samplers import AbsentError, gpu
from tests.launch import starting

S = 10**9


class NVMLError(Exception):
    """What NVML's stand-in raises."""


class Nvml:
    """Stand in for pynvml: two GPUs, the first used by this process."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_TEMPERATURE_GPU = NVML_CLOCK_SM = 0
    NVML_CLOCK_MEM = NVML_PCIE_UTIL_TX_BYTES = 1
    NVML_PCIE_UTIL_RX_BYTES = 2
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 197, 198

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.used = {0: [os.getpid(), 1]}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(handle: Any = None, *_: object) -> Any:  # noqa: ANN401
            if name in self.lost:
                raise NVMLError("GPU is lost")
            return self.answer(name, handle)

        return call

    def answer(self, name: str, handle: Any) -> Any:  # noqa: ANN401
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": handle,
            "nvmlDeviceGetUUID": f"GPU-{handle}abc",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=11),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5, total=9),
            "nvmlDeviceGetPowerUsage": 250_500,
            "nvmlDeviceGetTotalEnergyConsumption": 7_000,
            "nvmlDeviceGetTemperature": 50,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetPcieThroughput": 3,
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=pid) for pid in self.used.get(handle, [])
            ],
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0),
        }
        if name == "nvmlDeviceGetFieldValues":
            raise NVMLError("Not Supported")
        return answers[name]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    stand_in = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", stand_in)  # type: ignore[arg-type]
    return stand_in


def gpu_sampler(visible: str | None, notes: dict[str, str]) -> Callable[[int], Any]:
    run_tree = process_tree.Tree(os.getpid(), Path("/nowhere"))
    run_tree.look()
    return gpu.open_sampler(run_tree, notes.__setitem__, visible)


@pytest.mark.usefixtures("nvml")
def test_only_the_gpus_that_the_run_uses_are_sampled() -> None:
    values = gpu_sampler(None, {})(S)
    assert {name.partition(".")[0] for name in values} == {"gpu0"}
    assert values["gpu0.sm"] == 37
    assert values["gpu0.power"] == 250.5
    assert values["gpu0.others"] == 1
    assert values["gpu0.pcie_rx"] == 3 * 1024


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, {"0", "1"}),
        ("1", {"1"}),
        ("1,0", {"0", "1"}),
        ("GPU-1a", {"1"}),
        ("1,-1,0", {"1"}),
        ("1,7,0", {"1"}),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_show(
    visible: str | None, numbers: set[str], nvml: Nvml
) -> None:
    nvml.used = {}  # in a container processes have other numbers: it cannot be told who uses which
    values = gpu_sampler(visible, {})(S)
    assert {name.partition(".")[0].removeprefix("gpu") for name in values} == numbers


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize("visible", ["", "-1", "7"])
def test_no_visible_gpu_is_said(visible: str) -> None:
    with pytest.raises(AbsentError, match="no GPU is visible"):
        gpu_sampler(visible, {})


def test_nvml_that_is_absent_is_said(nvml: Nvml) -> None:
    nvml.lost.add("nvmlInit")
    with pytest.raises(AbsentError, match="NVML: GPU is lost"):
        gpu_sampler(None, {})


def test_figures_that_fail_midway_are_given_up_one_by_one(nvml: Nvml) -> None:
    notes: dict[str, str] = {}
    sampler = gpu_sampler(None, notes)
    assert {"gpu0.power", "gpu0.energy"} <= sampler(S).keys()
    nvml.lost |= {"nvmlDeviceGetPowerUsage"}
    for _ in range(3):
        values = sampler(S)
        assert "gpu0.power" not in values
        assert values["gpu0.sm"] == 37
    assert notes == {"gpu0.power": "NVML: GPU is lost"}
    nvml.lost |= {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetUtilizationRates"}
    for _ in range(13):
        sampler(S)
    assert sampler(S)["gpu0.clock_sm"] == 1980
    assert {"gpu0.sm", "gpu0.others"} <= notes.keys()


def test_a_driver_that_hangs_does_not_hold_the_end(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(
        "import time\nclass NVMLError(Exception): pass\ndef nvmlInit(): time.sleep(300)\n"
    )
    process = starting.run(
        ["bash", "-c", "sleep 1; exit 4"],
        tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert process.returncode == 4
    assert starting.samples(starting.run_folder(tmp_path))
