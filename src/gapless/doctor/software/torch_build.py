"""torch itself."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.interpreter import InterpreterReport, PackageFacts
from gapless.doctor.subject import CheckSubject

_MIN_VERSION: Final = (2, 4)


def examine(subject: CheckSubject) -> CheckAnswer:
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
