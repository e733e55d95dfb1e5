"""What was measured against what the hardware is known to reach."""

from pathlib import Path

import pytest

from gapless.doctor.gpus import GpuLoad
from gapless.doctor.measured.peaks import find_peaks, list_peaks
from gapless.doctor.subject import DataFolder
from gapless.model.checkup import CheckResult
from gapless.model.machine import Constant, Constants
from tests.doctor.drawing import SURVEY, check, draw, measure, measured, survey

PINNED = {"copy.h2d.pinned.bandwidth": 55e9, "copy.d2h.pinned.bandwidth": 53e9}


@pytest.mark.parametrize(
    ("name", "memory", "half"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12, 989.4e12),
        ("NVIDIA H100 PCIe", 2.0e12, 756.5e12),
        ("NVIDIA H100 NVL", 3.9e12, 835.5e12),
        ("NVIDIA H200", 4.8e12, 989.4e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12, 312e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12, 312e12),
        ("NVIDIA A100 80GB PCIe", 1.935e12, 312e12),
        ("NVIDIA A10", 0.6e12, 125e12),
        ("NVIDIA L4", 0.3e12, 121e12),
        ("NVIDIA L40S", 0.864e12, 362e12),
        ("Tesla T4", 0.32e12, 65e12),
        ("Tesla V100-PCIE-16GB", 0.9e12, 112e12),
        ("NVIDIA GeForce RTX 4090", 1.008e12, 165.2e12),
        ("NVIDIA GeForce RTX 5090", 1.792e12, 209.5e12),
        ("NVIDIA B200", 7.7e12, 2250e12),
        ("NVIDIA RTX 6000 Ada Generation", 0.96e12, 364.2e12),
    ],
)
def test_a_card_is_found_by_its_name(name: str, memory: float, half: float) -> None:
    peaks = find_peaks(name)
    assert peaks is not None
    assert (peaks.memory, peaks.half) == (memory, half)


def test_each_card_names_the_document_of_its_peaks() -> None:
    peaks = list_peaks()
    assert all(card.source.startswith("NVIDIA ") for card in peaks.values())
    assert "H200" in peaks["H200"].source


@pytest.mark.parametrize(
    "name",
    [
        None,
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA A10G",
        "NVIDIA A100-SXM-64GB",
        "Tesla V100-FHHL-16GB",
        "AMD MI300X",
    ],
)
def test_other_cards_have_no_peaks(name: str | None) -> None:
    assert find_peaks(name) is None


@pytest.mark.parametrize(
    ("name", "figures", "verdict", "words"),
    [
        ("products", {"gemm.bf16": 680e12, "gemm.fp16": 650e12}, "ok", "69% of the 989.4"),
        ("products", {"gemm.bf16": 300e12}, "warn", "30%"),
        ("products", {"gemm.fp16": 90e12}, "bad", "9%"),
        ("products", {}, "unknown", "was not measured"),
        ("gpu-memory", {"memory.triad": 2.9e12, "memory.copy": 2.7e12}, "ok", "87%"),
        ("gpu-memory", {"memory.copy": 2.0e12}, "warn", "60%"),
        ("gpu-memory", {"memory.copy": 1.0e12}, "bad", "30%"),
        ("copies", PINNED, "ok", "PCIe 5 × 16 carries 63.0 GB/s"),
        ("copies", {**PINNED, "copy.d2h.pinned.bandwidth": 25e9}, "warn", "25.0 GB/s back"),
        ("copies", {"copy.h2d.pinned.bandwidth": 6e9}, "bad", "6.0 GB/s to it"),
        ("launches", {"launch.call": 2500.0, "launch.op": 4000.0}, "ok", "2.50 µs for a launch"),
        ("launches", {"launch.call": 20_000.0}, "warn", "20.0 µs"),
        ("launches", {"launch.call": 60_000.0}, "bad", "60.0 µs"),
    ],
)
def test_a_card_is_compared_with_its_data_sheet(
    name: str, figures: dict[str, float], verdict: str, words: str, tmp_path: Path
) -> None:
    subject = draw(tmp_path, survey=SURVEY, gpu_measurements=measured(figures))
    result = check(name, subject)
    assert (result.verdict, words in result.evidence) == (verdict, True), result


