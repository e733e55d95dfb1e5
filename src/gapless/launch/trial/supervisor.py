"""Supervise an arm of a trial: start it, and end all that is left of it. A script of its own.

``supervisor.py LIFE REPORTS SCRATCH COMMAND…``: when the pipe LIFE closes, as the launcher says so
or is dead, every process below is ended, also those that left their parents: they come to this one.
It writes to REPORTS, a line of JSON each: the command's process, its exit code, the processor time
of all.
SCRATCH: folders, as JSON, that are removed if the launcher is dead: else it does that itself.
"""

import ctypes
import errno
import json
import os
import resource
import select
import shutil
import signal
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

_PDEATHSIG: Final = 1  # linux/prctl.h
_CHILD_SUBREAPER: Final = 36
_LEAD_VARIABLE: Final = "GAPLESS_LEAD"  # wire.LEAD
_POLL_S: Final = 0.2
_ENDING_S: Final = 10.0  # for what a driver holds
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


def main(life_pipe: int, report_pipe: int, scratch: Sequence[str], command: Sequence[str]) -> None:
    """Start the command and keep it until ``life_pipe`` closes, or all its processes have ended."""
    for file in (life_pipe, report_pipe):
        os.set_inheritable(file, False)  # noqa: FBT003 - it takes no name
    launcher = os.getppid()
    libc = ctypes.CDLL(None)
    libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    lead = os.fork()
    if lead == 0:
        _become(command, libc)
    _write_report(report_pipe, pid=lead)
    while _reap(lead, report_pipe) and not select.select([life_pipe], [], [], 0)[0]:
        signal.sigtimedwait({signal.SIGCHLD}, _POLL_S)
    until = time.monotonic() + _ENDING_S
    while _reap(lead, report_pipe) and time.monotonic() < until:
        for number in find_descendants(os.getpid()):
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.005)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    _write_report(report_pipe, cpu_ns=int((usage.ru_utime + usage.ru_stime) * 1e9))
    if os.getppid() != launcher:
        for folder in scratch:
            remove(folder)


def remove(folder: str) -> None:
    """Remove a folder; a training may take its own rights away, and overlayfs does."""
    for parent, names, _ in os.walk(folder):
        for name in names:
            with suppress(OSError):
                if not os.path.islink(path := os.path.join(parent, name)):  # noqa: PTH114, PTH118
                    os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)


def find_descendants(root: int) -> list[int]:
    """Return the processes below one, parents first."""
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    descendants = [root]
    for ancestor in descendants:
        descendants.extend(number for number, parent in parents.items() if parent == ancestor)
    return descendants[1:]


def _parent(name: str) -> int:
    with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])
    return -1


def _reap(lead: int, report_pipe: int) -> bool:
    """Reap those that ended; return whether any are left."""
    while True:
        try:
            number, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if number == 0:
            return True
        if number == lead:
            _write_report(
                report_pipe, code=os.waitstatus_to_exitcode(status), at=time.monotonic_ns()
            )


def _write_report(report_pipe: int, **values: int) -> None:
    with suppress(OSError):  # the launcher is dead
        os.write(report_pipe, json.dumps(values).encode() + b"\n")


def _become(command: Sequence[str], libc: ctypes.CDLL) -> NoReturn:
    """Become the command, in a session of its own; it dies with us, should we be killed."""
    os.setsid()
    libc.prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python alone
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.environ[_LEAD_VARIABLE] = str(os.getpid())
    try:
        try:
            os.execvp(command[0], list(command))  # noqa: S606
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execv("/bin/sh", ("/bin/sh", *command))  # noqa: S606 - a script without a #! line
    except OSError as error:
        print(f"gapless: {command[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(_NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:])
