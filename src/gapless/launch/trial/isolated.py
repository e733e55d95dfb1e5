"""Run a command apart from us: an arm of a trial, which leaves nothing behind.

It has a session of its own, an empty input, and a file for what it prints. Its records are
collected as those of any run. A supervisor (``launch.trial.supervisor``) is its parent, and ends
all its processes: when we say so, and when we die, however we die.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from gapless.launch import process_tree, search_path
from gapless.launch.environment import build_environment, make_spool
from gapless.launch.run import checking, finalize, sidecar, spool_transfer
from gapless.launch.run_spec import RunSpec
from gapless.launch.trial import supervisor
from gapless.launch.trial.turns import Seat
from gapless.launch.unobserved import Journal
from gapless.model.recording import Unobserved

_SUPERVISOR: Final = Path(supervisor.__file__)
_POLL_S: Final = 0.1
_OTHER_RANKS_S: Final = 20.0  # for the other ranks, once one has left as planned
_CLEANUP_S: Final = 0.3  # for processes that clean up when the training is gone
_HELPERS_S: Final = 2.0  # likewise, once they were asked to end
_SUPERVISOR_S: Final = 15.0
_KILLED: Final = -int(signal.SIGKILL)


class IsolatedRun(Struct, frozen=True):
    """What to run apart, where its output goes, and when to end it."""

    spec: RunSpec  # its settings say when the training leaves by itself
    output: Path  # what it prints
    deadline_s: float
    prefix: tuple[str, ...] = ()  # words before the command: ``launch.trial.sandbox.prefix``
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    folder: Path | None = None  # working folder; ours
    scratch: tuple[Path, ...] = ()  # folders that are removed should we be killed, as the spool is
    seat: Seat | None = None  # it steps in turns with another arm
    cancelled: threading.Event = field(default_factory=threading.Event)  # ended, if this is set
    watch: Callable[[Path], None] | None = None  # called with the spool, ten times a second


class IsolatedOutcome(Struct, frozen=True):
    """How it ended: 0 where its processes left as planned, the number of a signal, negative."""

    code: int
    planned: bool  # every training left at its planned step
    timed_out: bool  # it was ended for the deadline
    folder: Path  # of the run
    unobserved: tuple[Unobserved, ...]
    started_ns: int  # CLOCK_MONOTONIC, both
    ended_ns: int
    cpu_ns: int | None  # of all its processes


def run(isolated: IsolatedRun) -> IsolatedOutcome:
    """Run a command apart to its end. Raises ``OSError`` where nothing can be written or started.

    Whatever is raised here, Ctrl-C included: its processes are ended first.
    """
    with interruptible():
        spool = make_spool()
        try:
            if isolated.seat is not None:
                isolated.seat.open(spool)
            with _start_supervised(isolated, spool) as supervised:
                threads = _start_sidecar(isolated.spec, spool, supervised)
                try:
                    _wait(supervised, isolated)
                    if isolated.watch is not None:
                        isolated.watch(spool)
                    _end_processes(supervised)
                except BaseException:
                    _end_processes(supervised)
                    _stop_sidecar(threads)
                    raise
        except BaseException:
            with suppress(OSError):
                spool_transfer.remove(spool)
            raise
        end = finalize.CommandEnd(supervised.exit_code(), supervised.ended_ns)
        outcome = finalize.finalize_run(threads, end, lambda _: None)
    return IsolatedOutcome(
        code=end.code,
        planned=supervised.planned,
        timed_out=supervised.timed_out,
        folder=outcome.folder,
        unobserved=outcome.unobserved,
        started_ns=supervised.started[0],
        ended_ns=supervised.ended_ns,
        cpu_ns=supervised.cpu_ns,
    )


@contextmanager
def interruptible() -> Generator[None]:
    """Let what ends us interrupt what follows, as Ctrl-C does, where handlers can be set."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        signals = ()
    old_handlers = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


class _SupervisedCommand(Struct):
    """A command and its supervisor, and what is known of them."""

    supervisor: "subprocess.Popen[bytes]"
    life_pipe: int
    report_pipe: int
    spool: Path
    started: tuple[int, int]
    progress: checking.CheckProgress
    pid: int | None = None
    code: int | None = None
    ended_ns: int = 0
    cpu_ns: int | None = None
    planned: bool = False
    timed_out: bool = False
    supervisor_ended: bool = False
    _partial_line: bytes = b""

    def listen(self, seconds: float) -> None:
        """Take what the supervisor reports within a time."""
        if self.supervisor_ended:
            time.sleep(seconds)
        elif select.select([self.report_pipe], [], [], seconds)[0]:
            chunk = os.read(self.report_pipe, 1 << 16)
            self.supervisor_ended = not chunk
            *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
            for line in lines:
                self._take_report(json.loads(line))

    def _take_report(self, report: dict[str, Any]) -> None:
        self.pid = report.get("pid", self.pid)
        self.code = report.get("code", self.code)
        self.ended_ns = report.get("at", self.ended_ns)
        self.cpu_ns = report.get("cpu_ns", self.cpu_ns)

    def close_life_pipe(self) -> None:
        """Have the supervisor end what is left."""
        pipe, self.life_pipe = self.life_pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def exit_code(self) -> int:
        """Return the exit code; 0 for one that left as planned and was ended by us then."""
        if self.planned and self.code in {None, _KILLED}:
            return 0
        return _KILLED if self.code is None else self.code


