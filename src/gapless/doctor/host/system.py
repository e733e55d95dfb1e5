"""The kernel, its files and file systems, and who waited for what."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, combine, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_MIN_OPEN_FILES: Final = 256
_USUAL_OPEN_FILES: Final = 1024  # what most systems give
_WANTED_OPEN_FILES: Final = 65536
_CHOICE: Final = re.compile(r"\[([\w-]+)\]")
_MIN_FREE: Final = 1 << 30  # bytes
_SLOW_SCHEDULERS: Final = ("bfq", "cfq")  # they sort by process, which costs a fast disk
_MIN_RELEASE: Final = (5, 5)  # accelerate warns below it: trainings were seen to hang
# per cent of the last minute: from there on it is worth a warning, and from there on bad
_PRESSURE_BOUNDS: Final = {
    ("cpu", "some"): (25.0, 101.0),
    ("io", "full"): (10.0, 50.0),
    ("memory", "full"): (1.0, 10.0),
}
_AVERAGE: Final = "avg60="
_PRESSURE_REMEDIES: Final = {
    "cpu": "ps -eo pid,user,pcpu,comm --sort=-pcpu | head",
    "io": "sudo iotop -o",
    "memory": "ps -eo pid,user,rss,comm --sort=-rss | head",
}


def examine_open_files(subject: CheckSubject) -> CheckAnswer:
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
    wanted = _WANTED_OPEN_FILES if limit.hard is None else min(_WANTED_OPEN_FILES, limit.hard)
    remedy = f"ulimit -n {wanted}"
    if wanted <= limit.soft <= _USUAL_OPEN_FILES:
        remedy = "docker run --ulimit nofile=65536; else raise it in /etc/security/limits.conf"
    if limit.soft < _MIN_OPEN_FILES:
        return bad(f"{evidence}: a few workers use them up", remedy)
    if limit.soft <= _USUAL_OPEN_FILES:
        return warn(f"{evidence}: workers that hand over many tensors use them up", remedy)
    return ok(evidence)


def examine_storage(subject: CheckSubject) -> CheckAnswer:
    """Look at the file system's type and device: its I/O scheduler, read-ahead, room.

    How fast it is read: ``gapless doctor --data PATH`` measures that.
    """
    folder = subject.folder
    if folder.why is not None or folder.device is None:
        return unknown(folder.why or f"{folder.path} cannot be looked at")
    kind = _read_kind(subject)
    evidence = f"{folder.path} is on {kind or 'an unknown file system'}"
    space = folder.space
    if space is not None and space.total and space.free < _MIN_FREE < space.total:
        free = f"{size(space.free)} of {size(space.total)}"
        return warn(f"{evidence} with {free} free", f"df -h {folder.path}; du -xsh {folder.path}/*")
    queue = _find_queue(subject)
    if queue is None:
        return ok(f"{evidence}, without a disk of its own here")
    disk = queue.rpartition("/queue")[0].rpartition("/")[2]
    match = _CHOICE.search(subject.files.text(f"{queue}/scheduler") or "")
    scheduler = match.group(1) if match else "unknown"
    turns = subject.files.number(f"{queue}/rotational") == 1
    ahead = subject.files.number(f"{queue}/read_ahead_kb")
    evidence += f", scheduler {scheduler}, reads {ahead} KiB ahead"
    if scheduler in _SLOW_SCHEDULERS and not turns:
        command = f"echo none | sudo tee /{queue}/scheduler"
        return warn(f"{evidence}: on a disk that does not turn that costs speed", command)
    if turns and disk.startswith("sd"):
        evidence += "; the disk turns: some 100 small files a second"
        return warn(evidence, f"gapless doctor --data {folder.path}; keep small files on an SSD")
    return ok(evidence)


def _read_kind(subject: CheckSubject) -> str | None:
    """Return the file system's type and source, as mounted."""
    if subject.folder.device is None:
        return None
    device = ":".join(map(str, subject.folder.device))
    for line in (subject.files.text("proc/self/mountinfo") or "").splitlines():
        head, _, tail = line.partition(" - ")
        fields, words = head.split(), tail.split()
        if len(fields) > 2 and fields[2] == device and len(words) > 1:  # noqa: PLR2004 - the third
            return f"{words[0]} {words[1]}"
    return None


def _find_queue(subject: CheckSubject) -> str | None:
    """Return the folder of the device's queue; a partition has that of its disk."""
    if subject.folder.device is None:
        return None
    device = "sys/dev/block/" + ":".join(map(str, subject.folder.device))
    link = subject.files.root / device
    if not subject.files.exists(device):
        return None
    folder = link.resolve()
    for candidate in (folder, folder.parent):
        if (candidate / "queue").is_dir():
            return str((candidate / "queue").relative_to(subject.files.root.resolve()))
    return None


def examine_kernel(subject: CheckSubject) -> CheckAnswer:
    """Look at the kernel's release, and whether this is a container or a virtual machine."""
    match = re.match(r"(\d+)\.(\d+)", subject.release or "")
    if match is None:
        return unknown("the system does not tell its kernel's release")
    evidence = f"Linux {subject.release}{_describe_surroundings(subject.files)}"
    if (int(match[1]), int(match[2])) < _MIN_RELEASE:
        return warn(
            f"{evidence}: trainings with several processes were seen to hang below 5.5",
            "upgrade the kernel: sudo apt-get install linux-generic, or as your system has it",
        )
    return ok(evidence)


def _describe_surroundings(files: HostFiles) -> str:
    """Return " in a container", " in a virtual machine", both, or nothing."""
    words: list[str] = []
    if files.exists(".dockerenv") or files.exists("run/.containerenv"):
        words.append("a container")
    if re.search(r"^flags\s*:.*\bhypervisor\b", files.text("proc/cpuinfo") or "", re.MULTILINE):
        words.append("a virtual machine")
    return f" in {' in '.join(words)}" if words else ""


def examine_pressure(subject: CheckSubject) -> CheckAnswer:
    """Look at the kernel's pressure stall information of the last minute.

    some: at least one task waited; full: all that were not idle did.
    """
    answers: list[CheckAnswer] = []
    for (kind, share), (warn_at, bad_at) in _PRESSURE_BOUNDS.items():
        percent = _read_average(subject, kind, share)
        if percent is None:
            continue
        task = "tasks" if share == "some" else "all tasks"
        evidence = f"{task} waited for {kind} {percent:.0f} % of the last minute"
        if percent >= warn_at:
            answer = bad if percent >= bad_at else warn
            answers.append(answer(evidence, _PRESSURE_REMEDIES[kind]))
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
