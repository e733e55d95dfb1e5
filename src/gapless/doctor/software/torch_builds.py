"""The torch that trainings use, against the driver and the GPUs; what it came with."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from gapless.doctor.answers import (
    CheckAnswer,
    bad,
    examine_gpus,
    find_cuda_build,
    ok,
    unknown,
    warn,
)
from gapless.doctor.gpus import GpuReading
from gapless.doctor.interpreter import InterpreterReport, PackageFacts
from gapless.doctor.subject import CheckSubject

_MIN_VERSION: Final = (2, 4)
# The first driver for each major version of CUDA (CUDA compatibility guide, table 2): any 12.x
# runs on it, if nothing has to be compiled from PTX.
_MIN_DRIVERS: Final = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
_CODE: Final = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
_PACKAGE: Final = "nvidia-cudnn-"
_SWITCHED_OFF: Final = {
    "NCCL_P2P_DISABLE": "no copies from GPU to GPU",
    "NCCL_SHM_DISABLE": "no shared memory between processes",
    "NCCL_IB_DISABLE": "no InfiniBand",
    "NCCL_NVLS_ENABLE": "no NVLink multicast",
}


def examine_torch(subject: CheckSubject) -> CheckAnswer:
    """Look whether torch is installed where trainings run, can be imported, and suits a GPU."""
    report = subject.interpreter
    facts = report.facts
    if facts is None:
        return unknown(report.why or report.origin)
    pip = f"{report.python} -m pip install"
    if facts.torch is None:
        return _answer_absent(report)
    if facts.torch_why is not None:
        evidence = f"torch {facts.torch} cannot be imported: {facts.torch_why}"
        return bad(evidence, f"{pip} --force-reinstall torch")
    return (
        _answer_build(subject, facts, pip)
        if facts.built
        else unknown(f"torch {facts.torch} is installed, but {report.why}")
    )


def _answer_build(subject: CheckSubject, facts: PackageFacts, pip: str) -> CheckAnswer:
    build = f"CUDA {facts.cuda}" if facts.cuda else f"ROCm {facts.hip}" if facts.hip else None
    evidence = f"torch {facts.torch}, built {f'with {build}' if build else 'without CUDA'}"
    if not facts.complete:
        evidence += f" ({subject.interpreter.why})"
    if build is None and subject.survey.gpus:
        return bad(f"{evidence}: it cannot use the GPU", f"{pip} --force-reinstall torch")
    if build is not None and facts.sees_gpu is False and subject.survey.gpus:
        why = f": {facts.gpu_why}" if facts.gpu_why else ""
        remedy = f'{facts.executable} -c "import torch; torch.cuda.init()"'
        return bad(f"{evidence}, sees no GPU{why}", remedy)
    if facts.debug:
        return bad(f"{evidence}, is a debug build", f"{pip} --force-reinstall torch")
    return _answer_version(evidence, facts.torch or "", pip)


def _answer_absent(report: InterpreterReport) -> CheckAnswer:
    evidence = f"torch is not installed in {report.python} ({report.origin})"
    if report.is_guess:
        return warn(evidence, "name the right one: gapless doctor --python /path/to/python")
    return bad(evidence, f"{report.python} -m pip install torch")


def _answer_version(evidence: str, version: str, pip: str) -> CheckAnswer:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _MIN_VERSION:
        return warn(f"{evidence}: gapless records from 2.4 on", f"{pip} --upgrade torch")
    return ok(evidence)


def examine_driver(subject: CheckSubject) -> CheckAnswer:
    """Compare the newest CUDA that the driver knows with the one that torch was built with.

    Within a major version an older driver works (minor-version compatibility), but it compiles no
    newer PTX: kernels for a GPU that torch has no code for, and those of some extensions, fail.
    """
    survey, facts = subject.survey, subject.interpreter.facts
    if survey.cuda is None or survey.driver is None:
        return unknown(survey.why or "NVML does not show the driver's version")
    driver_words = f"driver {survey.driver} (CUDA {survey.cuda[0]}.{survey.cuda[1]})"
    if facts is None or not facts.built:
        return unknown(f"{driver_words}; {subject.interpreter.why or 'torch could not be asked'}")
    if facts.cuda is None:
        return ok(f"{driver_words}; torch is built without CUDA")
    evidence = f"{driver_words}, torch built with CUDA {facts.cuda}"
    if _as_numbers(facts.cuda) <= survey.cuda:
        return ok(evidence)
    return _answer_older(subject, evidence, facts.cuda)


def _answer_older(subject: CheckSubject, evidence: str, cuda: str) -> CheckAnswer:
    """Answer for a driver that is older than torch's CUDA."""
    survey, facts = subject.survey, subject.interpreter.facts
    version = _as_numbers(cuda)
    remedy = _remedy(subject)
    min_driver = _MIN_DRIVERS.get(version[0])
    if min_driver is None or _as_numbers(survey.driver or "") < min_driver:
        if facts is not None and facts.sees_gpu:
            return warn(f"{evidence}: it works by CUDA's compatibility package", "nvidia-smi")
        return bad(f"{evidence}: the driver is too old", remedy)
    return warn(f"{evidence}: works, but compiles no PTX", remedy)


