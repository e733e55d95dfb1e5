"""Start a command, and stand between it and its parent as if we were not there.

The command inherits the terminal, the process group and every open file. Signals are not handled
but waited for (``sigwaitinfo``), blocked in all our threads, so that none comes at a bad moment and
each says who sent it: what the terminal sends reaches the command by itself, what was sent to us
alone is passed on. The launcher stops when the command stops and dies as the command died.
"""

import errno
import os
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from gapless.launch import signal_witness

_FROM_KERNEL: Final = 0x80  # si_code SI_KERNEL: the terminal's; its whole foreground group has it
_STOPPING: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_PASSED_ON: Final = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGTERM,
        signal.SIGCONT,
        signal.SIGWINCH,
        signal.SIGXCPU,
        *_STOPPING,
    }
)
# ignored by our interpreter, not by theirs
_SET_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_SET_DUMPABLE: Final = 4  # linux/prctl.h
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


class StartError(Exception):
    """The command could not be started; ``code`` is what a shell would end with."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Signals:
    """What we wait for, and what was blocked before we came."""

    watched: frozenset[int]
    blocked_before: frozenset[int]


@contextmanager
def watch_signals() -> Generator[Signals]:
    """Block what is passed on, in this thread and those that it starts, as long as the block runs.

    What our parent has ignored (``nohup``) stays ignored, in the command, too.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = {number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, watched | {signal.SIGCHLD})
    try:
        yield Signals(frozenset(watched), frozenset(blocked_before))
    finally:
        while signal.sigtimedwait(watched | {signal.SIGCHLD}, 0) is not None:
            pass  # meant for the command, which is gone
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)


@contextmanager
def interruptible() -> Generator[None]:
    """Let SIGTERM interrupt what follows as Ctrl-C does: with ``KeyboardInterrupt``.

    SIGHUP does not: a shell sends another one after the terminal's, which ended the command.
    """
    handlers = {signal.SIGTERM: signal.default_int_handler, signal.SIGHUP: signal.SIG_IGN}
    default_signals = [number for number in handlers if signal.getsignal(number) is signal.SIG_DFL]
    for number in default_signals:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in default_signals:
            signal.signal(number, signal.SIG_DFL)


def start(command: Sequence[str], environment: Mapping[str, str], signals: Signals) -> int:
    """Start a command and return its process id. Raises ``StartError``."""
    try:
        return _spawn(command, environment, signals)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _make_start_error(command[0], error) from None
    import shutil  # 5 ms that only this takes

    script = shutil.which(command[0]) or command[0]  # without a #! line; so do shells and execvp
    return _spawn(("/bin/sh", script, *command[1:]), environment, signals)


def _spawn(command: Sequence[str], environment: Mapping[str, str], signals: Signals) -> int:
    return os.posix_spawnp(
        command[0],
        list(command),
        environment,
        setsigmask=signals.blocked_before,
        setsigdef=_SET_BY_PYTHON,
    )


def _make_start_error(name: str, error: OSError) -> StartError:
    if error.errno == errno.ENOENT:
        sentence = (
            f"{name}: No such file or directory" if "/" in name else f"{name}: command not found"
        )
        return StartError(f"{sentence}{_hint(name)}", _NOT_FOUND)
    return StartError(f"{name}: {error.strerror}", _NOT_EXECUTABLE)


def _hint(name: str) -> str:
    """Suggest what was meant by a command that does not exist; empty where nothing is near."""
    if name.endswith(".py") and os.path.exists(name):  # noqa: PTH110 - pathlib: 5 ms
        return f"; a script needs its interpreter: python {name}"
    if " " in name:
        return "; leave out the quotes around the command"
    return ""


@dataclass
class _JobControl:
    """Whether the command stands still, and whether we were told to."""

    stopped: bool = False
    stop_requested: bool = False

    def follow(self) -> None:
        """Stop when the command stops: our parent, a shell, waits for that."""
        if self.stopped and self.stop_requested:
            self.stop_requested = False
            os.kill(os.getpid(), signal.SIGSTOP)


def wait(child: int, signals: Signals, group: signal_witness.Witness | None) -> int:
    """Wait for the end of the command; return its exit code, or the signal's number, negative."""
    job = _JobControl()
    while True:
        info = signal.sigwaitinfo(signals.watched | {signal.SIGCHLD})
        if info.si_signo != signal.SIGCHLD:
            _pass_on(child, info, group, job)
        code = _take_changes(child, job)
        if code is not None:
            return code
        job.follow()


def _pass_on(
    child: int, info: signal.struct_siginfo, group: signal_witness.Witness | None, job: _JobControl
) -> None:
    number = info.si_signo
    job.stop_requested = job.stop_requested or number in _STOPPING
    if info.si_code == _FROM_KERNEL or info.si_pid == child:
        return
    if group.saw(number) if group is not None else number == signal.SIGINT:
        return
    with suppress(ProcessLookupError, PermissionError):  # it changed its user
        os.kill(child, number)


def _take_changes(child: int, job: _JobControl) -> int | None:
    """Note how the command's state changed; return its exit code if it ended."""
    kinds = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG
    while (change := os.waitid(os.P_PID, child, kinds)) is not None:
        if change.si_code == os.CLD_EXITED:
            return change.si_status
        if change.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
            return -change.si_status
        job.stopped = change.si_code == os.CLD_STOPPED
        job.stop_requested = job.stop_requested and job.stopped
    return None


def die_by(number: int) -> NoReturn:
    """End this process by a signal, as the command was, without a core file of our own."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    import ctypes  # 10 ms that only this takes

    with suppress(OSError, AttributeError):  # a limit of 0 does not bind a core file that is piped
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    with suppress(OSError, ValueError):  # SIGKILL cannot be set
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
