"""Files that a process may have open."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_MIN_FILES: Final = 256
_USUAL_FILES: Final = 1024  # what most systems give
_WANTED_FILES: Final = 65536


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the limit of open files: each tensor that a worker hands over may hold one.

    Datasets that return many tensors run into it: "received 0 items of ancdata", "Too many open
    files".
    """
    limit = subject.open_files
    if limit is None:
        return unknown("this system has no such limit")
    if limit.soft is None:
        return ok("no limit")
    hard = "no hard limit" if limit.hard is None else f"{limit.hard} at most"
    evidence = f"{limit.soft} ({hard})"
    wanted = _WANTED_FILES if limit.hard is None else min(_WANTED_FILES, limit.hard)
    remedy = f"ulimit -n {wanted}"
    if wanted <= limit.soft <= _USUAL_FILES:
        remedy = "docker run --ulimit nofile=65536; else raise it in /etc/security/limits.conf"
    if limit.soft < _MIN_FILES:
        return bad(f"{evidence}: a few workers use them up", remedy)
    if limit.soft <= _USUAL_FILES:
        return warn(f"{evidence}: workers that hand over many tensors use them up", remedy)
    return ok(evidence)
