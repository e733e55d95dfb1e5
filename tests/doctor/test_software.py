"""Checks of packages and switches, on drawn interpreters and environments."""

from pathlib import Path

import pytest

from gapless.doctor.gpus import GpuSurvey
from gapless.doctor.interpreter import InterpreterReport, PillowBuild
from tests.doctor.drawing import SURVEY, check, draw, report, survey

SILENT = InterpreterReport("/x/python", "the first python on PATH", True, None, "it ended with 1")  # noqa: FBT003


def test_an_interpreter_must_start(tmp_path: Path) -> None:
    assert check("interpreter", draw(tmp_path)).evidence == (
        "/env/bin/python (--python), Python 3.12.3"
    )
    assert check("interpreter", draw(tmp_path, interpreter=SILENT)).verdict == "warn"
    named = InterpreterReport("/x/python", "--python", False, None, "it ended with 1")  # noqa: FBT003
    assert check("interpreter", draw(tmp_path, interpreter=named)).verdict == "bad"
    old = draw(tmp_path, interpreter=report(python="3.6.9"))
    assert check("interpreter", old).verdict == "bad"
    none = draw(tmp_path, interpreter=InterpreterReport(None, "no python is on PATH"))
    assert check("interpreter", none).verdict == "unknown"


@pytest.mark.parametrize(
    ("facts", "gpus", "verdict", "words"),
    [
        ({}, SURVEY, "ok", "torch 2.8.0+cu128, built with CUDA 12.8"),
        ({"torch": None}, SURVEY, "bad", "not installed"),
        ({"torch_why": "OSError: libc10.so"}, SURVEY, "bad", "libc10.so"),
        ({"cuda": None, "torch": "2.8.0+cpu"}, SURVEY, "bad", "cannot use the GPU"),
        ({"cuda": None, "torch": "2.8.0+cpu"}, GpuSurvey(), "ok", "without CUDA"),
        ({"cuda": None, "hip": "6.4"}, GpuSurvey(), "ok", "ROCm 6.4"),
        ({"sees_gpu": False, "gpu_why": "driver too old"}, SURVEY, "bad", "driver too old"),
        ({"debug": True}, SURVEY, "bad", "debug build"),
        ({"torch": "2.1.0"}, SURVEY, "warn", "from 2.4 on"),
        ({"complete": False}, SURVEY, "ok", "built with CUDA 12.8"),
        ({"complete": False, "built": False}, SURVEY, "unknown", "is installed"),
    ],
)
def test_torch_must_suit_the_machine(
    facts: dict[str, object], gpus: GpuSurvey, verdict: str, words: str, tmp_path: Path
) -> None:
    result = check("torch", draw(tmp_path, survey=gpus, interpreter=report(**facts)))
    assert (result.verdict, words in result.evidence) == (verdict, True), result


def test_torch_that_is_absent_where_nobody_named_the_interpreter_is_a_warning(
    tmp_path: Path,
) -> None:
    facts = report(torch=None).facts
    guess = InterpreterReport("/usr/bin/python3", "the first python on PATH", True, facts)  # noqa: FBT003
    result = check("torch", draw(tmp_path, interpreter=guess))
    assert result.verdict == "warn"
    assert "gapless doctor --python" in (result.remedy or "")


@pytest.mark.parametrize(
    ("driver", "known", "cuda", "sees_gpu", "verdict"),
    [
        ("570.124.06", (12, 8), "12.8", True, "ok"),
        ("580.65.06", (13, 0), "12.8", True, "ok"),
        ("535.104.05", (12, 2), "12.8", True, "warn"),  # minor-version compatibility
        ("535.104.05", (12, 2), "13.0", False, "bad"),
        ("535.104.05", (12, 2), "13.0", True, "warn"),  # cuda-compat
        ("515.65.01", (11, 7), "12.1", False, "bad"),
        ("570.124.06", (12, 8), None, False, "ok"),
    ],
)
def test_the_driver_must_know_the_cuda_of_torch(  # noqa: PLR0917
    driver: str,
    known: tuple[int, int],
    cuda: str | None,
    sees_gpu: bool,
    verdict: str,
    tmp_path: Path,
) -> None:
    gpus = GpuSurvey(SURVEY.gpus, None, driver, known)
    subject = draw(tmp_path, survey=gpus, interpreter=report(cuda=cuda, sees_gpu=sees_gpu))
    assert check("cuda-driver", subject).verdict == verdict


@pytest.mark.parametrize(
    ("capability", "architectures", "verdict"),
    [
        ((9, 0), ("sm_80", "sm_90"), "ok"),
        ((8, 6), ("sm_80", "sm_90"), "ok"),
        ((8, 0), ("sm_86",), "bad"),
        ((9, 0), ("sm_80", "compute_80"), "warn"),  # compiled from PTX
        ((9, 0), ("sm_80",), "bad"),
        ((10, 0), ("sm_90a", "sm_100a"), "ok"),
        ((10, 3), ("sm_100a",), "bad"),
        ((12, 1), ("sm_120",), "ok"),
        (None, ("sm_80",), "unknown"),
    ],
)
def test_torch_needs_code_for_the_gpu(
    capability: tuple[int, int] | None, architectures: tuple[str, ...], verdict: str, tmp_path: Path
) -> None:
    subject = draw(
        tmp_path,
        survey=survey(capability=capability),
        interpreter=report(architectures=architectures),
    )
    assert check("gpu-architecture", subject).verdict == verdict


