"""Drawn machines: files below a folder, an interpreter, GPUs, and what was measured of them."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gapless.doctor.checks import GROUPS
from gapless.doctor.gpus import GpuReading, GpuSurvey
from gapless.doctor.host_files import HostFiles
from gapless.doctor.interpreter import InterpreterReport, PackageFacts
from gapless.doctor.subject import CheckSubject, GpuMeasurement
from gapless.model.checkup import CheckResult
from gapless.model.machine import Constant, Constants

FACTS = PackageFacts(
    executable="/env/bin/python",
    python="3.12.3",
    torch="2.8.0+cu128",
    cuda="12.8",
    threads=4,
    architectures=("sm_80", "sm_90", "compute_90"),
    cudnn=91002,
    nccl="2.27.3",
    sees_gpu=True,
    devices=1,
    built=True,
    complete=True,
)
H100 = GpuReading(
    number=0,
    name="NVIDIA H100 80GB HBM3",
    uuid="GPU-1",
    capability=(9, 0),
    bus="0000:1b:00.0",
    link=(1, 16),
    max_link=(5, 16),
    persistent=True,
    ecc=True,
    uncorrected_errors=0,
    remapped=(0, 0, False, False),
    mig=False,
    clock_mhz=345,
    max_clock_mhz=1980,
    throttle=1,
    temperature_c=35,
    slowdown_c=87,
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    processes=(),
    memory_used=600 << 20,
    memory_total=80 << 30,
    busy_percent=0,
)
SURVEY = GpuSurvey((H100,), None, "570.124.06", (12, 8))
NO_GPU = GpuSurvey(why="no GPU was seen (NVML: NVML Shared Library Not Found)")


def draw(root: Path, files: Mapping[str, str] | None = None, **overrides: object) -> CheckSubject:
    """Return a machine with these files below a root: four processors, torch, no GPU."""
    for name, text in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subject = CheckSubject(
        files=HostFiles(root),
        allowed_cpus=frozenset(range(4)),
        n_cpus=4,
        interpreter=report(),
        survey=NO_GPU,
    )
    return replace(subject, **overrides)  # type: ignore[arg-type]


def report(**overrides: object) -> InterpreterReport:
    """Return an interpreter that says these facts, which was named."""
    facts = replace(FACTS, **overrides)  # type: ignore[arg-type]
    return InterpreterReport("/env/bin/python", "--python", False, facts)  # noqa: FBT003


def survey(**overrides: object) -> GpuSurvey:
    """Return a machine with one H100 that differs in these."""
    return replace(SURVEY, gpus=(replace(H100, **overrides),))  # type: ignore[arg-type]


def measure(figures: Mapping[str, float]) -> Constants:
    """Return what a probe measured; a name with ``@`` behind it was measured at that size."""
    values = [
        Constant(name.partition("@")[0], "", _size(name), value, None, None, 9, 0.1)
        for name, value in figures.items()
    ]
    return Constants(None, tuple(values), (), 0.0, 1.0)


def _size(name: str) -> int | None:
    size = name.partition("@")[2]
    return int(size) if size else None


def measured(figures: Mapping[str, float]) -> tuple[GpuMeasurement, ...]:
    """Return what was measured on the first GPU."""
    return (GpuMeasurement(0, measure(figures)),)


def check(name: str, subject: CheckSubject) -> CheckResult:
    """Return what a check says of a machine."""
    examine = next(checks[name] for checks in GROUPS.values() if name in checks)
    answer = examine(subject)
    return CheckResult(name, answer.verdict, answer.evidence, answer.remedy)
