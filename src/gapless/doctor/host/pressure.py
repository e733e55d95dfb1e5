"""Time in which tasks waited for processors, memory or storage."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, combine, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

# per cent of the last minute: from there on it is worth a warning, and from there on bad
_BOUNDS: Final = {
    ("cpu", "some"): (25.0, 101.0),
    ("io", "full"): (10.0, 50.0),
    ("memory", "full"): (1.0, 10.0),
}
_AVERAGE: Final = "avg60="
_REMEDIES: Final = {
    "cpu": "ps -eo pid,user,pcpu,comm --sort=-pcpu | head",
    "io": "sudo iotop -o",
    "memory": "ps -eo pid,user,rss,comm --sort=-rss | head",
}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the kernel's pressure stall information of the last minute.

    some: at least one task waited; full: all that were not idle did.
    """
    answers: list[CheckAnswer] = []
    for (kind, share), (warn_at, bad_at) in _BOUNDS.items():
        percent = _read_average(subject, kind, share)
        if percent is None:
            continue
        task = "tasks" if share == "some" else "all tasks"
        evidence = f"{task} waited for {kind} {percent:.0f} % of the last minute"
        if percent >= warn_at:
            answer = bad if percent >= bad_at else warn
            answers.append(answer(evidence, _REMEDIES[kind]))
        else:
            answers.append(ok(f"{kind} {percent:.0f} %"))
    return combine(answers) if answers else unknown("the kernel shows no /proc/pressure")


def _read_average(subject: CheckSubject, kind: str, share: str) -> float | None:
    for line in (subject.files.text(f"proc/pressure/{kind}") or "").splitlines():
        name, *fields = line.split()
        averages = [field for field in fields if field.startswith(_AVERAGE)]
        if name == share and averages:
            return float(averages[0].removeprefix(_AVERAGE))
    return None
