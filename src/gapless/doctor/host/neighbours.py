"""Other processes that use the processors."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.host.processors import count_usable
from gapless.doctor.subject import CheckSubject

_MAX_BUSY_SHARE: Final = 0.25  # of the processors
_MAX_NAMES: Final = 3


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at what others run: services, other trainings, a build.

    What they take, loader workers and the training thread lack, and no measurement is steady.
    """
    words = (subject.files.text("proc/loadavg") or "").split()
    usable = count_usable(subject)
    if not words or usable is None:
        return unknown("/proc/loadavg cannot be read")
    processors = f"{usable} processor{'s' * (usable != 1)}"
    evidence = f"a load of {words[0]} on {processors} over the last minute"
    use = subject.use
    if use is None:
        return unknown(f"{evidence}; processes of others cannot be seen")
    taken = sum(process.processors for process in use.busy)
    busiest = sorted(use.busy, key=lambda process: -process.processors)[:_MAX_NAMES]
    idle = len(subject.allowed_cpus or ()) - use.hidden - taken  # a quota may be of idle ones
    if min(use.hidden, usable - idle) > _MAX_BUSY_SHARE * usable:
        return warn(
            f"{evidence}; what cannot be seen from here keeps {use.hidden:.1f} processors busy, "
            f"what can be seen {taken:.1f}",
            "top, on the host of this container, or as root",
        )
    names = ", ".join(
        f"{process.name} ({process.number}) {process.processors:.0%}" for process in busiest
    )
    if taken > _MAX_BUSY_SHARE * usable:
        numbers = ",".join(str(process.number) for process in busiest)
        return warn(f"{evidence}; busy now: {names}", f"ps -o pid,user,etime,args -p {numbers}")
    return ok(f"{evidence}; others keep {taken:.1f} processors busy now")
