"""Start a command and stand between it and its parent, as if we were not there.

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

from gapless.launch import witness

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
_SET_BY_PYTHON: Final = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
)  # ignored by our interpreter, not by theirs
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
    before: frozenset[int]


@contextmanager
def watched_signals() -> Generator[Signals]:
    """Block what is passed on, in this thread and those that it starts; afterwards it is as before.

    What whoever started us has ignored (``nohup``) stays ignored, in the command, too.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = {each for each in _PASSED_ON if signal.getsignal(each) != signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched | {signal.SIGCHLD})
    try:
        yield Signals(frozenset(watched), frozenset(before))
    finally:
        while signal.sigtimedwait(watched | {signal.SIGCHLD}, 0) is not None:
            pass  # meant for the command, which is gone
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible() -> Generator[None]:
    """Let SIGTERM interrupt what follows as Ctrl-C does: with ``KeyboardInterrupt``.

    SIGHUP does not: a shell sends another one after the terminal's, which ended the command.
    """
    changed = {signal.SIGTERM: signal.default_int_handler, signal.SIGHUP: signal.SIG_IGN}
    ours = [each for each in changed if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, changed[each])
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def start(command: Sequence[str], environment: Mapping[str, str], signals: Signals) -> int:
    """Start a command and give its process id. Raises ``StartError``."""
    try:
        return _spawn(command, environment, signals)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _refused(command[0], error) from None
    import shutil  # 5 ms that only this takes

    script = shutil.which(command[0]) or command[0]  # without a #! line; so do shells and execvp
    return _spawn(("/bin/sh", script, *command[1:]), environment, signals)


def _spawn(command: Sequence[str], environment: Mapping[str, str], signals: Signals) -> int:
    return os.posix_spawnp(
        command[0],
        list(command),
        environment,
        setsigmask=signals.before,
        setsigdef=_SET_BY_PYTHON,
    )


def _refused(name: str, error: OSError) -> StartError:
    if error.errno == errno.ENOENT:
        lacking = (
            f"{name}: No such file or directory" if "/" in name else f"{name}: command not found"
        )
        return StartError(f"{lacking}{_hint(name)}", _NOT_FOUND)
    return StartError(f"{name}: {error.strerror}", _NOT_EXECUTABLE)


def _hint(name: str) -> str:
    """Say what was probably meant by a command that does not exist; empty where nothing is near."""
    if name.endswith(".py") and os.path.exists(name):  # noqa: PTH110 - pathlib: 5 ms
        return f"; a script needs its interpreter: python {name}"
    if " " in name:
        return "; leave out the quotes around the command"
    return ""


@dataclass
class _Standing:
    """Whether the command stands still, and whether we were told to."""

    stopped: bool = False
    asked: bool = False

    def follow(self) -> None:
        """Stop with the command: our parent, a shell, waits for that."""
        if self.stopped and self.asked:
            self.asked = False
            os.kill(os.getpid(), signal.SIGSTOP)


def wait(child: int, signals: Signals, group: witness.Witness | None) -> int:
    """Wait for the end of the command; give its exit code, or the signal's number, negative."""
    standing = _Standing()
    while True:
        told = signal.sigwaitinfo(signals.watched | {signal.SIGCHLD})
        if told.si_signo != signal.SIGCHLD:
            _pass_on(child, told, group, standing)
        code = _changes(child, standing)
        if code is not None:
            return code
        standing.follow()


def _pass_on(
    child: int, told: signal.struct_siginfo, group: witness.Witness | None, standing: _Standing
) -> None:
    number = told.si_signo
    standing.asked = standing.asked or number in _STOPPING
    if told.si_code == _FROM_KERNEL or told.si_pid == child:
        return
    if group.saw(number) if group is not None else number == signal.SIGINT:
        return
    with suppress(ProcessLookupError, PermissionError):  # it changed its user
        os.kill(child, number)


def _changes(child: int, standing: _Standing) -> int | None:
    """Take note of what became of the command; give its exit code if it ended."""
    kinds = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG
    while (change := os.waitid(os.P_PID, child, kinds)) is not None:
        if change.si_code == os.CLD_EXITED:
            return change.si_status
        if change.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
            return -change.si_status
        standing.stopped = change.si_code == os.CLD_STOPPED
        standing.asked = standing.asked and standing.stopped
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
