"""Checks of GPUs, on drawn readings; NVML is a stand-in that is handed over."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from gapless.doctor.gpu_watch import add_loads, watch_load
from gapless.doctor.gpus import GpuLoad, GpuSurvey, survey_gpus
from tests.doctor.drawing import H100, NO_GPU, SURVEY, check, draw, survey

SAMPLES_S = 0.35  # some of these
LOAD = GpuLoad(20, (5, 16), 1905, 61, {0x4: 0.5})


@pytest.mark.parametrize(
    ("name", "overrides", "verdict", "words"),
    [
        ("gpu", {}, "ok", "1 × NVIDIA H100 80GB HBM3, driver 570.124.06"),
        ("gpu-sharing", {}, "ok", "600.0 MiB of 80.0 GiB in use"),
        ("gpu-sharing", {"processes": (7, 9)}, "warn", "2 other processes on it (7, 9)"),
        ("gpu-sharing", {"memory_used": 30 << 30}, "warn", "not seen from here"),
        ("gpu-persistence", {"persistent": False}, "warn", "off"),
        ("gpu-persistence", {"persistent": None}, "unknown", "does not show"),
        ("gpu-errors", {}, "ok", "ECC on"),
        ("gpu-errors", {"uncorrected_errors": 3}, "bad", "3 memory errors"),
        ("gpu-errors", {"remapped": (0, 1, True, False)}, "warn", "next reset"),
        ("gpu-errors", {"remapped": (0, 1, False, True)}, "bad", "failed"),
        ("gpu-errors", {"ecc": None, "remapped": None}, "ok", "no ECC"),
        ("gpu-mig", {"mig": True}, "warn", "slice"),
        ("gpu-mig", {}, "ok", "not divided"),
        ("gpu-link", {}, "ok", "generation 1 × 16 at rest, of 5 × 16"),
        ("gpu-link", {"load": LOAD}, "ok", "generation 5 × 16 while it was measured"),
        ("gpu-link", {"load": replace(LOAD, link=(3, 16))}, "warn", "slower than"),
        ("gpu-link", {"link": (5, 8)}, "warn", "50% of the lanes"),
        ("gpu-link", {"link": None}, "unknown", "does not show"),
        ("gpu-clocks", {}, "ok", "345 of 1980 MHz at rest"),
        ("gpu-clocks", {"throttle": 0x40}, "bad", "too hot"),
        ("gpu-clocks", {"throttle": 0x2}, "warn", "its clocks are limited by a setting"),
        ("gpu-clocks", {"load": LOAD}, "ok", "at its power limit in 50% of the samples"),
        ("gpu-clocks", {"load": replace(LOAD, throttled={0x80: 0.4})}, "bad", "power supply"),
        ("gpu-clocks", {"load": replace(LOAD, throttled={0x80: 0.05})}, "ok", "1905 of"),
        (
            "gpu-clocks",
            {"load": replace(LOAD, clock_mhz=900, throttled={})},
            "warn",
            "nothing says why",
        ),
        ("gpu-temperature", {}, "ok", "35 °C at rest; it slows down at 87 °C"),
        ("gpu-temperature", {"temperature_c": 80}, "warn", "80 °C"),
        ("gpu-temperature", {"load": replace(LOAD, temperature_c=86)}, "bad", "measured"),
        ("gpu-temperature", {"slowdown_c": None}, "ok", "35 °C at rest"),
        ("gpu-power", {}, "ok", "700 W, by default 700 W"),
        ("gpu-power", {"power_limit_w": 500.0}, "warn", "large products run slower"),
    ],
)
def test_a_gpu_is_judged(
    name: str, overrides: dict[str, object], verdict: str, words: str, tmp_path: Path
) -> None:
    result = check(name, draw(tmp_path, survey=survey(**overrides)))
    assert (result.verdict, words in result.evidence) == (verdict, True), result
    assert (result.remedy is not None) == (verdict in {"bad", "warn"})


def test_a_card_on_the_bus_that_no_driver_shows_is_bad(tmp_path: Path) -> None:
    folder = "sys/bus/pci/devices/0000:1b:00.0"
    files = {f"{folder}/vendor": "0x10de", f"{folder}/class": "0x030200"}
    assert check("gpu", draw(tmp_path, files)).verdict == "bad"
    hidden = draw(tmp_path, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert check("gpu", hidden).remedy == "unset CUDA_VISIBLE_DEVICES"
    assert check("gpu", draw(tmp_path / "none")).verdict == "unknown"


def test_processors_near_a_gpu(tmp_path: Path) -> None:
    nodes = {
        "sys/devices/system/node/node0/cpulist": "0-3",
        "sys/devices/system/node/node1/cpulist": "4-7",
        "sys/bus/pci/devices/0000:1b:00.0/local_cpulist": "4-7",
        "sys/bus/pci/devices/0000:1b:00.0/numa_node": "1",
    }
    result = check("gpu-affinity", draw(tmp_path, nodes, survey=SURVEY))
    assert result.verdict == "warn"
    assert result.remedy == "numactl --cpunodebind=1 --membind=1 python train.py"
    all_cpus = draw(tmp_path, nodes, survey=SURVEY, allowed_cpus=frozenset(range(8)))
    assert check("gpu-affinity", all_cpus).verdict == "ok"
    assert check("gpu-affinity", draw(tmp_path / "none", survey=SURVEY)).verdict == "unknown"


def test_the_worst_of_several_gpus_counts_and_is_named(tmp_path: Path) -> None:
    gpus = [replace(H100, number=number) for number in range(4)]
    gpus[2] = replace(gpus[2], power_limit_w=300.0)
    result = check("gpu-power", draw(tmp_path, survey=GpuSurvey(tuple(gpus))))
    assert result.verdict == "warn"
    assert result.evidence.startswith("GPU 2: 300 W")
    well = check("gpu-mig", draw(tmp_path, survey=GpuSurvey(tuple(gpus))))
    assert well.evidence == "GPUs 0–3: not divided"


def test_without_a_gpu_all_are_unknown_with_the_reason(tmp_path: Path) -> None:
    for name in ("gpu-sharing", "gpu-link", "gpu-clocks", "gpu-architecture", "cuda-driver"):
        result = check(name, draw(tmp_path))
        assert (result.verdict, result.evidence) == ("unknown", NO_GPU.why)


class NvmlError(Exception):
    """What the stand-in raises."""


class StandInNvml:
    """Two GPUs; what is not listed is not supported."""

    NVMLError = NvmlError
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 0

    def __init__(self, **answers: object) -> None:
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 2,
            "nvmlSystemGetDriverVersion": b"570.1",
            "nvmlSystemGetCudaDriverVersion": 12080,
            "nvmlDeviceGetName": "NVIDIA L4",
            "nvmlDeviceGetCudaComputeCapability": (8, 9),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:1B:00.0"),
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5, total=9),
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7)],
            "nvmlDeviceGetEnforcedPowerLimit": 72_000,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=99),
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x24,
            "nvmlDeviceGetClockInfo": 1500,
            "nvmlDeviceGetTemperature": 70,
            "nvmlDeviceGetCurrPcieLinkGeneration": 4,
            "nvmlDeviceGetCurrPcieLinkWidth": 8,
            **answers,
        }

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(handle: object = None, *_: object) -> Any:  # noqa: ANN401
            if name == "nvmlDeviceGetHandleByIndex":
                return handle
            if name not in self.answers:
                raise NvmlError("Not Supported")
            return self.answers[name]

        return call


def test_what_nvml_refuses_is_absent() -> None:
    gpu_survey = survey_gpus("1", StandInNvml())
    (gpu,) = gpu_survey.gpus
    assert (gpu_survey.driver, gpu_survey.cuda) == ("570.1", (12, 8))
    assert (gpu.number, gpu.name, gpu.capability) == (1, "NVIDIA L4", (8, 9))
    assert (gpu.bus, gpu.ecc, gpu.processes) == ("0000:1b:00.0", True, (7,))
    assert (gpu.link, gpu.power_limit_w) == ((4, 8), 72.0)
    assert (gpu.max_link, gpu.persistent, gpu.mig, gpu.remapped) == (None, None, None, None)


def test_hidden_gpus_are_said_to_be_hidden() -> None:
    assert survey_gpus("", StandInNvml()).why == "CUDA_VISIBLE_DEVICES hides all GPUs"
    assert survey_gpus(None, StandInNvml(nvmlDeviceGetCount=0)).why == "there is no GPU"


def test_a_gpu_is_watched_while_it_works() -> None:
    with watch_load(StandInNvml(), 1) as loads:
        time.sleep(SAMPLES_S)
    (load,) = loads
    assert load.samples > 0
    assert (load.link, load.clock_mhz, load.temperature_c) == ((4, 8), 1500, 70)
    assert load.throttled == {0x4: 1.0, 0x20: 1.0}
    (gpu,) = add_loads(SURVEY, {0: load}).gpus
    assert gpu.load is load


def test_a_gpu_at_rest_or_lost_leaves_no_load() -> None:
    idle = StandInNvml(nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=0))
    with watch_load(idle, 0) as loads:
        time.sleep(SAMPLES_S)
    assert loads == []
    lost = StandInNvml()
    del lost.answers["nvmlDeviceGetUtilizationRates"]
    with watch_load(lost, 0) as loads:
        time.sleep(SAMPLES_S)
    assert loads == []
