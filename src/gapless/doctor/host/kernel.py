"""The kernel, and what it runs in."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject

_MIN_RELEASE: Final = (5, 5)  # accelerate warns below it: trainings were seen to hang


def examine(subject: CheckSubject) -> CheckAnswer:
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
