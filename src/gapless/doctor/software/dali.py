"""NVIDIA DALI."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_PACKAGE: Final = "nvidia-dali-cuda"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look whether DALI, where it is installed, is for torch's major version of CUDA."""
    facts = subject.interpreter.facts
    if facts is None:
        return unknown(subject.interpreter.why or subject.interpreter.origin)
    name = next((name for name in facts.packages if name.startswith(_PACKAGE)), None)
    if name is None:
        return ok("not installed")
    evidence = f"{name} {facts.packages[name]}"
    major = name.removeprefix(_PACKAGE)[:2]
    if facts.cuda is not None and facts.cuda.partition(".")[0] != major:
        python = subject.interpreter.python
        wanted = f"{_PACKAGE}{facts.cuda.partition('.')[0]}0"
        return warn(
            f"{evidence}, while torch is built with CUDA {facts.cuda}",
            f"{python} -m pip uninstall {name}; {python} -m pip install {wanted}",
        )
    return ok(evidence)
