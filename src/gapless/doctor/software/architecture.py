"""The GPUs against the code that torch was built with."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject

_CODE: Final = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def examine(subject: CheckSubject) -> CheckAnswer:
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
