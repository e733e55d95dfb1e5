"""Threads of one core."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown
from gapless.doctor.subject import CheckSubject

_CPUS: Final = "sys/devices/system/cpu"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Tell how many cores the processors are: two threads of a core share what computes."""
    if subject.allowed_cpus is None:
        return unknown("this system does not say which processors a process may use")
    files = subject.files
    siblings = {
        files.text(f"{_CPUS}/cpu{number}/topology/thread_siblings_list")
        for number in subject.allowed_cpus
    }
    if None in siblings:
        return unknown("the kernel does not show which processors are threads of one core")
    n_cpus = len(subject.allowed_cpus)
    if len(siblings) == n_cpus:
        return ok(f"{n_cpus} processors, each a core of its own")
    return ok(f"{n_cpus} processors are threads of {len(siblings)} cores")