@contextmanager
def _start_supervised(isolated: IsolatedRun, spool: Path) -> Generator[_SupervisedCommand]:
    """Start the supervisor, which starts the command; close what connects us at the end."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in isolated.variables
    }
    overrides = {name: value for name, value in isolated.variables.items() if value is not None}
    ours = build_environment({**inherited, **overrides}, spool, isolated.spec.settings)
    command, variables = search_path.keep_entry(
        isolated.spec.command, ours, spool, isolated.folder or Path()
    )
    python = (sys.executable, "-I", "-S", "-B", str(_SUPERVISOR))
    words = *isolated.prefix, *command
    scratch = json.dumps([str(folder) for folder in (spool, *isolated.scratch)])
    ours, theirs = os.pipe(), os.pipe()  # its life, what it reports
    try:
        with isolated.output.open("wb") as output:
            started = time.monotonic_ns(), time.time_ns()
            child = subprocess.Popen(  # noqa: S603 - the user's own command
                (*python, *map(str, (ours[0], theirs[1])), scratch, *words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                cwd=isolated.folder,
                pass_fds=(ours[0], theirs[1]),
                start_new_session=True,
            )
    except BaseException:
        for file in (ours[1], theirs[0]):
            os.close(file)
        raise
    finally:
        os.close(ours[0])
        os.close(theirs[1])
    progress = checking.CheckProgress(expected_end="trial")
    supervised = _SupervisedCommand(child, ours[1], theirs[0], spool, started, progress)
    try:
        yield supervised
    finally:
        supervised.close_life_pipe()
        os.close(supervised.report_pipe)


def _start_sidecar(spec: RunSpec, spool: Path, supervised: _SupervisedCommand) -> sidecar.Sidecar:
    deadline = time.monotonic() + _SUPERVISOR_S
    while (
        supervised.pid is None and not supervised.supervisor_ended and time.monotonic() < deadline
    ):
        supervised.listen(_POLL_S)
    supervisor_pid = supervised.supervisor.pid
    processes = process_tree.Tree(supervisor_pid, spool)  # orphans come to the supervisor
    lead = supervised.pid or supervisor_pid
    threads = sidecar.Sidecar(spec, spool, lead, supervised.started, Journal(spool), processes)
    threads.sightings.pass_over(supervisor_pid)
    sidecar.start(threads)
    return threads


def _wait(supervised: _SupervisedCommand, isolated: IsolatedRun) -> None:
    """Wait for the command's end, for its trainings' word that they leave, or for the deadline.

    Raises ``KeyboardInterrupt`` where it is cancelled.
    """
    deadline = time.monotonic() + isolated.deadline_s
    first_left_s: float | None = None  # when the first training had left as planned
    while not supervised.supervisor_ended:
        supervised.listen(_POLL_S)
        if isolated.watch is not None:
            isolated.watch(supervised.spool)
        if isolated.cancelled.is_set():
            raise KeyboardInterrupt
        supervised.progress.look(supervised.spool)
        has_left = supervised.progress.has_left()
        if has_left and first_left_s is None:
            first_left_s = time.monotonic()
        supervised.planned = has_left and supervised.progress.is_done()
        if supervised.planned or (
            supervised.code is not None and not supervised.progress.goes_on()
        ):
            return
        if first_left_s is not None and time.monotonic() > first_left_s + _OTHER_RANKS_S:
            return
        if time.monotonic() > deadline:
            supervised.timed_out = True
            return


def _end_processes(supervised: _SupervisedCommand) -> None:
    """End every process of the command, so that none goes on with what the user wrote behind it.

    First, at once, those that train and what waits for them, parents first; then what cleans up
    when they are gone has a moment; then the supervisor ends the rest.
    """
    supervised.ended_ns = supervised.ended_ns or time.monotonic_ns()
    for number, started in _find_training_chain(supervised).items():
        checking.send_signal(number, started, signal.SIGKILL)
    _wait_for_helpers(supervised, _CLEANUP_S)
    for number, started in _find_living(supervised).items():
        checking.send_signal(number, started, signal.SIGTERM)
    _wait_for_helpers(supervised, _HELPERS_S)
    supervised.close_life_pipe()
    deadline = time.monotonic() + _SUPERVISOR_S
    while not supervised.supervisor_ended and time.monotonic() < deadline:
        supervised.listen(_POLL_S)
    if not supervised.supervisor_ended:
        supervised.supervisor.kill()
    supervised.supervisor.wait()
    for number, started in process_tree.find_by_spool(
        supervised.spool
    ).items():  # the supervisor was killed
        checking.send_signal(number, started, signal.SIGKILL)


def _wait_for_helpers(supervised: _SupervisedCommand, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _find_living(supervised) and time.monotonic() < deadline:
        supervised.listen(_POLL_S / 5)


def _find_training_chain(supervised: _SupervisedCommand) -> dict[int, int]:
    """Return the trainings, their workers and all above them, parents first: number → start."""
    processes = _find_living(supervised)
    training_pids = {*supervised.progress.trainings, *supervised.progress.workers, supervised.pid}
    ancestors = set[int]()
    for number in training_pids & processes.keys():
        ancestor: int | None = number
        while ancestor is not None and ancestor in processes and ancestor not in ancestors:
            ancestors.add(ancestor)
            status = process_tree.read(Path("/proc"), ancestor)
            ancestor = None if status is None else status.parent
    return {number: started for number, started in processes.items() if number in ancestors}


def _find_living(supervised: _SupervisedCommand) -> dict[int, int]:
    """Return the command's processes that live, parents first: number → when it started."""
    numbers = supervisor.find_descendants(supervised.supervisor.pid)
    statuses = {number: process_tree.read(Path("/proc"), number) for number in numbers}
    return {
        number: status.started
        for number, status in statuses.items()
        if status is not None and not status.is_over
    }


def _stop_sidecar(threads: sidecar.Sidecar) -> None:
    """Let the threads end: nobody asks for the records any more."""
    threads.stop.set()
    for thread in threads.threads:
        with suppress(RuntimeError):
            thread.join(_HELPERS_S)
