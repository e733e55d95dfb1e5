"""Samplers: figures that are right where the kernel has them, noted where it has not."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless import wire
from gapless.launch import sampling, tree
from gapless.launch.samplers import (
    AbsentError,
    Growth,
    cpu,
    disk,
    gpu,
    memory,
    network,
    pressure,
    shortened,
)
from gapless.launch.unseen import Journal
from tests.launch import starting

S = 10**9
OURS = tree.Tree(os.getpid(), Path("/nowhere"))
KERNELS = {
    "cpu": lambda: cpu.open_sampler(OURS),
    "memory": memory.open_sampler,
    "disk": disk.open_sampler,
    "network": network.open_sampler,
}


def twice(open_sampler: Callable[[], Callable[[int], Any]]) -> dict[str, float]:
    """Give what a sampler says a tenth of a second after its first look."""
    sampler = open_sampler()
    sampler(time.monotonic_ns())
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    return sampler(time.monotonic_ns())


@pytest.mark.parametrize("name", KERNELS)
def test_this_kernels_files_are_read(name: str) -> None:
    values = twice(KERNELS[name])
    assert values
    assert all(key.startswith((f"{name}.", "process.")) for key in values)
    assert all(value >= 0 for value in values.values())


def test_processors_are_parted_into_ours_and_others() -> None:
    values = twice(KERNELS["cpu"])
    assert 0 < values["cpu.tree"] <= 130  # a tick is 10 ms; others may want the processor, too
    assert values["cpu.foreign"] >= 0
    assert values["cpu.total"] <= 100 * (os.cpu_count() or 1) + 30


def test_a_process_is_described_now_and_then() -> None:
    sampler = cpu.open_sampler(OURS)
    looks = [sampler(time.monotonic_ns()) for _ in range(5)]
    name = f"process.{os.getpid()}"
    assert [f"{name}.threads" in look for look in looks] == [True, False, False, False, True]
    assert looks[0][f"{name}.rss"] > 1 << 20
    assert f"{name}.cpu" in looks[4]


def test_memory_is_in_bytes() -> None:
    values = memory.open_sampler()(time.monotonic_ns())
    assert 1 << 28 < values["memory.available"] < values["memory.total"]


def test_pressure_is_in_per_cent_or_absent() -> None:
    try:
        values = twice(pressure.open_sampler)
    except AbsentError as error:
        assert "/proc/pressure" in str(error)  # noqa: PT017 - a kernel without it
    else:
        assert all(0 <= value <= 110 for value in values.values())
        assert "pressure.io.full" in values


def test_the_first_reading_of_a_counter_and_one_that_began_anew_say_nothing() -> None:
    growth = Growth()
    told = [growth.rate("x", at * S, value) for at, value in enumerate((5, 25, 3, 4))]
    assert told == [None, 20.0, None, 1.0]


@pytest.mark.parametrize(
    ("value", "written"), [(2.0, 2), (1 / 3, 0.333), (123456.7, 123456), (0.0, 0)]
)
def test_values_have_the_digits_that_they_are_worth(value: float, written: float) -> None:
    assert shortened(value) == written


def test_a_day_makes_no_more_than_25_000_samples() -> None:
    at, samples = 0.0, 0
    while at < 86_400:
        at += sampling.period_s(at, 0.001)
        samples += 1
    assert 15_000 < samples < 25_000
    assert sampling.period_s(600, 0.001) == 0.5
    assert sampling.period_s(0, 0.02) == 5.0  # what costs 20 ms comes seldom


def frames(journal: Journal, kind: int) -> list[dict[str, Any]]:
    log = (journal.spool / "samples.log").read_bytes()
    return [frame.text() for frame in wire.frames(log)[0] if frame.kind == kind]


def sampled(
    opened: dict[str, sampling.Opened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Journal:
    """Give the journal of six samples."""
    journal, stop = Journal(tmp_path), threading.Event()
    looks = 0

    def count(*_: float) -> float:
        nonlocal looks
        looks += 1
        if looks == 6:
            stop.set()
        return 0.0

    monkeypatch.setattr(sampling, "period_s", count)
    sampling.sample_until(stop, opened, journal)
    return journal


def test_a_sampler_that_is_absent_or_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def absent() -> sampling.Sampler:
        raise AbsentError("not here")

    def broken() -> sampling.Sampler:
        raise ValueError("at the start")

    def fails(now: int) -> dict[str, float]:
        calls.append(now)
        if len(calls) > 2:
            raise OSError(5, "gone")
        return {"fails.x": 1}

    journal = sampled(
        {"absent": absent, "broken": broken, "fails": lambda: fails, "good": lambda: steady},
        tmp_path,
        monkeypatch,
    )
    assert {note.what: note.why for note in journal.noted()} == {
        "absent": "not here",
        "broken": "ValueError: at the start",
        "fails": "gave up: OSError: [Errno 5] gone",
    }
    values = [frame["values"] for frame in frames(journal, wire.SAMPLE)]
    assert len(values) == 6
    assert all(value["good.x"] == 2 for value in values)
    assert [("fails.x" in value) for value in values] == [True, True, False, False, False, False]
    assert len(calls) == 5  # and then no more


def steady(_: int) -> dict[str, float]:
    return {"good.x": 2}


# ── GPUs ────────────────────────────────────────────────────────────────────────────────────────


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
    standing_in = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", standing_in)  # type: ignore[arg-type]
    return standing_in


def gpu_sampler(visible: str | None, notes: dict[str, str]) -> Callable[[int], Any]:
    looked = tree.Tree(os.getpid(), Path("/nowhere"))
    looked.look()
    return gpu.open_sampler(looked, notes.__setitem__, visible)


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


# ── In a run ────────────────────────────────────────────────────────────────────────────────────


def test_samples_are_in_the_run_folder(tmp_path: Path) -> None:
    starting.run(["bash", "-c", "sleep 2.2 & wait"], tmp_path)
    home = starting.folder(tmp_path)
    found = starting.samples(home)
    assert len(found) >= 2
    names = {name for values in found for name in values}
    assert {"cpu.total", "cpu.tree", "cpu.launcher", "memory.available"} <= names
    processes = {name.split(".")[1] for name in names if name.startswith("process.")}
    assert len(processes) == 2  # bash and sleep, not the launcher
    if not any(name.startswith("gpu") for name in names):
        assert starting.unseen(home)["gpu"].startswith("NVML: ")