def test_a_card_that_is_not_listed_or_divided_is_not_judged(tmp_path: Path) -> None:
    slow = measured({"gemm.bf16": 1e12})
    unlisted = draw(tmp_path, survey=survey(name="NVIDIA X1"), gpu_measurements=slow)
    assert check("products", unlisted).evidence.endswith("the peak of NVIDIA X1 is not listed")
    divided = draw(tmp_path, survey=survey(mig=True), gpu_measurements=slow)
    assert check("products", divided).verdict == "ok"
    assert check("products", draw(tmp_path, survey=SURVEY)).verdict == "unknown"


def test_products_that_a_power_limit_holds_down_are_no_fault(tmp_path: Path) -> None:
    slow = measured({"gemm.fp16": 0.35 * 989.4e12})

    def judge(held_share: float) -> CheckResult:
        load = GpuLoad(40, (5, 16), 1200, 70, {0x4: held_share})
        return check("products", draw(tmp_path, survey=survey(load=load), gpu_measurements=slow))

    assert judge(0.1).verdict == "warn"
    assert judge(0.9).verdict == "ok"
    assert judge(0.9).evidence.endswith("which its power limits")


def test_why_it_was_not_measured_is_said(tmp_path: Path) -> None:
    constant = Constant("gemm.fp16", "", None, None, None, None, 0, 0.0, why="out of memory")
    constants = Constants(None, (constant,), (), 0.0, 1.0)
    (measurement,) = measured({})
    subject = draw(
        tmp_path,
        survey=SURVEY,
        gpu_measurements=(type(measurement)(0, constants),),
    )
    assert check("products", subject).evidence == "GPU 0: out of memory"


def test_processors_that_do_not_add_up_are_named(tmp_path: Path) -> None:
    figures = {"cpu.gemm.fp32@1": 50e9, "cpu.gemm.fp32@8": 300e9, "cpu.memory.triad@8": 90e9}
    well = check("cpu-products", draw(tmp_path, host_constants=measure(figures)))
    assert well.verdict == "ok"
    assert "300 GFLOP/s with 8 threads, 50 with one; memory 90.0 GB/s" in well.evidence
    figures["cpu.gemm.fp32@8"] = 80e9
    assert check("cpu-products", draw(tmp_path, host_constants=measure(figures))).verdict == "warn"
    assert check("cpu-products", draw(tmp_path)).verdict == "unknown"


def data_figures(cold: float, file_ns: float) -> dict[str, float]:
    return {
        "data.rate.cold@1": cold / 4,
        "data.rate.cold@8": cold,
        "data.file.cold@1": file_ns * 4,
        "data.file.cold@8": file_ns,
        "data.rate.warm@1": 5e9,
        "data.file.warm@1": 1e4,
    }


@pytest.mark.parametrize(
    ("cold", "file_ns", "verdict"),
    [(800e6, 1e5, "ok"), (30e6, 5e5, "ok"), (60e6, 5e6, "warn"), (5e6, 2e7, "bad")],
)
def test_storage_is_slow_if_neither_bytes_nor_files_come(
    cold: float, file_ns: float, verdict: str, tmp_path: Path
) -> None:
    folder = DataFolder("/data", files=40)
    constants = measure(data_figures(cold, file_ns))
    result = check("data", draw(tmp_path, folder=folder, host_constants=constants))
    assert result.verdict == verdict
    assert "by 8 readers; warm 5.0 GB/s (100,000 files/s) by 1 reader" in result.evidence


def test_a_folder_without_files_is_unknown(tmp_path: Path) -> None:
    subject = draw(tmp_path, folder=DataFolder("/data"), host_constants=measure({}))
    assert check("data", subject).evidence == "/data holds no file that can be read"
    gone = draw(tmp_path, folder=DataFolder("/data", why="/data: Stale file handle"))
    assert check("data", gone).evidence == "/data: Stale file handle"