def _remedy(subject: CheckSubject) -> str:
    python, cuda = subject.interpreter.python, subject.survey.cuda or (0, 0)
    return (
        "upgrade the driver: sudo apt-get install cuda-drivers; or torch for CUDA "
        f"{cuda[0]}.{cuda[1]}: {python} -m pip install torch (pytorch.org/get-started)"
    )


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def examine_architecture(subject: CheckSubject) -> CheckAnswer:
    """Look whether torch has machine code for each GPU's architecture.

    Code of a lower minor version runs as it is (8.0 on 8.6). Where there is only PTX, the driver
    compiles each kernel when it is first used: minutes at the first start, and slower kernels.
    """
    facts = subject.interpreter.facts
    if not subject.survey.gpus:
        return unknown(subject.survey.why or "there is no GPU")
    if facts is None or not facts.complete:
        return unknown(subject.interpreter.why or "torch could not be asked")
    if facts.torch_why is not None:
        return unknown("torch cannot be imported")
    if facts.cuda is None:
        return ok("torch is built without CUDA")
    if not facts.architectures:
        return unknown("torch does not name the architectures that it was built for")
    remedy = f"{subject.interpreter.python} -m pip install --upgrade torch"
    return examine_gpus(subject.survey, partial(_examine_gpu, facts.architectures, remedy))


def _examine_gpu(names: Sequence[str], remedy: str, gpu: GpuReading) -> CheckAnswer:
    if gpu.capability is None:
        return unknown("NVML does not show its compute capability")
    major, minor = gpu.capability
    evidence = f"compute capability {major}.{minor}, torch built for {' '.join(names)}"
    codes = [match for match in map(_CODE.fullmatch, names) if match is not None]
    binaries = [match for match in codes if match[1] == "sm"]
    if any(_is_binary_for(match, major, minor) for match in binaries):
        return ok(evidence)
    if any((int(match[2]), int(match[3])) <= (major, minor) for match in codes if match[1] != "sm"):
        return warn(f"{evidence}: each kernel is compiled at its first use (PTX)", remedy)
    return bad(f"{evidence}: no kernel of torch's runs on it", remedy)


def _is_binary_for(code: re.Match[str], major: int, minor: int) -> bool:
    """Return whether machine code runs: same major, no higher minor; "a" runs there alone."""
    code_major, code_minor, kind = int(code[2]), int(code[3]), code[4]
    if kind == "a":
        return (code_major, code_minor) == (major, minor)
    return code_major == major and code_minor <= minor


def examine_cudnn(subject: CheckSubject) -> CheckAnswer:
    """Look whether torch found cuDNN, and the one that was installed for it.

    Another one in ``LD_LIBRARY_PATH`` is loaded first: slower kernels, or none.
    """
    facts = find_cuda_build(subject.interpreter)
    if isinstance(facts, CheckAnswer):
        return facts
    if facts.cudnn is None:
        remedy = f"{subject.interpreter.python} -m pip install --force-reinstall torch"
        remedy = "unset LD_LIBRARY_PATH" if "LD_LIBRARY_PATH" in subject.environment else remedy
        why = facts.cudnn_why or "there is none"
        return bad(f"torch has no cuDNN: {why}", remedy)
    loaded = _read_version(facts.cudnn)
    installed = next(
        (version for name, version in facts.packages.items() if name.startswith(_PACKAGE)), None
    )
    if installed is not None and not installed.startswith(loaded):
        return warn(
            f"{loaded} is loaded, {installed} is installed for torch", "unset LD_LIBRARY_PATH"
        )
    return ok(loaded)


def _read_version(number: int) -> str:
    """Return 9.1.0 of 90100, 8.9.2 of 8902: from 9 on the digits are grouped otherwise."""
    scale = 10_000 if number >= 10_000 else 1000  # noqa: PLR2004 - as cudnn_version.h has it
    major, remainder = divmod(number, scale)
    return f"{major}.{remainder // 100}.{remainder % 100}"


def examine_nccl(subject: CheckSubject) -> CheckAnswer:
    """Look at NCCL's version, and at ways of its that the environment switches off."""
    facts, n_gpus = find_cuda_build(subject.interpreter), len(subject.survey.gpus)
    if isinstance(facts, CheckAnswer):
        return facts
    off_value = {"NCCL_NVLS_ENABLE": "0"}
    names = [
        name for name in _SWITCHED_OFF if subject.environment.get(name) == off_value.get(name, "1")
    ]
    version = facts.nccl or "of an unknown version"
    if names and n_gpus > 1:
        words = ", ".join(f"{name} ({_SWITCHED_OFF[name]})" for name in names)
        return warn(f"{version}; the environment sets {words}", f"unset {' '.join(names)}")
    return ok(version if n_gpus > 1 else f"{version}; one GPU does not need it")