def test_cudnn_is_the_one_that_was_installed_for_torch(tmp_path: Path) -> None:
    packages = {"nvidia-cudnn-cu12": "9.10.2.21"}
    assert check("cudnn", draw(tmp_path, interpreter=report(packages=packages))).verdict == "ok"
    other = draw(tmp_path, interpreter=report(packages=packages, cudnn=8902))
    assert "8.9.2 is loaded" in check("cudnn", other).evidence
    absent = draw(tmp_path, interpreter=report(cudnn=None, cudnn_why="found 8.1"))
    assert check("cudnn", absent).verdict == "bad"
    broken = draw(tmp_path, interpreter=report(torch_why="OSError: x"))
    assert check("cudnn", broken).verdict == check("nccl", broken).verdict == "unknown"


def test_nccl_that_is_cut_off_counts_with_several_gpus(tmp_path: Path) -> None:
    environment = {"NCCL_P2P_DISABLE": "1"}
    assert check("nccl", draw(tmp_path, survey=SURVEY, environment=environment)).verdict == "ok"
    two = GpuSurvey(SURVEY.gpus * 2)
    result = check("nccl", draw(tmp_path, survey=two, environment=environment))
    assert (result.verdict, result.remedy) == ("warn", "unset NCCL_P2P_DISABLE")


def test_torchvision_must_be_built_for_this_torch(tmp_path: Path) -> None:
    def vision(version: str, needs: str | None) -> str:
        facts = report(packages={"torchvision": version}, vision_needs=needs)
        return check("torchvision", draw(tmp_path, interpreter=facts)).verdict

    assert vision("0.23.0+cu128", "==2.8.0") == "ok"
    assert vision("0.22.0", "==2.7.0") == "bad"
    assert vision("0.23.0+cpu", "==2.8.0") == "warn"
    assert check("torchvision", draw(tmp_path)).evidence == "not installed"


def test_dali_must_be_for_the_same_cuda(tmp_path: Path) -> None:
    def dali(name: str) -> str:
        return check("dali", draw(tmp_path, interpreter=report(packages={name: "1.50"}))).verdict

    assert dali("nvidia-dali-cuda120") == "ok"
    assert dali("nvidia-dali-cuda110") == "warn"


def test_pillow_without_turbo_is_named(tmp_path: Path) -> None:
    def pillow(**facts: object) -> str:
        return check("pillow", draw(tmp_path, interpreter=report(**facts))).verdict

    assert pillow(pillow=PillowBuild("11.0", turbo=True, jpeg="3.1")) == "ok"
    assert pillow(pillow=PillowBuild("11.0", turbo=False, jpeg="9.5")) == "warn"
    assert pillow(pillow_why="ImportError: libjpeg.so.8") == "warn"
    assert pillow() == "ok"


@pytest.mark.parametrize(
    ("environment", "verdict", "remedy"),
    [
        ({}, "ok", None),
        (
            {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG": "WARN", "PYTHONMALLOC": "pymalloc"},
            "ok",
            None,
        ),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "bad", "unset CUDA_LAUNCH_BLOCKING"),
        ({"NCCL_DEBUG": "info"}, "warn", "unset NCCL_DEBUG"),
        (
            {"NCCL_DEBUG": "INFO", "PYTHONMALLOC": "debug"},
            "bad",
            "unset PYTHONMALLOC NCCL_DEBUG",
        ),
        ({"PYTORCH_JIT": "0"}, "warn", "unset PYTORCH_JIT"),
    ],
)
def test_debug_switches_that_are_on(
    environment: dict[str, str], verdict: str, remedy: str | None, tmp_path: Path
) -> None:
    result = check("debug-switches", draw(tmp_path, environment=environment))
    assert (result.verdict, result.remedy) == (verdict, remedy)


def test_determinism_switches(tmp_path: Path) -> None:
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NVIDIA_TF32_OVERRIDE": "1"}
    result = check("determinism", draw(tmp_path, environment=environment))
    assert result.verdict == "warn"
    assert "NVIDIA_TF32_OVERRIDE" not in result.evidence
    assert check("determinism", draw(tmp_path)).verdict == "ok"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("expandable_segments:True", "ok"),
        ("max_split_size_mb:512", "ok"),
        ("garbage_collection_threshold:0.6,max_split_size_mb:32", "warn"),
    ],
)
def test_allocator_settings(value: str, verdict: str, tmp_path: Path) -> None:
    environment = {"PYTORCH_CUDA_ALLOC_CONF": value}
    result = check("allocator-settings", draw(tmp_path, environment=environment))
    assert result.verdict == verdict
    assert value in result.evidence


@pytest.mark.parametrize(
    ("environment", "threads", "verdict"),
    [
        ({}, 4, "ok"),
        ({}, 64, "warn"),
        ({"OMP_NUM_THREADS": "16"}, 4, "warn"),
        ({"OMP_NUM_THREADS": "1"}, 1, "warn"),
        ({"OMP_PROC_BIND": "true"}, 4, "warn"),
        ({"OMP_PROC_BIND": "false", "KMP_AFFINITY": "none"}, 4, "ok"),
        ({"KMP_AFFINITY": "granularity=fine,compact"}, 4, "warn"),
    ],
)
def test_threads_against_processors(
    environment: dict[str, str], threads: int, verdict: str, tmp_path: Path
) -> None:
    subject = draw(tmp_path, environment=environment, interpreter=report(threads=threads))
    assert check("threads", subject).verdict == verdict


@pytest.mark.parametrize("name", ["torch", "torchvision", "dali", "pillow", "cudnn", "nccl"])
def test_an_interpreter_that_says_nothing_leaves_it_unknown(name: str, tmp_path: Path) -> None:
    result = check(name, draw(tmp_path, interpreter=SILENT))
    assert (result.verdict, result.evidence) == ("unknown", "it ended with 1")
