"""The process that gapless attach looks at: whether it can be, and how to record it instead."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gapless import wire
from gapless.errors import NotFoundError, UsageError
from gapless.launch.process_tree import Status, read
from gapless.live.activity import PROC
from gapless.live.processes import has_torch, owner_of, read_command, read_environment

_LAUNCHERS: Final = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "lightning")
_PYTHON: Final = "python"


def check_target(pid: int, proc: Path = PROC) -> None:
    """Raise ``GaplessError`` for what is no Python process, or cannot be looked at."""
    status = read(proc, pid)
    if status is None or status.is_over:
        raise NotFoundError(f"there is no process {pid}; gapless watch --machine lists those there")
    try:
        (proc / str(pid) / "io").read_bytes()
    except PermissionError:
        raise UsageError(_refusal(pid, proc)) from None
    except OSError:
        pass  # a kernel without this file
    if not is_python(pid, proc):
        hint = ", ".join(
            f"{child} ({_short(child, proc)})" for child in _python_children(pid, proc)
        )
        below = f"; below it there are: {hint}" if hint else ""
        raise UsageError(f"process {pid} is no Python: {_short(pid, proc)}{below}")


def _refusal(pid: int, proc: Path) -> str:
    """Say why the system lets nobody look at a process, or who may."""
    if os.geteuid() == 0:
        return f"the system lets nobody look at process {pid}, not even root"
    owner = owner_of(pid, proc)
    may_look = "root" if owner == "root" else f"{owner} and root"
    return (
        f"process {pid} belongs to {owner}, and only {may_look} may look at it: "
        f"sudo gapless attach {pid}"
    )


def is_python(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process runs Python, by its program or by what it has loaded."""
    try:
        if _PYTHON in os.path.basename(os.readlink(proc / str(pid) / "exe")):  # noqa: PTH115, PTH119
            return True
    except OSError:
        pass
    program = read_command(pid, proc).split(" ")[0]
    return _PYTHON in program.rpartition("/")[2] or has_torch(pid, proc)


def _python_children(pid: int, proc: Path) -> Iterator[int]:
    statuses = dict(_statuses(proc))
    below = {pid}
    for child in sorted(statuses):  # parents first, but for a wrapped counter
        if statuses[child].parent in below:
            below.add(child)
            if child != os.getpid() and is_python(child, proc):
                yield child


def _statuses(proc: Path) -> Iterator[tuple[int, Status]]:
    for name in os.listdir(proc):  # noqa: PTH208 - hundreds of processes
        status = read(proc, int(name)) if name.isdigit() else None
        if status is not None and not status.is_over:
            yield int(name), status


def _short(pid: int, proc: Path) -> str:
    command = read_command(pid, proc)
    return f"{command[:60]} …" if len(command) > 60 else command  # noqa: PLR2004 - one line


def exact_command(pid: int, proc: Path = PROC) -> str:
    """Return the command that would record what a process does: its own, or its launcher's."""
    folder = proc / str(_command_process(pid, proc))
    words = [
        word.decode(errors="replace")
        for word in (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    ]
    command = f"gapless run {shlex.join(words)}"
    try:
        place = os.readlink(folder / "cwd")  # noqa: PTH115
    except OSError:
        return command
    return command if place == str(Path.cwd()) else f"cd {shlex.quote(place)} && {command}"


def _command_process(pid: int, proc: Path) -> int:
    """Return the launcher above a rank, else the process itself."""
    status = read(proc, pid)
    while status is not None and status.parent > 1:
        if not any(name in read_command(status.parent, proc) for name in _LAUNCHERS):
            break
        pid, status = status.parent, read(proc, status.parent)
    return pid


def is_recorded(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process was started with ``gapless run``."""
    return wire.SPOOL in read_environment(pid, proc)
