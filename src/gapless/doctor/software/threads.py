"""Threads of the libraries that compute on processors."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.host.processors import count_usable
from gapless.doctor.subject import CheckSubject

_COUNTS: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_BINDINGS: Final = {
    "OMP_PROC_BIND": ("true", "close", "spread", "master"),
    "GOMP_CPU_AFFINITY": (),
    "KMP_AFFINITY": (),
}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare thread counts with the processors that can be used.

    More threads than processors wait for one another; bound threads hand their binding on to
    loader workers, which then share one core.
    """
    usable = count_usable(subject)
    if usable is None:
        return unknown("this system does not say which processors a process may use")
    environment = subject.environment
    counts = {name: environment[name] for name in _COUNTS if environment.get(name)}
    words = ", ".join(f"{name}={value}" for name, value in counts.items()) or "no count is set"
    facts = subject.interpreter.facts
    if facts is not None and facts.threads is not None:
        words += f"; torch starts {facts.threads} threads"
    words += f" for {usable} processors"
    set_counts = [int(value) for value in counts.values() if value.isdecimal()]
    n_threads = [*set_counts, *([facts.threads] if facts is not None and facts.threads else [])]
    if any(count > usable for count in n_threads):
        return warn(f"{words}: they wait for one another", f"export OMP_NUM_THREADS={usable}")
    bound = [name for name in _BINDINGS if _is_bound(name, environment.get(name, ""))]
    if bound:
        evidence = f"{words}; {', '.join(bound)} binds threads, and loader workers inherit it"
        return warn(evidence, f"unset {' '.join(bound)}")
    if 1 in set_counts and usable > 1 and not subject.survey.gpus:
        evidence = f"{words}: one computes, without a GPU"
        return warn(evidence, f"export OMP_NUM_THREADS={usable}")
    return ok(words)


def _is_bound(name: str, value: str) -> bool:
    """Return whether a variable binds threads to processors."""
    if not value or value.lower() in {"false", "none", "disabled"}:
        return False
    return not _BINDINGS[name] or value.lower() in _BINDINGS[name]
