"""The interpreter that runs trainings."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_NAME_IT: Final = "gapless doctor --python /path/to/python"
_MIN_VERSION: Final = (3, 9)


def examine(subject: CheckSubject) -> CheckAnswer:
    """Find the interpreter: of the last run here, else the first python on PATH; it must start."""
    report = subject.interpreter
    if report.python is None:
        return unknown(report.origin, _NAME_IT)
    if report.facts is None:
        evidence = f"{report.python} ({report.origin}): {report.why}"
        return warn(evidence, _NAME_IT) if report.is_guess else bad(evidence, _NAME_IT)
    version = report.facts.python
    evidence = f"{report.python} ({report.origin}), Python {version}"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _MIN_VERSION:
        return bad(f"{evidence}: gapless records from 3.9 on", _NAME_IT)
    return ok(evidence)
