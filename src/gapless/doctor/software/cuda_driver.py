"""The driver against torch's CUDA."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

# The first driver for each major version of CUDA (CUDA compatibility guide, table 2): any 12.x
# runs on it, if nothing has to be compiled from PTX.
_MIN_DRIVERS: Final = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare the newest CUDA that the driver knows with the one that torch was built with.

    Within a major version an older driver works (minor-version compatibility), but it compiles no
    newer PTX: kernels for a GPU that torch has no code for, and those of some extensions, fail.
    """
    survey, facts = subject.survey, subject.interpreter.facts
    if survey.cuda is None or survey.driver is None:
        return unknown(survey.why or "NVML does not show the driver's version")
    known = f"driver {survey.driver} (CUDA {survey.cuda[0]}.{survey.cuda[1]})"
    if facts is None or not facts.built:
        return unknown(f"{known}; {subject.interpreter.why or 'torch could not be asked'}")
    if facts.cuda is None:
        return ok(f"{known}; torch is built without CUDA")
    evidence = f"{known}, torch built with CUDA {facts.cuda}"
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
