"""The machine's constants on a GPU: plausible, and in the order in which they must be."""

import json
import subprocess
import sys

import pytest

from gapless.launch import probing
from gapless.launch.probing import Asked
from gapless.model.machine import Constants
from gapless.report.machine_constants import lines

pytestmark = pytest.mark.gpu
LONGEST_S = 60.0  # 25 are meant; a cold disk may make importing torch slow
SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Constants:
    asked = Asked(device=0, path=str(tmp_path_factory.mktemp("data")))
    measured = probing.measure(sys.executable, asked, print)
    print("\n".join(lines(measured)))
    return measured


def known(found: Constants, name: str, at: int | None = None) -> float:
    one = found.find(name, at)
    assert one is not None, name
    assert one.value is not None, (name, one.why)
    return one.value


def test_it_comes_to_its_end_in_time(found: Constants) -> None:
    assert found.why is None
    assert found.took_s < LONGEST_S
    assert found.place is not None
    assert found.place.gpu is not None
    assert found.place.gpu.uuid
    assert found.place.gpu.why is None


def test_all_constants_of_the_gpu_are_there(found: Constants) -> None:
    wanted = ("launch.", "sync.", "kernel.", "copy.", "memory.", "profiler.", "gemm.")
    optional = {"gemm.fp8", "gemm.tf32", "gemm.bf16", "gemm.int8"}
    missing = {
        one.name: one.why
        for one in found.values
        if one.name.startswith(wanted) and one.name not in optional and one.value is None
    }
    assert missing == {}


def test_the_way_to_the_gpu_and_back_is_microseconds(found: Constants) -> None:
    assert 500 < known(found, "launch.call") < known(found, "launch.op") < 200_000
    assert 200 < known(found, "launch.lag") < 100_000
    assert 100 < known(found, "kernel.gap") < 50_000
    assert 300 < known(found, "kernel.empty") < 50_000
    assert known(found, "launch.round") > known(found, "launch.call")
    for name in ("sync.stream", "sync.event", "sync.device"):
        assert 100 < known(found, name) < 1_000_000


def test_copies_take_longer_the_larger_they_are(found: Constants) -> None:
    for way in ("h2d", "d2h"):
        for memory in ("pinned", "pageable"):
            series = found.series(f"copy.{way}.{memory}")
            assert [size for size, _ in series] == SIZES
            (_, large), (_, largest) = series[-2:]
            assert series[0][1] < large < largest


def test_pinned_memory_is_at_least_as_fast(found: Constants) -> None:
    for way in ("h2d", "d2h"):
        pinned = known(found, f"copy.{way}.pinned", 64 << 20)
        assert pinned <= known(found, f"copy.{way}.pageable", 64 << 20) * 1.05
        assert 1e9 < known(found, f"copy.{way}.pinned.bandwidth") < 2e12


def test_narrow_formats_are_at_least_as_fast(found: Constants) -> None:
    single = known(found, "gemm.fp32")
    assert single > 1e12
    for name in ("gemm.tf32", "gemm.fp16", "gemm.bf16"):
        assert found.value(name) is None or known(found, name) >= single
    assert known(found, "gemm.fp16") < 1e16


def test_the_memory_of_the_gpu_is_faster_than_the_way_to_it(found: Constants) -> None:
    copied, added = known(found, "memory.copy"), known(found, "memory.triad")
    assert 0.5 < copied / added < 2
    assert copied > known(found, "copy.h2d.pinned.bandwidth")


def test_the_profiler_costs_more_with_more_to_record(found: Constants) -> None:
    assert 20 < known(found, "profiler.op") < 100_000
    assert known(found, "profiler.launch") < known(found, "profiler.gpu_op") < 200_000


def test_a_gpu_with_too_little_free_memory_is_left_alone() -> None:
    command = [sys.executable, str(probing.PROBE), "--device=0", f"--least-free={1 << 50}"]
    done = subprocess.run([*command, "--part=memory"], capture_output=True, check=True, text=True)
    (told,) = (json.loads(line) for line in done.stdout.splitlines() if "figures" in line)
    assert all("of the GPU's memory is free" in one["why"] for one in told["figures"])


def test_gpus_reduce_together_where_there_are_two() -> None:
    import torch  # noqa: PLC0415 - only here, where there is a GPU

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    asked = Asked(device=0, ranks=2, parts=("allreduce",))
    found = probing.measure(sys.executable, asked, print)
    print("\n".join(lines(found)))
    series = found.series("allreduce")
    assert series[0][1] < series[-1][1]
    assert 1e9 < known(found, "allreduce.bandwidth") < 1e13
