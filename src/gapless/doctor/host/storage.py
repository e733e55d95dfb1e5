"""The file system of the data, or of the working folder."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_CHOICE: Final = re.compile(r"\[([\w-]+)\]")
_MIN_FREE: Final = 1 << 30  # bytes
_SLOW_SCHEDULERS: Final = ("bfq", "cfq")  # they sort by process, which costs a fast disk


def examine(subject: CheckSubject) -> CheckAnswer:
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
