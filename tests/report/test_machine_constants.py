"""The machine's constants as text."""

from inline_snapshot import snapshot

from gapless.model.machine import Constant, Constants, Gpu, Platform
from gapless.report.sections.machine_constants import constant_lines


def constant(name: str, unit: str, value: float | None, **fields: object) -> Constant:
    spread = None if value is None else (value * 0.9, value * 1.1)
    low, high = spread or (None, None)
    defaults = {"at": None, "low": low, "high": high, "times": 30, "spent_s": 0.5}
    return Constant(name, unit, value=value, **{**defaults, **fields})  # type: ignore[arg-type]


def test_each_constant_has_a_line_and_what_is_absent_its_reason() -> None:
    platform = Platform(
        "/usr/bin/python3", "3.12.3", "2.11.0", "A processor", 16, "nfs server:/data",
        Gpu("A GPU", "6b29", "580.1"),
    )  # fmt: skip
    values = (
        constant("launch.call", "ns", 2100.0),
        constant("copy.h2d.pinned", "ns", 1.2e6, at=64 << 20),
        constant("copy.h2d.pinned.bandwidth", "B/s", 55e9),
        constant("gemm.bf16", "FLOP/s", 7.9e14, note="matrices 8192 wide"),
        constant("cpu.gemm.fp32", "FLOP/s", 9.1e10, at=1),
        constant("decode.pillow", "1/s", 712.0),
        constant("process.import_torch", "ns", 2.5e9, low=None, high=None, times=1),
        constant("gemm.fp8", "FLOP/s", None, why="needs 8.9"),
        constant("gemm.tf32", "FLOP/s", None, why="needs 8.9"),
        constant("decode.torchvision", "1/s", None, why="not\x1b[31m installed"),
    )
    constants = Constants(
        platform, values, ("launches",), 0.0, 21.5, notes=("busy",), why="it hung"
    )
    assert "\n".join(constant_lines(constants)) == snapshot("""\
A processor, 16 processors, Python 3.12.3, torch 2.11.0
A GPU, 6b29, driver 580.1
data on nfs server:/data
measured in 21.5 s
incomplete: it hung
launch.call                         2.10 µs  1.89 µs – 2.31 µs           × 30
copy.h2d.pinned 64.0 MiB            1.20 ms  1.08 ms – 1.32 ms           × 30
copy.h2d.pinned.bandwidth         55.0 GB/s  49.5 GB/s – 60.5 GB/s       × 30
gemm.bf16                       790 TFLOP/s  711 TFLOP/s – 869 TFLOP/s   × 30, matrices 8192 wide
cpu.gemm.fp32 1 thread         91.0 GFLOP/s  81.9 GFLOP/s – 100 GFLOP/s  × 30
decode.pillow                         712/s  641/s – 783/s               × 30
process.import_torch                 2.50 s                              × 1
not observed (needs 8.9): gemm.fp8, gemm.tf32
not observed (not installed): decode.torchvision
note: busy\
""")


def test_without_a_place_there_is_only_the_reason() -> None:
    assert constant_lines(Constants(None, (), (), 0.0, 0.012, why="no python")) == snapshot(
        ("measured in 12.0 ms", "incomplete: no python")
    )
