"""The machine's constants on a GPU: plausible, and in the order in which they must be."""

import json
import subprocess
import sys

import pytest

from gapless.launch import probing
from gapless.launch.probing import ProbeRequest
from gapless.model.machine import Constants
from gapless.report.sections.machine_constants import constant_lines

pytestmark = pytest.mark.gpu
LONGEST_S = 60.0  # 25 are meant; a cold disk may make importing torch slow
SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20]


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> Constants:
    request = ProbeRequest(device=0, path=str(tmp_path_factory.mktemp("data")))
    measured = probing.measure(sys.executable, request, print)
    print("\n".join(constant_lines(measured)))
    return measured


def known_value(constants: Constants, name: str, size: int | None = None) -> float:
    constant = constants.find(name, size)
    assert constant is not None, name
    assert constant.value is not None, (name, constant.why)
    return constant.value


def test_it_comes_to_its_end_in_time(constants: Constants) -> None:
    assert constants.why is None
    assert constants.took_s < LONGEST_S
    assert constants.place is not None
    assert constants.place.gpu is not None
    assert constants.place.gpu.uuid
    assert constants.place.gpu.why is None


def test_all_constants_of_the_gpu_are_there(constants: Constants) -> None:
    prefixes = ("launch.", "sync.", "kernel.", "copy.", "memory.", "gemm.")
    optional = {"gemm.fp8", "gemm.tf32", "gemm.bf16", "gemm.int8"}
    absent = {
        constant.name: constant.why
        for constant in constants.values
        if constant.name.startswith(prefixes)
        and constant.name not in optional
        and constant.value is None
    }
    assert absent == {}


def test_the_way_to_the_gpu_and_back_is_microseconds(constants: Constants) -> None:
    assert (
        500 < known_value(constants, "launch.call") < known_value(constants, "launch.op") < 200_000
    )
    assert 300 < known_value(constants, "kernel.period") < 50_000
    assert known_value(constants, "launch.round") > known_value(constants, "launch.call")


def test_copies_take_longer_the_larger_they_are(constants: Constants) -> None:
    for way in ("h2d", "d2h"):
        for memory in ("pinned", "pageable"):
            series = constants.series(f"copy.{way}.{memory}")
            assert [size for size, _ in series] == SIZES
            (_, large), (_, largest) = series[-2:]
            assert series[0][1] < large < largest


def test_pinned_memory_is_at_least_as_fast(constants: Constants) -> None:
    for way in ("h2d", "d2h"):
        pinned = known_value(constants, f"copy.{way}.pinned", 64 << 20)
        assert pinned <= known_value(constants, f"copy.{way}.pageable", 64 << 20) * 1.05
        assert 1e9 < known_value(constants, f"copy.{way}.pinned.bandwidth") < 2e12


def test_narrow_formats_are_at_least_as_fast(constants: Constants) -> None:
    single = known_value(constants, "gemm.fp32")
    assert single > 1e12
    for name in ("gemm.tf32", "gemm.fp16", "gemm.bf16"):
        assert constants.value(name) is None or known_value(constants, name) >= single
    assert known_value(constants, "gemm.fp16") < 1e16


def test_the_memory_of_the_gpu_is_faster_than_the_way_to_it(constants: Constants) -> None:
    copied, added = known_value(constants, "memory.copy"), known_value(constants, "memory.triad")
    assert 0.5 < copied / added < 2
    assert copied > known_value(constants, "copy.h2d.pinned.bandwidth")


def test_a_gpu_with_too_little_free_memory_is_left_alone() -> None:
    command = [sys.executable, str(probing.PROBE), "--device=0", f"--least-free={1 << 50}"]
    process = subprocess.run(
        [*command, "--part=memory"], capture_output=True, check=True, text=True
    )
    (record,) = (json.loads(line) for line in process.stdout.splitlines() if "figures" in line)
    assert all("of the GPU's memory is free" in figure["why"] for figure in record["figures"])
