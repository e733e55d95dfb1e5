"""cuDNN."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, find_cuda_build, ok, warn
from gapless.doctor.subject import CheckSubject

_PACKAGE: Final = "nvidia-cudnn-"


def examine(subject: CheckSubject) -> CheckAnswer:
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
    major, rest = divmod(number, scale)
    return f"{major}.{rest // 100}.{rest % 100}"
